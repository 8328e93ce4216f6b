"""Table ``[[workload]]`` of a study with ``kind = "object"``, and values derived from it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.object.params import ObjectParams
from storlab.workloads.object.rules import combination_problems, needless_fields

PREPARE_CONCURRENCY = 16  # lower bound for steps that are not measured


@study_table(ObjectParams)
class ObjectSpec(WorkloadSpec):
    """``[[workload]] kind = "object"``: requests to an S3 store."""

    non_work_parameters: ClassVar[frozenset[str]] = frozenset({"threads"})

    kind: Literal["object"] = Field(description="object storage (S3)")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that is contradictory or has no effect."""
        del values  # values lack the fields that points do not use, so the product is built again
        return combination_problems(ObjectParams.every(self.product()), self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return a point's parameters; fields that have no effect get their defaults."""
        asked = ObjectParams.combined(params)
        point = params | {name: self.default_of(name) for name in needless_fields(asked)}
        if point["concurrency_per_operation"] is not None:
            point["concurrency"] = sum(point["concurrency_per_operation"].values())
        return point
