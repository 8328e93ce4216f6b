"""warp engine: runs object I/O with MinIO's warp, and imports warp's result files."""
