"""Engines, one folder each. ``storlab.contracts.registry`` finds them."""
