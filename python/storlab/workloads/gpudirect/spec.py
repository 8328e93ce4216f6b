"""Table ``[[workload]]`` of a study with ``kind = "gpudirect"``, and values derived from it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.common.random_choice import sequential_offsets
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.rules import combination_problems, depth_of, needless_fields

ASSUMED_BYTES_S = 2_000_000_000  # assumed rate, to estimate the time of runs bounded by bytes


@study_table(GpuDirectParams)
class GpuDirectSpec(WorkloadSpec):
    """``[[workload]] kind = "gpudirect"``: transfers between storage and GPU memory."""

    non_work_parameters: ClassVar[frozenset[str]] = frozenset(
        {"cpus", "cufile_library", "cuda_library"}
    )

    kind: Literal["gpudirect"] = Field(description="storage to GPU memory")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that is contradictory or has no effect."""
        del values  # values lack the fields that points do not use, so the product is built again
        points = GpuDirectParams.every(self.product())
        return combination_problems(points, self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return a point's parameters; fields that have no effect get their defaults."""
        (point,) = GpuDirectParams.every([params])
        kept = {name: self.default_of(name) for name in needless_fields(point)}
        return params | kept | {"queue_depth": depth_of(point)}

    def product(self) -> list[dict[str, Any]]:
        """Return all combinations of swept values; sequential access implies sequential offsets.

        ``gpu`` is a list even for one point, so it is swept only if its elements are lists.
        """
        values: dict[str, Any] = self.model_dump(mode="python", include={"gpu"})
        sets = values["gpu"] if isinstance(values["gpu"][0], list) else [values["gpu"]]
        combinations = sequential_offsets(super().product())
        return [{**one, "gpu": gpus} for one in combinations for gpus in sets]
