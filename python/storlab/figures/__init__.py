"""Figures of briefs, shared by all workload families."""
