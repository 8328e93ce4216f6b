"""Workload families, such as block and training, in a folder each; the registry finds them."""
