"""Preflight checks of the workload families, for the machine and for targets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from storlab.contracts.check import Check
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import Target


def family_machine_checks(kinds: Collection[str], points: Sequence[Point] = ()) -> list[Check]:
    """Return the checks of this machine that workload families need for their points."""
    checks: list[Check] = []
    for kind in sorted(kinds):
        own = [point for point in points if point.kind == kind]
        checks += FAMILIES[kind].examine_machine(own)
    return checks


def family_target_checks(target: Target, points: Sequence[Point], base: Path) -> list[Check]:
    """Return the checks of a target that the workload families of its points need."""
    checks: list[Check] = []
    places = [base / location for location in target.locations]
    for kind in sorted({point.kind for point in points}):
        own = [point for point in points if point.kind == kind]
        checks += FAMILIES[kind].examine_target(target, own, places)
    return checks
