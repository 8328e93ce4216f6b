"""The study table of ``kind = "object"``, and what its values come to."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.object.params import ObjectParams
from storlab.workloads.object.rules import combination_problems, needless_fields

PREPARE_CONCURRENCY = 16  # at least, of what is not measured


@study_table(ObjectParams)
class ObjectSpec(WorkloadSpec):
    """``[[workload]] kind = "object"``: requests to an S3 store."""

    asides: ClassVar[frozenset[str]] = frozenset({"threads"})

    kind: Literal["object"] = Field(description="object storage (S3)")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another, or say something of what is not done."""
        del values  # they no longer say what a point has no use for
        return combination_problems(ObjectParams.every(self.product()), self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: fields that a point has no use for have their defaults."""
        asked = ObjectParams.combined(params)
        point = params | {name: self.default_of(name) for name in needless_fields(asked)}
        if point["concurrency_per_operation"] is not None:
            point["concurrency"] = sum(point["concurrency_per_operation"].values())
        return point
