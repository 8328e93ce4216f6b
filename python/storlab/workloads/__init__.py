"""Workload families, one folder each, found by ``storlab.contracts.registry``."""
