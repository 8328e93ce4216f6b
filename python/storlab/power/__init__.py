"""Measure power during runs: read meters, integrate energy, set NVMe power states."""
