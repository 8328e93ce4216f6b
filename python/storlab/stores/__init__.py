"""Files, devices, directories and buckets of targets: identity, ownership, locks and clean-up."""
