"""The dlio engine."""
