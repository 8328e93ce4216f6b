"""Table ``[[workload]]`` of a study with ``kind = "training"``, and values derived from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem, StudyError
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.profiles import is_path, make_profile, read_tables
from storlab.workloads.training.rules import combination_problems, needless_fields

READER_FILES = 4  # open files of each reader: the one it reads, and those of its io_uring
READ_BYTES_S = 2_000_000_000  # assumed rate, to estimate the time of runs
ENGINES = {"native": "native", "pytorch": "torch"}
"""Engine for each loader."""


@study_table(TrainingParams)
class TrainingSpec(WorkloadSpec):
    """``[[workload]] kind = "training"``: reads of emulated accelerators in model training."""

    non_work_parameters: ClassVar[frozenset[str]] = frozenset({"loader"})

    kind: Literal["training"] = Field(description="training reads of emulated accelerators")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that contradicts another."""
        del values  # values lack the fields that points do not use, so the product is built again
        return [
            *combination_problems(
                TrainingParams.every(self.product()), self.model_fields_set, self.engine
            )
        ]

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Remove parameters that have no effect, and add the content of a user's profile file.

        So the plan contains the profile as it was when the plan was made. If the file cannot be
        read, nothing is added: the plan is refused later, but stored results can still be read.
        """
        point = TrainingParams.combined(params)
        own = {"profile_data": _own_profile(point.profile)}
        return params | dict.fromkeys(needless_fields(point)) | own

    def engine_of(self, params: dict[str, Any]) -> str | None:
        """Return the engine of a point: that of its loader, by default that of the study."""
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
