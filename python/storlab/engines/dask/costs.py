"""Resource needs of the Dask engine, for estimates: measured memory, assumed CPU time."""

from __future__ import annotations

from storlab.base.units import NS_PER_S
from storlab.workloads.preprocess.job import EngineCosts

DASK = EngineCosts(192 << 20, 192 << 20, cpu_ns_per_byte=18.0, start_ns=5 * NS_PER_S)
"""Costs of Dask: ``base_bytes`` is for the coordinator, ``worker_bytes`` for each worker."""
