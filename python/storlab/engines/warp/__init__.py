"""warp engine: object I/O by MinIO's warp, with an importer of its data."""
