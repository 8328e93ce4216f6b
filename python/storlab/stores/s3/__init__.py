"""Buckets: the control plane of S3 stores, prefixes that are storlab's, storlab's own server."""
