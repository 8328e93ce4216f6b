"""Resource needs of pandas and Polars, for estimates: measured memory, assumed CPU time."""

from __future__ import annotations

from storlab.base.units import NS_PER_S
from storlab.workloads.preprocess.job import EngineCosts

PANDAS = EngineCosts(96 << 20, 32 << 20, cpu_ns_per_byte=17.0, start_ns=NS_PER_S)
POLARS = EngineCosts(96 << 20, 24 << 20, cpu_ns_per_byte=17.0, start_ns=NS_PER_S)
