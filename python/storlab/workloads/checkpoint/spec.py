"""Table ``[[workload]]`` of a study with ``kind = "checkpoint"``, and values derived from it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.checkpoint.rules import combination_problems, own_profile

RING_FILES = 4  # open files of each rank for its io_uring, besides those it writes
ASSUMED_BYTES_S = 1_000_000_000  # assumed rate, to estimate the time of runs


@study_table(CheckpointParams)
class CheckpointSpec(WorkloadSpec):
    """``[[workload]] kind = "checkpoint"``: checkpoints of large language models."""

    non_work_parameters: ClassVar[frozenset[str]] = frozenset(
        {"writer", "training_interval", "mtbf"}
    )
    matched: ClassVar[frozenset[str]] = frozenset({"training_interval", "mtbf"})

    kind: Literal["checkpoint"] = Field(description="checkpoints of large language models")

    @model_validator(mode="before")
    @classmethod
    def _writer_is_an_engine(cls, data: Any) -> Any:
        """Set ``engine`` from ``writer`` or vice versa, because the writer PyTorch is an engine."""
        if isinstance(data, dict) and data.get("writer") == "torch" and "engine" not in data:
            return {**data, "engine": "torch"}
        if isinstance(data, dict) and data.get("engine") == "torch" and "writer" not in data:
            return {**data, "writer": "torch"}
        return data

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Remove parameters that have no effect, and add the content of a user's profile file.

        So the plan and its hash contain the profile as it was when the plan was made.
        """
        point = CheckpointParams.combined(params)
        if point.writer != "native":
            params = params | {"preallocate": None}
        own = own_profile(point.profile)
        return params if own is None else {**params, "profile_data": own}

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that is contradictory or has no effect."""
        return combination_problems(
            CheckpointParams.every(values), self.model_fields_set, self.engine
        )
