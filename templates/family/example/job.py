"""Job of one run for the engine; its counterpart is ``crates/families/example``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.job import Job

PHASES = ("write", "read")
"""Phases of a run in order; each is a kind of operation, and of span for energy."""


class ExampleJob(Job):
    """Job that writes and reads files in a directory of its own, or removes that directory."""

    kind: ClassVar[str] = "example"

    task: Literal["run", "remove"] = "run"
    directory: str  # absolute path, created if missing
    files: int = Field(default=1, ge=1)
    file_bytes: int = Field(default=1, ge=1)
    workers: int = Field(default=1, ge=1)
