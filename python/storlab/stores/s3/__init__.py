"""S3 buckets: control requests, prefixes that storlab owns, and the embedded S3 server."""
