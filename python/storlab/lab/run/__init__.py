"""Execution of campaigns: the runs of a plan in order, progress, resuming, and clean-up."""
