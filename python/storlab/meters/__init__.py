"""Meters, one file for each source. ``storlab.contracts.registry`` finds them."""
