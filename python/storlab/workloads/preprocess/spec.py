"""Table ``[[workload]]`` of a study with ``kind = "preprocess"``, and values derived from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.preprocess.params import PreprocessParams, Scale
from storlab.workloads.preprocess.rules import (
    combination_problems,
    needless_fields,
    scale_problems,
    with_scale,
)


@study_table(PreprocessParams)
class PreprocessSpec(WorkloadSpec):
    """``[[workload]] kind = "preprocess"``: conversion of click logs to training data of a DLRM."""

    # ``scale`` is set once per table. It is added to points only if it is set, so that points of
    # studies without it, and their ids, do not change.
    shared: ClassVar[frozenset[str]] = WorkloadSpec.shared | {"scale"}
    non_work_parameters: ClassVar[frozenset[str]] = frozenset({"implementation", "scale"})
    matched: ClassVar[frozenset[str]] = non_work_parameters

    kind: Literal["preprocess"] = Field(description="preprocessing of click logs for a DLRM")

    if TYPE_CHECKING:
        scale: Scale | None  # study_table derives it from PreprocessParams

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that contradicts another."""
        del values  # values lack the fields that points do not use, so the product is built again
        given, every = self.model_fields_set, PreprocessParams.every(self.product())
        scale = self.scale
        if scale is None:
            return [*combination_problems(every, given, self.engine)]
        scaled = [*scale_problems(every, given, scale, self.engine)]
        return scaled or [
            *combination_problems(
                [with_scale(values, scale) for values in every], given, self.engine
            )
        ]

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a point without those that have no effect."""
        combination = PreprocessParams.combined(params)
        point = params | dict.fromkeys(needless_fields(combination))
        scale = self.scale
        if scale is None:
            return point
        memory = with_scale(combination, scale).memory
        return point | {"memory": memory, "scale": scale.model_dump()}

    def engine_of(self, params: dict[str, Any]) -> str | None:
        """Return the engine that does the work of a point: by implementation, cluster or study."""
        implementation = PreprocessParams.combined(params).implementation
        if implementation or self.scale is None:
            return implementation or self.engine
        return self.scale.engine
