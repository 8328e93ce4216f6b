"""S3 targets: control requests, storlab's own key prefixes, leases, and the embedded server."""
