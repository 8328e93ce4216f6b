"""Preflight checks: whether a machine or its clients can run a study without distorting results."""
