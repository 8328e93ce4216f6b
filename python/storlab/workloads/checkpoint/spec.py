"""The study table of ``kind = "checkpoint"``, and what its values come to."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.checkpoint.rules import combination_problems, own_profile

RING_FILES = 4  # of each rank, beside those that it writes
ASSUMED_BYTES_S = 1_000_000_000  # of a checkpoint, to estimate its time before it was ever written


@study_table(CheckpointParams)
class CheckpointSpec(WorkloadSpec):
    """``[[workload]] kind = "checkpoint"``: checkpoints of large language models."""

    asides: ClassVar[frozenset[str]] = frozenset({"writer", "training_interval", "mtbf"})
    matched: ClassVar[frozenset[str]] = frozenset({"training_interval", "mtbf"})

    kind: Literal["checkpoint"] = Field(description="checkpoints of large language models")

    @model_validator(mode="before")
    @classmethod
    def _writer_is_an_engine(cls, data: Any) -> Any:
        """PyTorch is an engine of its own: ``writer`` names it, and ``engine`` follows."""
        if isinstance(data, dict) and data.get("writer") == "torch" and "engine" not in data:
            return {**data, "engine": "torch"}
        if isinstance(data, dict) and data.get("engine") == "torch" and "writer" not in data:
            return {**data, "writer": "torch"}
        return data

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Without what it has no use for, and with a profile of the user's own as it reads now.

        So the plan and its hash hold that profile.
        """
        point = CheckpointParams.combined(params)
        if point.writer != "native":
            params = params | {"preallocate": None}
        own = own_profile(point.profile)
        return params if own is None else {**params, "profile_data": own}

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another, or say something of what is not done."""
        return combination_problems(
            CheckpointParams.every(values), self.model_fields_set, self.engine
        )
