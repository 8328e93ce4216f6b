"""doctor queries families that know machines and targets, but only those in the study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from storlab.contracts.check import Check
from storlab.contracts.family import Workload
from storlab.lab.preflight import families
from storlab.model.point import Point
from storlab.model.study import Target

TARGET = Target(name="here", path="data", size=4096)


class Knowing:
    """A family with checks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def examine_machine(self, points: Sequence[Point] = ()) -> list[Check]:
        return [Check(name=self.name, status="ok", what=f"machine, {len(points)} points")]

    def examine_target(
        self, target: Target, points: Sequence[Point], places: Sequence[Path]
    ) -> list[Check]:
        what = f"{target.name}: {len(points)} of {points[0].kind} in {places}"
        return [Check(name=self.name, status="warning", what=what)]


class WithoutChecks:
    """A family that inherits the default methods."""

    examine_machine = Workload.examine_machine
    examine_target = Workload.examine_target


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    table: dict[str, Any] = {"a": Knowing("first"), "b": Knowing("second"), "c": WithoutChecks()}
    monkeypatch.setattr(families, "FAMILIES", table)


def _point(kind: str) -> Point:
    return Point(
        target="here", workload="w", workload_index=0, kind=kind, engine="native", params={}
    )


def test_only_the_families_of_a_study_examine_its_machine() -> None:
    names = [check.name for check in families.family_machine_checks({"b", "c"})]
    assert names == ["second"]
    assert len(families.family_machine_checks({"a", "b", "c"})) == 2


def test_each_is_given_its_own_points() -> None:
    points = [_point("a"), _point("c"), _point("a")]
    (check,) = families.family_machine_checks({"a", "c"}, points)
    assert check.what == "machine, 2 points"
    (check,) = families.family_target_checks(TARGET, points, Path("/base"))
    assert check.what == f"here: 2 of a in {[Path('/base/data')]}"
