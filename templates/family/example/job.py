"""Job of one run, which the engine reads as JSON in ``crates/families/example``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.job import Job

PHASES = ("write", "read")
"""Phases of a run in order. Each is a kind of operation, and a span whose energy is measured."""


class ExampleJob(Job):
    """Job that writes and reads files in a new directory, or removes that directory."""

    kind: ClassVar[str] = "example"

    task: Literal["run", "remove"] = "run"
    directory: str  # absolute path, created if missing
    files: int = Field(default=1, ge=1)
    file_bytes: int = Field(default=1, ge=1)
    workers: int = Field(default=1, ge=1)
