"""For any study, the plan visits every point once per repeat, in a fair order."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import LoadedStudy, parse_study
from storlab.model.point import Plan

SWEEPS = {
    "access": st.sampled_from(["random", "sequential"]),
    "block_size": st.sampled_from(["4KiB", "64KiB", "1MiB"]),
    "read_percent": st.integers(0, 100),
    "queue_depth": st.integers(1, 64),
    "jobs": st.integers(1, 8),
    "offsets": st.sampled_from(["uniform", "zipf", "permutation"]),
}


@st.composite
def studies(draw: st.DrawFn) -> str:
    repeats, targets = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    text = f'[study]\nname = "s"\nrepeats = {repeats}\n'
    for index in range(targets):
        text += f'[[target]]\nname = "t{index}"\npath = "f{index}"\nsize = "1GiB"\n'
    text += '[[workload]]\nkind = "block"\naccess = "random"\n'
    for name, values in SWEEPS.items():
        listed = draw(st.lists(values, max_size=3, unique=True))
        if name == "access":
            listed = ["random", *(v for v in listed if v != "random")]
            text = text.replace('access = "random"\n', "")
        if listed:
            text += f"{name} = [{', '.join(repr(v) for v in listed)}]\n"
    return text


def plan_of(text: str) -> Plan:
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return make_plan(LoadedStudy(parse_study(text), text, sha256, Path("s.toml")))


@given(studies())
def test_every_point_is_run_once_in_each_repeat(text: str) -> None:
    plan = plan_of(text)
    repeats = parse_study(text).study.repeats
    runs = Counter((run.point_id, run.repeat) for run in plan.runs)
    assert runs == Counter((p, r) for p in plan.points for r in range(1, repeats + 1))
    assert len({run.run_id for run in plan.runs}) == len(plan.runs)
    assert [run.repeat for run in plan.runs] == sorted(run.repeat for run in plan.runs)


@given(studies())
def test_a_combination_is_run_on_all_targets_in_a_row(text: str) -> None:
    plan = plan_of(text)
    targets = len(plan.data_bytes_by_target)
    for start in range(0, len(plan.runs), targets):
        points = [plan.points[run.point_id] for run in plan.runs[start : start + targets]]
        assert len({point.target for point in points}) == targets
        assert all(point.params == points[0].params for point in points)


@given(studies())
def test_no_target_goes_first_much_more_often_than_another(text: str) -> None:
    plan = plan_of(text)
    targets = len(plan.data_bytes_by_target)
    repeats = parse_study(text).study.repeats
    firsts = Counter(plan.points[run.point_id].target for run in plan.runs[::targets])
    counts = [firsts[name] for name in plan.data_bytes_by_target]
    assert max(counts) - min(counts) <= repeats


@given(studies())
def test_a_plan_is_the_same_every_time(text: str) -> None:
    assert plan_of(text).plan_hash == plan_of(text).plan_hash
