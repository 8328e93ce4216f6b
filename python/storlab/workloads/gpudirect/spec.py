"""The study table of ``kind = "gpudirect"``, and what its values come to."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.common.drawn import sequential_offsets
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.rules import combination_problems, depth_of, needless_fields

ASSUMED_BYTES_S = 2_000_000_000  # where a run is bounded by bytes: only to estimate its time


@study_table(GpuDirectParams)
class GpuDirectSpec(WorkloadSpec):
    """``[[workload]] kind = "gpudirect"``: transfers between storage and GPU memory."""

    asides: ClassVar[frozenset[str]] = frozenset({"cpus", "cufile_library", "cuda_library"})

    kind: Literal["gpudirect"] = Field(description="storage to GPU memory")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another, or say something of what is not done."""
        del values  # they no longer say what a point has no use for
        points = GpuDirectParams.every(self.product())
        return combination_problems(points, self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: fields that a point has no use for have their defaults."""
        (point,) = GpuDirectParams.every([params])
        kept = {name: self.default_of(name) for name in needless_fields(point)}
        return params | kept | {"queue_depth": depth_of(point)}

    def product(self) -> list[dict[str, Any]]:
        """Every combination of the lists; sequential access has no other offsets.

        ``gpu`` is a list already: it is swept if it holds lists.
        """
        values: dict[str, Any] = self.model_dump(mode="python", include={"gpu"})
        sets = values["gpu"] if isinstance(values["gpu"][0], list) else [values["gpu"]]
        combinations = sequential_offsets(super().product())
        return [{**one, "gpu": gpus} for one in combinations for gpus in sets]
