"""Dask engine: runs preprocessing as tasks on a cluster of workers."""
