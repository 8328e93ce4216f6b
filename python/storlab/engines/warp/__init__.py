"""The warp engine."""
