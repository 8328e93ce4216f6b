"""Identify, lock and clean up the files, devices, directories and buckets of targets."""
