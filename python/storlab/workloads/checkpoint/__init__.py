"""Checkpoint family: saving and restoring the state of model training."""
