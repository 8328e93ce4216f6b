"""Monitoring of a run on the machine that generates its load: files, devices and limits."""
