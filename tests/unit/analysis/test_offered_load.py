"""Rates of load levels: which runs they are taken from, and in which order runs are made."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.analysis.offered_load import (
    at_rate,
    level_of,
    load_of,
    maxima_of,
    offered_rate,
    same_maximum,
)
from storlab.base.errors import ResultError, StudyError
from storlab.lab.plan.crosscheck import crosscheck_plan
from storlab.lab.plan.jobs import run_seed
from storlab.lab.plan.plan import make_plan
from storlab.lab.run.load_levels import LoadLevels
from storlab.lab.study.file import load_study
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import Failure, Metric, RunRecord
from storlab.results.store import ResultStore
from support.run_records import run_record

HEAD = """
[study]
name = "load levels"
repeats = 3
[[target]]
name = "a"
path = "null:"
[[target]]
name = "b"
path = "null:"
[[workload]]
kind = "block"
"""
LEVELS = "load_percent = [20, 50, 110]\n"


def planned(place: Path, text: str = HEAD + LEVELS) -> Plan:
    path = place / "study.toml"
    path.write_text(text)
    return make_plan(load_study(path))


def levels(plan: Plan) -> dict[float | None, list[Point]]:
    found: dict[float | None, list[Point]] = {}
    for point in plan.points.values():
        found.setdefault(level_of(point), []).append(point)
    return found


def record(run: PlannedRun, point: Point, iops: float | None) -> RunRecord:
    """Return a stored run; one without ``iops`` failed."""
    failure = None if iops is not None else Failure(message="broken")
    made = run_record(run, point.target, failure)
    metrics = [] if iops is None else [Metric(name="iops", value=iops, unit="1/s")]
    return made.model_copy(update={"params": point.params, "metrics": metrics})


def test_a_study_with_load_levels_also_runs_the_closed_loop(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    by_level = levels(plan)
    assert {level: len(points) for level, points in by_level.items()} == {
        None: 2, 20: 2, 50: 2, 110: 2,
    }  # fmt: skip
    plain = planned(tmp_path, HEAD)
    # The closed loop is the same point as in a study without load levels.
    assert {p.point_id for p in by_level[None]} == set(plain.points)
    assert any("6 points have a load level" in note for note in plan.notes)


def test_all_repeats_of_the_closed_loop_come_first(tmp_path: Path) -> None:
    plan = planned(tmp_path, HEAD + LEVELS + "jobs = [1, 2]\n")
    order = [level_of(plan.points[run.point_id]) for run in plan.runs]
    maxima = 2 * 2 * 3  # targets, numbers of jobs, repeats
    assert order[:maxima] == [None] * maxima
    assert None not in order[maxima:]
    assert [run.order for run in plan.runs] == list(range(len(plan.runs)))
    repeats = [run.repeat for run in plan.runs]
    assert repeats[:maxima] == sorted(repeats[:maxima])
    assert repeats[maxima:] == sorted(repeats[maxima:])


def test_other_workloads_keep_their_order(tmp_path: Path) -> None:
    more = '[[workload]]\nkind = "block"\nname = "other"\n'
    plan = planned(tmp_path, HEAD + LEVELS + more)
    names = [plan.points[run.point_id].workload for run in plan.runs]
    assert names[:6] == ["block"] * 6
    assert names[6:14] == ["block"] * 6 + ["other"] * 2


def test_the_maximum_is_of_the_same_target_and_parameters(tmp_path: Path) -> None:
    plan = planned(tmp_path, HEAD + LEVELS + 'jobs = [1, 2]\narrival = "poisson"\n')
    found = maxima_of(plan.points.values())
    assert len(found) == 3 * 2 * 2
    for level, closed in found.items():
        offered = plan.points[level]
        assert (offered.target, offered.params["jobs"]) == (closed.target, closed.params["jobs"])
        assert offered.params["arrival"] == closed.params["arrival"] == "poisson"
        assert level_of(closed) is None


def test_a_crosscheck_offers_the_share_of_the_native_maximum_to_both_engines(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path)
    cross = crosscheck_plan(plan, "fio", 2, ["load_percent=50,target=a"])
    assert {(p.engine, level_of(p)) for p in cross.points.values()} == {
        ("native", None), ("fio", None), ("native", 50), ("fio", 50),
    }  # fmt: skip
    order = [level_of(cross.points[run.point_id]) for run in cross.runs]
    assert order == [None] * 4 + [50] * 4
    found = maxima_of(cross.points.values())
    assert {maximum.engine for maximum in found.values()} == {"native"}


@given(
    rates=st.lists(st.floats(1, 1e6), min_size=1, max_size=5),
    level=st.sampled_from([20.0, 50.0, 110.0]),
    clients=st.none() | st.integers(1, 100),
)
def test_the_rate_is_a_percentage_of_the_mean_maximum(
    rates: list[float], level: float, clients: int | None
) -> None:
    params = {"load_percent": level, "jobs": 1}
    point = Point(
        target="a", workload="w", workload_index=0, kind="block", engine="native", params=params,
        clients=clients,
    )  # fmt: skip
    closed = point.model_copy(update={"params": {"jobs": 1}})
    runs = [
        PlannedRun(order=n, repeat=n + 1, point_id=closed.point_id) for n in range(len(rates) + 1)
    ]
    stored = [record(run, closed, rate) for run, rate in zip(runs, [*rates, None], strict=True)]
    load = load_of(point, stored)
    assert load.maximum_runs == [run.run_id for run in runs[:-1]]  # without the failed run
    assert load.maximum_s == pytest.approx(sum(rates) / len(rates))
    assert load.rate_s == pytest.approx(load.maximum_s * level / 100)
    driven = at_rate(point, load.rate_s)
    assert driven.params["rate_iops"] * (clients or 1) == pytest.approx(load.rate_s)
    assert level_of(driven) == level
    run = PlannedRun(order=0, repeat=1, point_id=point.point_id)
    offered = record(run, point, 5.0).model_copy(update={"offered": load, "clients": clients})
    assert offered_rate(offered) == load.rate_s
    fixed = record(run, driven, 5.0).model_copy(update={"clients": clients})
    assert offered_rate(fixed) == pytest.approx(load.rate_s)
    assert offered_rate(stored[0]) is None
    half = point.model_copy(update={"params": {**params, "load_percent": level / 2}})
    assert same_maximum(half, load).rate_s == pytest.approx(load.rate_s / 2)


def test_runs_at_different_rates_of_one_load_level_draw_the_same_operations(
    tmp_path: Path,
) -> None:
    """Check that targets with different maxima get the same offsets."""
    (point, *_) = levels(planned(tmp_path))[50]
    seeds = {run_seed(7, driven, 1) for driven in (point, at_rate(point, 10), at_rate(point, 20))}
    assert len(seeds) == 1
    fixed = point.model_copy(update={"params": {**point.params, "load_percent": None}})
    assert run_seed(7, at_rate(fixed, 10), 1) != run_seed(7, at_rate(fixed, 20), 1)


class Stored:
    """Result store in memory."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.records: dict[str, RunRecord] = {}

    def add(self, point: Point, repeat: int, iops: float | None) -> RunRecord:
        run = PlannedRun(order=0, repeat=repeat, point_id=point.point_id)
        self.records[run.run_id] = record(run, point, iops)
        return self.records[run.run_id]

    def run_dir(self, run_id: str) -> Path:
        return Path("/") if run_id in self.records else Path("/missing/run")

    def record(self, run_id: str) -> RunRecord:
        return self.records[run_id]

    def levels(self) -> LoadLevels:
        return LoadLevels(cast(ResultStore, self))


def test_the_maximum_is_fixed_by_the_first_run_that_uses_it(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    by_level = levels(plan)
    closed = next(p for p in by_level[None] if p.target == "b")
    low, high = (next(p for p in by_level[n] if p.target == "b") for n in (20, 110))
    store = Stored(plan)
    assert store.levels().load(closed) is None
    store.add(next(p for p in by_level[None] if p.target == "a"), 1, 1e9)  # of another target
    with pytest.raises(ResultError, match="no run in closed loop finished"):
        store.levels().load(low)
    store.add(closed, 1, 1000.0)
    store.add(closed, 2, None)
    load = store.levels().load(low)
    assert load is not None
    assert (load.rate_s, load.maximum_s) == (200, 1000)
    # A failed run of the closed loop is repeated after the first run of a load level.
    ran = store.add(low, 1, 200.0)
    store.records[ran.run_id] = ran.model_copy(update={"offered": load})
    store.add(closed, 2, 3000.0)
    later = store.levels().load(high)
    assert later is not None
    assert later.rate_s == pytest.approx(1100)
    assert later.maximum_runs == load.maximum_runs == [f"{closed.point_id}-r1"]


def test_load_levels_have_no_rounds(tmp_path: Path) -> None:
    steady = HEAD.replace("repeats = 3", 'repeats = 9\nuntil_steady = { metric = "iops" }')
    with pytest.raises(StudyError, match="until_steady"):
        planned(tmp_path, steady + LEVELS)
    assert planned(tmp_path, steady).rounds is not None


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ("rate_iops = 100\n", "load_percent"),
        ('total_bytes = "1MiB"\n', "total_bytes"),
        ('[[workload.group]]\nname = "g"\n', "load_percent"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, lines: str, field: str) -> None:
    with pytest.raises(StudyError) as caught:
        planned(tmp_path, HEAD + LEVELS + lines)
    assert field in str(caught.value)
