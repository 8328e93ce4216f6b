"""The figures figures."""
