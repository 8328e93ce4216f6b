"""Steps of a second workload family before runs, and clean-up after them."""

from __future__ import annotations

import errno
import io
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field
from rich.console import Console

from storlab.base.errors import ResultError
from storlab.contracts.family import Estimate, JobContext, Step
from storlab.contracts.registry import FAMILIES
from storlab.engines.native.engine import NativeEngine
from storlab.lab.plan.plan import make_plan
from storlab.lab.run import campaign as runner
from storlab.lab.run.campaign import Summary
from storlab.lab.run.progress import PlainReporter
from storlab.lab.run.session import resume_study, run_study
from storlab.lab.study.file import LoadedStudy
from storlab.model.job import Member, WeightedSize
from storlab.model.point import Point
from storlab.model.study import study_model
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore
from storlab.workloads.block.family import BlockWorkload
from storlab.workloads.block.job import BlockJob, Mix, Offsets
from storlab.workloads.block.spec import BlockSpec

SIZE = 64 * 1024


class ScratchSpec(BlockSpec):
    """Like block, under another name."""

    kind: Literal["scratch"] = Field(description="a family of this test")  # type: ignore[assignment]


class ScratchWorkload(BlockWorkload):
    """Reads its target; writes ``made`` before the runs, and ``left`` after each run."""

    kind = "scratch"
    spec = ScratchSpec

    def __init__(self, made: Path, left: Path, bad: tuple[str, ...] = ()) -> None:
        self.made = made
        self.left = left
        self.bad = bad  # targets after whose runs the step fails
        self.bad_times = 1_000  # number of failures
        self.asked: list[tuple[str, str, int]] = []

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        self.asked.append((f"prepare {context.target.name}", context.run_id, len(points)))
        return [Step("making what is read", write_job(self.made), SIZE)]

    def after(self, point: Point, context: JobContext) -> list[Step]:
        self.asked.append((f"after {point.target}", context.run_id, context.seed))
        if point.target in self.bad and self.bad_times > 0:
            self.bad_times -= 1
            return [Step("putting it right", write_job(self.left.with_name("nowhere")))]
        return [Step("putting it right", write_job(self.left))]


def write_job(path: Path) -> BlockJob:
    return BlockJob(
        members=[Member(path=str(path), name=path.name, kind="file", size=SIZE)],
        direct=False,
        jobs=1,
        queue_depth=1,
        mix=Mix(read=0, write=100),
        block_sizes=[WeightedSize(bytes=4096)],
        offsets=Offsets(kind="sequential"),
        window_bytes=SIZE,
    )


def study_text(place: Path) -> str:
    return f"""
[study]
name = "steps"
repeats = 2
ramp = 0
interval = "20ms"
[[target]]
name = "one"
path = "{place}/one.dat"
size = "64KiB"
direct = false
[[target]]
name = "two"
path = "{place}/two.dat"
size = "64KiB"
direct = false
[[workload]]
kind = "scratch"
queue_depth = [1, 2]
total_bytes = "64KiB"
"""


def run(
    place: Path, family: ScratchWorkload, monkeypatch: pytest.MonkeyPatch
) -> tuple[ResultStore, Summary, str]:
    monkeypatch.setitem(FAMILIES.loaded, "scratch", family)
    monkeypatch.setattr(NativeEngine, "kinds", ("block", "scratch"))
    text = study_text(place)
    study = study_model([BlockSpec, ScratchSpec]).model_validate(tomllib.loads(text))
    loaded = LoadedStudy(study, text, "0" * 64, place / "study.toml")
    printed = io.StringIO()
    store, summary = run_study(
        loaded,
        make_plan(loaded),
        place / "out",
        plan_hash=None,
        reporter=lambda: PlainReporter(Console(file=printed, width=200, markup=False)),
        stop=StopRequest(),
    )
    return store, summary, printed.getvalue()


@pytest.fixture
def family(tmp_path: Path) -> ScratchWorkload:
    made, left = tmp_path / "made", tmp_path / "left"
    for path in (made, left):
        path.write_bytes(bytes(SIZE))
    return ScratchWorkload(made, left)


def test_steps_stand_before_all_runs_and_behind_each(
    tmp_path: Path, family: ScratchWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, summary, printed = run(tmp_path, family, monkeypatch)
    assert [record.status for record in store.records()] == ["finished"] * 8
    assert summary.missing == 0
    prepared, behind = family.asked[:2], family.asked[2:]
    assert prepared == [("prepare one", "", 2), ("prepare two", "", 2)]
    runs = [(f"after {store.plan.points[r.point_id].target}", r.run_id) for r in store.plan.runs]
    assert [each[:2] for each in behind] == runs
    assert len({seed for *_, seed in behind}) == 4  # the run's seed: the same on both targets
    for path in (family.made, family.left):  # done by the native engine
        assert path.read_bytes().count(0) < SIZE // 2
    assert printed.index("two: making what is read") < printed.index("[1/8]")
    assert "[1/8]" in printed.split("one: putting it right")[0]


def test_after_a_step_that_fails_later_runs_of_that_target_fail_with_its_reason(
    tmp_path: Path, family: ScratchWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    family.bad = ("one",)
    monkeypatch.setattr(runner, "AGAIN_AFTER_S", (0.0, 0.0))
    store, _, printed = run(tmp_path, family, monkeypatch)
    on_one, on_two = (
        [record for record in store.records() if record.target == name] for name in ("one", "two")
    )
    assert [record.status for record in on_two] == ["finished"] * 4
    assert [record.status for record in on_one] == ["finished", "failed", "failed", "failed"]
    for record in on_one[1:]:
        assert record.failure is not None
        assert f"after run {on_one[0].run_id} failed: putting it right: " in record.failure.message
        assert "nowhere" in record.failure.message
        assert record.totals == {}
    assert f"one: clean-up after {on_one[0].run_id} failed repeatedly" in printed
    assert [name for name, *_ in family.asked].count("after one") == 3  # then given up


@pytest.mark.parametrize("failures", [1, 2])
def test_a_step_that_failed_behind_a_run_is_tried_again_before_the_next_of_that_target(
    failures: int, tmp_path: Path, family: ScratchWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    family.bad, family.bad_times = ("one",), failures
    monkeypatch.setattr(runner, "AGAIN_AFTER_S", (0.0, 0.0))
    store, _, printed = run(tmp_path, family, monkeypatch)
    assert [record.status for record in store.records()] == ["finished"] * 8
    asked = [run_id for name, run_id, _ in family.asked if name == "after one"]
    first, *later = dict.fromkeys(asked)
    assert asked == [first] * (failures + 1) + later
    assert f"one: clean-up after {first} failed and will be repeated" in printed
    assert printed.count(" failed: ") == failures - 1
    assert f"one: clean-up after {first} succeeded at attempt {failures + 1}" in printed


@pytest.mark.parametrize("of_a_run", [True, False])
def test_no_room_for_the_work_ends_the_session(
    of_a_run: bool, tmp_path: Path, family: ScratchWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a full results disk ends the session, and resume continues later."""
    make = Path.mkdir

    def full(path: Path, *settings: Any, **named: Any) -> None:
        if path.parent.name == "work" and (path.name != "step") is of_a_run:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        make(path, *settings, **named)

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(ResultError, match="No space left") as caught:
        run(tmp_path, family, monkeypatch)
    assert "make room" in caught.value.fix
    assert "storlab resume" in caught.value.fix
    assert not (tmp_path / "out" / "work").exists()


@pytest.mark.parametrize("continues", [False, True])
def test_what_an_interrupted_run_has_left_is_put_right_first(
    continues: bool, tmp_path: Path, family: ScratchWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that leftovers of an interrupted run are removed unless the run continues.

    The last stored run may not have been cleaned up; other runs left nothing.
    """
    store, _, _ = run(tmp_path, family, monkeypatch)
    last, ended = store.plan.runs[3], store.plan.runs[4:]
    for planned in ended:
        shutil.rmtree(store.run_dir(planned.run_id))
    plain = family.estimate

    def estimate(*given: Any) -> Estimate:
        return replace(plain(*given), continues=continues)

    monkeypatch.setattr(family, "estimate", estimate)
    family.asked.clear()
    stop, reporter = StopRequest(), PlainReporter(Console(file=io.StringIO()))
    resume_study(store, retry_failed=False, reporter=lambda: reporter, stop=stop)
    points = store.plan.points
    own = [[f"after {points[r.point_id].target}", r.run_id] for r in (last, ended[0])]
    before = [list(asked[:2]) for asked in family.asked[: -len(ended) - 2]]
    assert before == ([] if continues else own)
    assert {name.split()[0] for name, *_ in family.asked[len(before) :][:2]} == {"prepare"}


def test_a_target_that_cannot_be_made_ready_fails_its_runs_and_no_others(
    tmp_path: Path, family: ScratchWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = family.prepare

    def prepare(points: Sequence[Point], context: JobContext) -> list[Step]:
        if context.target.name == "two":
            raise ValueError("the objects of two contradict one another")
        return plain(points, context)

    monkeypatch.setattr(family, "prepare", prepare)
    store, _, printed = run(tmp_path, family, monkeypatch)
    by_target: dict[str, set[str]] = {}
    for record in store.records():
        by_target.setdefault(record.target, set()).add(record.status)
    assert by_target == {"one": {"finished"}, "two": {"failed"}}
    assert "two: cannot be prepared: the objects of two contradict one another" in printed
    assert not any(word.startswith("after two") for word, *_ in family.asked)
