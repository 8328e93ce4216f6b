"""What Dask takes: memory as measured, time as assumed."""

from __future__ import annotations

from storlab.base.units import NS_PER_S
from storlab.workloads.preprocess.job import EngineCosts

DASK = EngineCosts(192 << 20, 192 << 20, cpu_ns_per_byte=18.0, start_ns=5 * NS_PER_S)
"""``base_bytes`` is of the process that hands out tasks; a worker is a process of its own."""
