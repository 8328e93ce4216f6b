"""Engine job of lookups."""

from __future__ import annotations

from typing import ClassVar

from storlab.model.job import Job


class LookupJob(Job):
    """One run: records of ``record_bytes`` at random offsets of ``path``, for ``window_ns``."""

    kind: ClassVar[str] = "lookup"

    path: str
    file_bytes: int
    record_bytes: int
    window_ns: int
