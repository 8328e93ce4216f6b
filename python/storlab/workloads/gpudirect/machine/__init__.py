"""Checks of this machine's GPUs, drivers and PCIe that decide the path between storage and GPU."""
