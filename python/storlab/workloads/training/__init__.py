"""Training family: data loading of model training."""
