"""The study table of ``kind = "lookup"``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.study import WorkloadSpec
from storlab.model.types import Size, Swept


class LookupSpec(WorkloadSpec):
    """``[[workload]] kind = "lookup"``: one reader, one record at a time."""

    swept: ClassVar[tuple[str, ...]] = ("record_size",)

    kind: Literal["lookup"] = Field(description="point lookups in one file")
    record_size: Swept[Size] = Field(default="4KiB", description="bytes of a record; swept")  # type: ignore[assignment]
