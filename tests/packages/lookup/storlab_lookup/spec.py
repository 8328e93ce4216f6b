"""Study table of ``kind = "lookup"`` and its point parameters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from storlab.model.params import Params, Sweep
from storlab.model.study import WorkloadSpec, study_table
from storlab.model.types import Size


class LookupParams(Params):
    """Parameters of one point."""

    record_size: Sweep[Size] = Field(default="4KiB", description="bytes of a record; swept")  # type: ignore[assignment]


@study_table(LookupParams)
class LookupSpec(WorkloadSpec):
    """``[[workload]] kind = "lookup"``: one reader, one record at a time."""

    kind: Literal["lookup"] = Field(description="point lookups in one file")
