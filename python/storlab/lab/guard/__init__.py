"""The guard: nothing is written before every target has passed it."""
