"""Study table of ``kind = "checkpoint"``, and values derived from it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.checkpoint.rules import combination_problems, own_profile

RING_FILES = 4  # of each rank, for its io_uring, in addition to the files that it writes
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
        """Set ``engine`` from ``writer`` and vice versa, since PyTorch is an engine of its own."""
        if isinstance(data, dict) and data.get("writer") == "torch" and "engine" not in data:
            return {**data, "engine": "torch"}
        if isinstance(data, dict) and data.get("engine") == "torch" and "writer" not in data:
            return {**data, "writer": "torch"}
        return data

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a point without unused ones, and with the user's profile file.

        The plan and its hash thus contain the profile as it is now.
        """
        point = CheckpointParams.combined(params)
        if point.writer != "native":
            params = params | {"preallocate": None}
        own = own_profile(point.profile)
        return params if own is None else {**params, "profile_data": own}

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each contradictory or unused field of the study table."""
        return combination_problems(
            CheckpointParams.every(values), self.model_fields_set, self.engine
        )
