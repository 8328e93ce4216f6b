"""Dask as an engine: preprocessing in tasks on a cluster of workers."""
