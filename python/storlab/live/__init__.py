"""A campaign in the browser, and for Prometheus, while it goes on: ``storlab run --live``."""
