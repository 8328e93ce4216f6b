"""The study table of ``kind = "training"``, and what its values come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem, StudyError
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.profiles import is_path, make_profile, read_tables
from storlab.workloads.training.rules import combination_problems, needless_fields

READER_FILES = 4  # of each reader: its file and its ring
READ_BYTES_S = 2_000_000_000  # assumed of storage, to estimate the time of a run
ENGINES = {"native": "native", "pytorch": "torch"}
"""Which engine a loader is."""


@study_table(TrainingParams)
class TrainingSpec(WorkloadSpec):
    """``[[workload]] kind = "training"``: what the training of a model reads."""

    asides: ClassVar[frozenset[str]] = frozenset({"loader"})

    kind: Literal["training"] = Field(description="training reads of emulated accelerators")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another."""
        del values  # they no longer say what a point has no use for
        return [
            *combination_problems(
                TrainingParams.every(self.product()), self.model_fields_set, self.engine
            )
        ]

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: a point has nothing of what it has no use for.

        A profile of the user's is read here, so that the plan holds it; where that fails, the
        plan is refused later, and results can still be read.
        """
        point = TrainingParams.combined(params)
        own = {"profile_data": _own_profile(point.profile)}
        return params | dict.fromkeys(needless_fields(point)) | own

    def engine_of(self, params: dict[str, Any]) -> str | None:
        """A loader is an engine."""
        loader = TrainingParams.combined(params).loader
        return self.engine if loader is None else ENGINES[loader]


def _own_profile(name: str) -> dict[str, Any] | None:
    if not is_path(name):
        return None
    try:
        tables = read_tables(Path(name))
        make_profile(tables, name)
    except StudyError:
        return None
    return tables
