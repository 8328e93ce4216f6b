"""Workload family ``example``."""
