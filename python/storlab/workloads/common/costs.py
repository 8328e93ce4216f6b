"""Definitions of client CPU cost and operation rate for the tables of several families."""

from __future__ import annotations

from storlab.contracts.page import RUNS, Quantity, rate

CPU_PER_IO = Quantity("cpu_us_per_io", "client CPU", "us/IO", "less", RUNS)
CPU_PER_GB = Quantity("cpu_s_per_gb", "client CPU per GB", "s/GB", "less", RUNS, short="client CPU")
IOPS = rate("iops", "operations/s", "IOPS", "IOPS")
