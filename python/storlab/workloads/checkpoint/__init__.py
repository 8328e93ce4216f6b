"""The checkpoint family."""
