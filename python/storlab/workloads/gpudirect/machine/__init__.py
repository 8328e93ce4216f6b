"""Checks of GPUs, drivers and PCIe, which decide if transfers to a GPU can be direct."""
