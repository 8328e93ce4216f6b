"""Object family: requests to S3 buckets."""
