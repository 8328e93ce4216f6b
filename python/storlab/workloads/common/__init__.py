"""Code that several workload families share: metrics, flags, parameters and figures."""
