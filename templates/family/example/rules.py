"""Rules on which parameters fit together, and estimates."""

from __future__ import annotations

from storlab.base.errors import Problem
from storlab.base.units import MB, NS_PER_S
from storlab.workloads.example.params import ExampleParams

ASSUMED_BYTES_S = 100 * MB
ASSUMED_FILES_S = 1000


def combination_problem(params: ExampleParams) -> Problem | None:
    """Return why parameters do not fit together, or None if they do."""
    if params.workers <= params.files:
        return None
    return Problem(("workers",), "is more than files, so that some have no work", "use fewer")


def written_bytes(params: ExampleParams) -> int:
    """Return the bytes that a run writes."""
    return params.files * params.file_size


def duration_ns(params: ExampleParams) -> int:
    """Estimate the time of a run at an assumed rate."""
    seconds = 2 * (written_bytes(params) / ASSUMED_BYTES_S + params.files / ASSUMED_FILES_S)
    return int(seconds * NS_PER_S)
