"""Training family: data loading for the training of models, with emulated accelerators."""
