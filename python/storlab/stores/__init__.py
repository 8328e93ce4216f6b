"""Where data lies: files, devices, homes and buckets; whose they are, and how they are cleaned."""
