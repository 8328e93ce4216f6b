"""The block family."""
