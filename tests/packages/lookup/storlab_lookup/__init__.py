"""Sample package with a workload family and its engine: point lookups in one file."""
