"""Metrics, flags, parameters and figures that several workload families share."""
