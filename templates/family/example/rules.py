"""Checks whether parameters fit together, and estimates of bytes and time."""

from __future__ import annotations

from storlab.base.errors import Problem
from storlab.base.units import MB, NS_PER_S
from storlab.workloads.example.params import ExampleParams

ASSUMED_BYTES_S = 100 * MB
ASSUMED_FILES_S = 1000


def combination_problem(params: ExampleParams) -> Problem | None:
    """Return a problem if parameters do not fit together; None if they do."""
    if params.workers <= params.files:
        return None
    what = f"is larger than files = {params.files}, so some workers would have no work"
    return Problem(("workers",), what, f"use at most {params.files}")


def written_bytes(params: ExampleParams) -> int:
    """Return the number of bytes that a run writes."""
    return params.files * params.file_size


def duration_ns(params: ExampleParams) -> int:
    """Estimate the duration of a run in ns at an assumed rate."""
    seconds = 2 * (written_bytes(params) / ASSUMED_BYTES_S + params.files / ASSUMED_FILES_S)
    return int(seconds * NS_PER_S)
