"""The object family."""
