"""Power and energy of runs: meters, energy integration, efficiency and NVMe power states."""
