"""PyTorch engines: training reads and checkpoints by the framework itself."""
