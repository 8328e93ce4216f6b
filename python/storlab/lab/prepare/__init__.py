"""Preparation of targets before runs: writing data sets, preconditioning, workloads' own steps."""
