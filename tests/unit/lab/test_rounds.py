"""Campaigns that end when they are steady: verdict, measurement window, runs left out, plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from storlab.base.errors import StudyError
from storlab.base.steady import WINDOW
from storlab.base.units import NS_PER_S
from storlab.lab.plan.crosscheck import crosscheck_plan
from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.questions import question_checks
from storlab.lab.study.file import LoadedStudy, load_study
from storlab.model.point import Plan
from storlab.model.result import Failure, Metric, RunRecord
from storlab.results.rounds import Rounds, needed_runs, rounds_of
from support.run_records import run_record

STUDY = """\
[study]
name = "rounds"
repeats = {repeats}
runtime = "1s"
ramp = 0
interval = "500ms"
until_steady = {{ {steady} }}
[[target]]
name = "a"
path = "a.dat"
size = "64MiB"
[[target]]
name = "b"
path = "b.dat"
size = "64MiB"
[[workload]]
kind = "block"
name = "matrix"
block_size = ["4KiB", "64KiB"]
read_percent = [100, 0]
"""
TRACKED = 'metric = "iops", at = { block_size = "4KiB", read_percent = 0 }'
FLAT = [100.0, 101.0, 99.0, 100.0, 100.0]


def loaded(tmp_path: Path, steady: str = TRACKED, repeats: int = 25) -> LoadedStudy:
    path = tmp_path / "s.toml"
    path.write_text(STUDY.format(steady=steady, repeats=repeats))
    return load_study(path)


def refusal(tmp_path: Path, steady: str, repeats: int = 25) -> StudyError:
    with pytest.raises(StudyError) as caught:
        make_plan(loaded(tmp_path, steady, repeats))
    return caught.value


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(loaded(tmp_path))


def records(plan: Plan, target: str, values: Sequence[float | None]) -> list[RunRecord]:
    """Return runs of a target's tracked point with these values; those with None failed."""
    assert plan.rounds is not None
    tracked = plan.rounds.tracked[target]
    runs = [run for run in plan.runs if run.point_id == tracked]
    return [
        run_record(run, target, Failure(message="m") if value is None else None).model_copy(
            update={"metrics": [Metric(name="iops", value=value or 0.0, unit="1/s")]}
        )
        for run, value in zip(runs, values, strict=False)
    ]


def judged(plan: Plan, values: Sequence[float | None]) -> Rounds:
    return rounds_of(plan, records(plan, "a", values))["a"]


@pytest.mark.parametrize(
    ("values", "verdict", "window"),
    [
        pytest.param(FLAT, "steady", (1, 5), id="at once"),
        pytest.param([400, 200, *FLAT], "steady", (3, 7), id="after two rounds"),
        pytest.param([*FLAT, 500, 500], "steady", (1, 5), id="later rounds do not count"),
        pytest.param([100, 100, 100, 100, 121], "not-steady", (1, 5), id="excursion of 20.2 %"),
        pytest.param([100, 100, 100, 100, 120], "not-steady", (1, 5), id="slope of 15.4 %"),
        pytest.param([100, 110, 90, 110, 100], "steady", (1, 5), id="excursion of 19.6 %"),
        pytest.param([100, 103, 106, 109, 112], "not-steady", (1, 5), id="slope of 11.3 %"),
        pytest.param([100, 102, 104, 106, 108], "steady", (1, 5), id="slope of 7.7 %"),
        pytest.param([100, 100, 100, 100], "too-short", (1, 5), id="four rounds"),
        pytest.param([], "too-short", (1, 5), id="not begun"),
        pytest.param([100, 100, None, 100, 100, 100, 100], "too-short", (3, 7), id="failed run"),
        pytest.param([100, None, *FLAT], "steady", (3, 7), id="five after a failed run"),
        pytest.param([10, 20, 40, 80, 160, 320], "not-steady", (2, 6), id="last five"),
    ],
)
def test_five_steady_rounds_are_the_window(
    plan: Plan, values: list[float | None], verdict: str, window: tuple[int, int]
) -> None:
    rounds = judged(plan, values)
    assert rounds.verdict.verdict == verdict
    assert (rounds.first, rounds.last) == window
    assert [number for number in range(1, 26) if number in rounds] == list(
        range(window[0], window[1] + 1)
    )
    assert rounds.ended is (verdict == "steady")


def test_the_most_rounds_end_a_target_that_is_not_steady(plan: Plan) -> None:
    values: list[float | None] = [100 * 1.1**n for n in range(25)]
    rounds = judged(plan, values)
    assert (rounds.ended, rounds.verdict.steady, rounds.first, rounds.last) == (True, False, 21, 25)
    assert "not steady in rounds 21 to 25" in rounds.text


def test_only_the_steady_target_ends(plan: Plan) -> None:
    own = [*records(plan, "a", [300, *FLAT]), *records(plan, "b", [100, 200, 100, 200, 100, 200])]
    needed = needed_runs(plan, rounds_of(plan, own))
    by_target = {
        name: {run.repeat for run in needed if plan.points[run.point_id].target == name}
        for name in ("a", "b")
    }
    assert by_target == {"a": set(range(1, 7)), "b": set(range(1, 26))}
    assert len(needed) == 4 * 6 + 4 * 25  # whole rounds: all four points


def test_all_repeats_are_needed_without_the_rule(plan: Plan) -> None:
    plain = plan.model_copy(update={"rounds": None})
    assert rounds_of(plain, records(plan, "a", FLAT)) == {}
    assert needed_runs(plain, {}) == plain.runs


def test_the_plan_names_one_tracked_point_per_target(plan: Plan, tmp_path: Path) -> None:
    assert plan.rounds is not None
    assert plan.rounds.metric == "iops.all"
    assert plan.rounds.tracked.keys() == {"a", "b"}
    for target, point_id in plan.rounds.tracked.items():
        point = plan.points[point_id]
        assert point.target == target
        assert (point.params["block_size"], point.params["read_percent"]) == (4096, 0.0)
    looser = make_plan(loaded(tmp_path, TRACKED + ", slope_percent = 11"))
    assert looser.plan_hash != plan.plan_hash
    assert crosscheck_plan(plan, "fio", 2).rounds is None


def test_the_plan_states_worst_and_best_case(plan: Plan) -> None:
    (note,) = [note for note in plan.notes if "until_steady" in note]
    assert len(plan.runs) == 2 * 4 * 25
    # 160 of 200 runs of 1 s each are left out if both targets are steady after five rounds
    assert "takes 52 s" in note
    assert plan.estimated_ns == pytest.approx(243.6 * NS_PER_S, rel=0.02)


def test_doctor_counts_the_window_not_the_most_rounds(tmp_path: Path) -> None:
    study = loaded(tmp_path)
    plan = make_plan(study)
    warned = [c for c in question_checks(study.study, plan) if c.name == "repeats"]
    fewer = make_plan(loaded(tmp_path, repeats=WINDOW))
    assert warned == [c for c in question_checks(study.study, fewer) if c.name == "repeats"]


@pytest.mark.parametrize(
    ("steady", "repeats", "place"),
    [
        pytest.param('metric = "iops"', 25, "[study] until_steady", id="four points"),
        pytest.param('at = { block_size = "8KiB" }', 25, "[study] until_steady", id="no point"),
        pytest.param(TRACKED + ', workload = "x"', 25, "[study] until_steady", id="no workload"),
        pytest.param(
            TRACKED.replace("iops", "speed"), 25, "[study] until_steady.metric", id="no metric"
        ),
        pytest.param(
            TRACKED.replace("iops", "latency_p99"),
            25,
            "[study] until_steady.metric",
            id="several operations",
        ),
        pytest.param(TRACKED, 4, "[study] repeats", id="too few rounds"),
    ],
)
def test_refusals_name_the_field(tmp_path: Path, steady: str, repeats: int, place: str) -> None:
    assert place in str(refusal(tmp_path, steady, repeats))


def test_a_latency_of_one_operation_can_be_tracked(tmp_path: Path) -> None:
    plan = make_plan(loaded(tmp_path, TRACKED.replace("iops", "latency_mean_ns.write")))
    assert plan.rounds is not None
    assert plan.rounds.metric == "latency_mean_ns.write"
