"""Points and planned runs of a study, and the plan that contains them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field

from storlab.model.types import Table


class Point(Table):
    """Combination of one target, one workload, and one value of each swept parameter."""

    target: str
    workload: str  # label of the workload
    workload_index: int
    kind: str
    engine: str
    params: dict[str, Any]
    clients: int | None = None  # number of clients; None if this machine generates the load

    @property
    def point_id(self) -> str:
        """Return a hash of the point, which does not change if other parts of the study do."""
        left_out = {"workload_index"} | ({"clients"} if self.clients is None else set())
        fields = self.model_dump(mode="json", exclude=left_out)
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class PlannedRun(Table):
    """One repeat of a point, with its position in the campaign."""

    order: int
    repeat: int  # from 1
    point_id: str

    @property
    def run_id(self) -> str:
        """Return the directory name of the run, which stays the same if a campaign is resumed."""
        return f"{self.point_id}-r{self.repeat}"


def about_run(run: PlannedRun, point: Point) -> dict[str, Any]:
    """Return the fields of a run's record that are known from the plan, by name."""
    return {
        "run_id": run.run_id,
        "point_id": run.point_id,
        "repeat": run.repeat,
        "target": point.target,
        "workload": point.workload,
        "kind": point.kind,
        "params": point.params,
        "clients": point.clients,
    }


class RoundsRule(Table):
    """When a target has run enough rounds: a metric of its tracked point was steady over five."""

    metric: str  # key of the metric, such as iops.all
    tracked: dict[str, str]  # point_id of the tracked point by target
    slope_percent: float
    excursion_percent: float


class Plan(Table):
    """Plan of a campaign, stored as ``plan.json`` before anything is executed."""

    schema_version: int = 1
    study_name: str
    study_sha256: str
    points: dict[str, Point]  # by point_id
    runs: list[PlannedRun]
    estimated_ns: int
    estimated_ns_by_target: dict[str, int] = Field(default_factory=dict)
    bytes_written: int  # without closed-loop writes, which are bounded by time: see notes
    data_bytes_by_target: dict[str, int] = Field(default_factory=dict)
    destructive: list[str] = Field(default_factory=list)  # block devices to overwrite
    # facts about the block devices to overwrite, by path
    devices: dict[str, dict[str, str | int]] = Field(default_factory=dict)
    # facts about the clients' block devices, by client, then by path; empty if unknown
    client_devices: dict[str, dict[str, dict[str, str | int]]] = Field(default_factory=dict)
    # which of the runs can be left out: see RoundsRule; None if all repeats are run
    rounds: RoundsRule | None = None
    # size and other facts of the user's files that workloads read, by path
    files: dict[str, dict[str, int]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)

    @property
    def plan_hash(self) -> str:
        """Return the hash by which a user confirms the plan.

        It covers points, order, sizes, devices and files.
        """
        fields = self.model_dump(mode="json")
        for later in ("devices", "client_devices", "files", "rounds"):
            if not fields[later]:
                del fields[later]  # keeps the hash of plans from versions without the field
        for point in fields["points"].values():
            if point["clients"] is None:
                del point["clients"]
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
