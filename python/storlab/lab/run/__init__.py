"""Execution of campaigns: the runs of a plan in order, with progress, resumption and clean-up."""
