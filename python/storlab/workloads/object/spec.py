"""Table ``[[workload]]`` of a study with ``kind = "object"``, and values derived from it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import study_table
from storlab.workloads.common.groups import GroupedSpec
from storlab.workloads.object.groups import ObjectGroup
from storlab.workloads.object.params import ObjectParams
from storlab.workloads.object.rules import combination_problems, needless_fields

PREPARE_CONCURRENCY = 16  # lower bound for steps that are not measured


@study_table(ObjectParams)
class ObjectSpec(GroupedSpec):
    """``[[workload]] kind = "object"``: requests to an S3 store."""

    non_work_parameters: ClassVar[frozenset[str]] = frozenset({"threads"})
    amount: ClassVar[str] = "concurrency"

    kind: Literal["object"] = Field(description="object storage (S3)")
    group: list[ObjectGroup] = Field(
        default_factory=list,
        description="groups of requests that are sent at the same time, each with a load of its "
        "own; the fields of the workload are their defaults",
    )

    def needless_fields(self, params: ObjectParams) -> list[str]:
        """Return the fields that have no effect at a point because of its other parameters."""
        return needless_fields(params)

    def combination_problems(self, values: list[ObjectParams], given: set[str]) -> list[Problem]:
        """Return the problems of parameters that do not fit together."""
        return combination_problems(values, given)

    def problems_with_groups(self) -> list[Problem]:
        """Return the problems of settings of the workload that are not supported with groups."""
        # The decorator adds the parameters as fields, which mypy does not see.
        if getattr(self, "concurrency_per_operation") is None:  # noqa: B009
            return []
        what = "is not supported with groups: each group has its own concurrency and mix"
        fix = "remove it, and write a group for each kind of request"
        return [Problem(("concurrency_per_operation",), what, fix)]

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return a point's parameters; fields that have no effect get their defaults."""
        point = super().reduced(params)
        if point["concurrency_per_operation"] is not None:
            point["concurrency"] = sum(point["concurrency_per_operation"].values())
        return point
