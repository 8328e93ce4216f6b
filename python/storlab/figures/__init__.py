"""Code that draws the figures of briefs, for all workload families."""
