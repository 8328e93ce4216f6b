"""Points and records of the groups in a run, which are analysed like separate runs."""

from __future__ import annotations

from storlab.contracts.registry import FAMILIES
from storlab.model.point import Plan, Point
from storlab.model.result import RunRecord, group_id


def groups_of(point: Point) -> dict[str, Point]:
    """Return the groups of a point by name, each as a point of its own; empty without groups."""
    return FAMILIES[point.kind].groups(point) if point.kind in FAMILIES else {}


def points_and_groups(plan: Plan) -> dict[str, Point]:
    """Return the points of a plan and, after each, those of its groups, by id."""
    points: dict[str, Point] = {}
    for point_id, point in plan.points.items():
        points[point_id] = point
        for name, own in groups_of(point).items():
            points[group_id(point_id, name)] = own
    return points


def records_by_group(record: RunRecord, point: Point) -> dict[str, RunRecord]:
    """Return the records of a run's groups by name, and that of the run under ""."""
    groups = groups_of(point)
    return {"": record} | {
        name: record.of_group(name, own.workload, own.params) for name, own in groups.items()
    }
