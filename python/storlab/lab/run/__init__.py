"""Campaigns: the runs of a plan, one after the other."""
