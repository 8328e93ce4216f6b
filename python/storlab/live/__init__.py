"""Show a running campaign in the browser and to Prometheus (``storlab run --live``)."""
