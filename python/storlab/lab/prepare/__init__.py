"""Preparation of targets before runs: data sets, preconditioning and workload steps."""
