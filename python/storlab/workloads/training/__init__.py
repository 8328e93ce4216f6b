"""The training family."""
