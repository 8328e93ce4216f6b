"""Object family: GET, PUT and other requests to S3 buckets."""
