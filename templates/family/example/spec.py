"""Table ``[[workload]]`` of a study with ``kind = "example"``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.example.params import ExampleParams
from storlab.workloads.example.rules import combination_problem


@study_table(ExampleParams)
class ExampleSpec(WorkloadSpec):
    """``[[workload]] kind = "example"``: files that are written, flushed and read."""

    kind: Literal["example"] = Field(description="files that are written, flushed and read")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that contradicts another."""
        found = map(combination_problem, ExampleParams.every(values))
        return [problem for problem in found if problem is not None]
