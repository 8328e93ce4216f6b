"""Live view of a running campaign, in the browser and for Prometheus: ``storlab run --live``."""
