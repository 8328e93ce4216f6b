"""Outputs of ``fio --output-format=json`` with chosen numbers, as fio's documentation describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WINDOW_MS = 10_000
BLOCK = 4096


def write_fio_output(
    path: Path,
    *,
    p99_us: float,
    reads: int = 100_000,
    histogram: bool = False,
    percentiles: bool = True,
    version: str = "fio-3.36",
    target: str = "/dev/nvme0n1",
    **options: str,
) -> Path:
    """Write the output of a job of 4 KiB random reads.

    Nine tenths of the latencies are 80 us, the rest are ``p99_us``.

    Args:
        path: File to write.
        p99_us: Latency at and above the 90th percentile, in microseconds.
        reads: Number of reads in ten seconds.
        histogram: Whether the output has bins, as JSON+ has.
        percentiles: Whether the output has percentiles.
        version: Version of fio.
        target: Path that was read.
        **options: Further options of the job.
    """
    usual, slow = 80_000, round(1000 * p99_us)
    mean = 0.9 * usual + 0.1 * slow
    latency: dict[str, Any] = {
        "min": usual, "max": slow, "mean": mean, "stddev": 0.0, "N": reads,
    }  # fmt: skip
    if percentiles:
        at = {"50.000000": usual, "90.000000": usual}
        latency["percentile"] = at | dict.fromkeys(("99.000000", "99.900000", "99.990000"), slow)
    if histogram:
        latency["bins"] = {str(usual): reads * 9 // 10, str(slow): reads // 10}
    empty = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    none = {"io_bytes": 0, "runtime": 0, "total_ios": 0, "lat_ns": empty, "clat_ns": empty}
    job = {
        "jobname": "reads",
        "groupid": 0,
        "error": 0,
        "job options": {
            "filename": target, "rw": "randread", "bs": "4k", "direct": "1", "iodepth": "1",
            "ioengine": "io_uring", "size": "1GiB", "time_based": "", "runtime": "10", **options,
        },
        "read": {
            "io_bytes": reads * BLOCK, "bw_bytes": reads * BLOCK // 10, "runtime": WINDOW_MS,
            "total_ios": reads, "lat_ns": latency, "clat_ns": empty,
        },
        "write": none,
        "trim": none,
        "job_runtime": WINDOW_MS,
        "usr_cpu": 5.0,
        "sys_cpu": 10.0,
    }  # fmt: skip
    document: Mapping[str, Any] = {
        "fio version": version,
        "timestamp": 1_767_225_600,
        "timestamp_ms": 1_767_225_600_000,
        "time": "Thu Jan  1 00:00:00 2026",
        "global options": {},
        "jobs": [job],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path
