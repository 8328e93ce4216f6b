"""Families of fixed work in the lab: their homes, and features that do not apply."""

from __future__ import annotations

import io
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from storlab.base.errors import GuardError, PreflightError, StudyError
from storlab.contracts.registry import FAMILIES, study_class
from storlab.engines.native.engine import NativeEngine
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.preflight import check_study
from storlab.lab.run.campaign import Summary
from storlab.lab.run.clean import clean_campaign
from storlab.lab.run.progress import PlainReporter
from storlab.lab.run.session import rehearse, resume_study, run_study
from storlab.lab.study.file import LoadedStudy
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore
from storlab.stores.filesystems import free_bytes
from storlab.stores.home import HOME, MARKER
from support.fixed_work import DrillWorkload

STUDY = """
[study]
name = "fixed work"
repeats = 2
[[target]]
name = "one"
directory = "{place}/one"
{more}
[[workload]]
kind = "drill"
accelerators = [1, 2]
"""


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> DrillWorkload:
    drill = DrillWorkload()
    monkeypatch.setitem(FAMILIES.loaded, "drill", drill)
    monkeypatch.setattr(NativeEngine, "kinds", ("block", "drill"))
    return drill


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    return tmp_path


def loaded(place: Path, more: str = "", text: str = STUDY) -> LoadedStudy:
    text = text.format(place=place, more=more)
    study = study_class().model_validate(tomllib.loads(text))
    return LoadedStudy(study, text, "0" * 64, place / "study.toml")


def reporter() -> PlainReporter:
    return PlainReporter(Console(file=io.StringIO(), width=200, markup=False))


def run(of: LoadedStudy, out: Path, stop: StopRequest | None = None) -> tuple[ResultStore, Summary]:
    return run_study(
        of,
        make_plan(of),
        out,
        plan_hash=None,
        reporter=reporter,
        stop=stop or StopRequest(),
    )


def test_a_run_has_a_home_that_goes_with_the_campaign(place: Path, family: DrillWorkload) -> None:
    store, summary = run(loaded(place), place / "out")
    home = (place / "one" / HOME).resolve()
    assert [record.status for record in store.records()] == ["finished"] * 4
    assert set(family.homes) == {home}
    assert summary.removed == [str(home / "drill-1")]
    assert list((place / "one").iterdir()) == []


def test_there_is_no_ramp_and_no_steady_state(place: Path, family: DrillWorkload) -> None:
    of = loaded(place)
    plan = make_plan(of)
    assert any("drill runs end when their work is done" in note for note in plan.notes)
    assert plan.data_bytes_by_target == {"one": family.data_bytes}
    assert plan.estimated_ns < of.study.study.runtime
    store, _ = run(of, place / "out")
    for record in store.records():
        assert record.steady is None
        assert [flag.kind for flag in record.flags] == []


def test_what_the_device_moved_stands_beside_what_the_run_moved(
    place: Path, family: DrillWorkload
) -> None:
    del family
    store, _ = run(loaded(place), place / "out")
    for record in store.records():
        assert "device" in record.details
        device = record.details["device"]
        if device is not None:  # no block device behind this directory: nothing to compare with
            assert set(device) == {"read_bytes", "written_bytes", "over_ns", "devices"}
            assert device["over_ns"] >= record.window_end_ns - record.window_start_ns
            assert device["devices"]


def test_kept_data_stay_until_they_are_cleaned(place: Path, family: DrillWorkload) -> None:
    del family
    store, summary = run(loaded(place, "keep_data = true"), place / "out")
    assert summary.removed == []
    data = place / "one" / HOME / "drill-1"
    assert data.is_dir()
    again, summary = run(loaded(place), place / "again")  # finds it, and leaves it to its owner
    assert summary.removed == []
    assert data.is_dir()
    assert clean_campaign(again, StopRequest(), reporter).removed == []
    cleaned = clean_campaign(ResultStore.open(store.directory), StopRequest(), reporter)
    assert (cleaned.removed, cleaned.problems) == ([str(data.resolve())], [])
    assert list((place / "one").iterdir()) == []


def test_an_interrupted_campaign_finds_its_home_again(place: Path, family: DrillWorkload) -> None:
    stop = StopRequest()
    family.au_of = lambda _point, _repeat: stop.ask() or 100.0  # type: ignore[func-returns-value]
    store, summary = run(loaded(place), place / "out", stop)
    assert (summary.interrupted, summary.missing) == (True, 3)
    data = place / "one" / HOME / "drill-1" / "data"
    assert data.exists()
    family.au_of = lambda _point, _repeat: 100.0
    summary = resume_study(store, retry_failed=False, reporter=reporter, stop=StopRequest())
    assert summary.missing == 0
    assert not data.parent.parent.exists()


def test_two_targets_in_one_directory_share_their_home(place: Path, family: DrillWorkload) -> None:
    second = f'keep_data = true\n[[target]]\nname = "two"\ndirectory = "{place}/one/../one"'
    store, summary = run(loaded(place, second), place / "out")
    assert {record.target for record in store.records()} == {"one", "two"}
    assert len(set(family.homes)) == 1
    assert summary.removed == []  # one of the two keeps it
    assert clean_campaign(store, StopRequest(), reporter).problems == []
    assert list((place / "one").iterdir()) == []


def test_a_foreign_home_is_refused_before_anything_is_written(
    place: Path, family: DrillWorkload
) -> None:
    del family
    (place / "one" / HOME).mkdir()
    (place / "one" / HOME / "thesis.tex").write_text("precious")
    of = loaded(place)
    assert rehearse(of.study, make_plan(of), place).status == "error"
    with pytest.raises(GuardError, match="storlab did not create it"):
        run(of, place / "out")
    assert not (place / "out").exists()
    assert [p.name for p in (place / "one" / HOME).iterdir()] == ["thesis.tex"]


def test_a_rehearsal_makes_nothing(place: Path, family: DrillWorkload) -> None:
    del family
    of = loaded(place)
    assert rehearse(of.study, make_plan(of), place).status == "ok"
    assert list((place / "one").iterdir()) == []


def test_too_little_room_is_said_before_anything_is_written(
    place: Path, family: DrillWorkload
) -> None:
    family.space_bytes = 2 * free_bytes(place)
    family.data_bytes = 10 << 20
    of = loaded(place)
    with pytest.raises(PreflightError, match="the data sets need") as caught:
        run(of, place / "out")
    assert "the files of a run another" in caught.value.what
    assert sorted(p.name for p in place.iterdir()) == ["one"]
    assert list((place / "one").iterdir()) == []
    checks = check_study(of.study, make_plan(of), place)
    assert [check.status for check in checks if "free space" in check.name] == ["error"]


def test_laid_out_files_and_a_home_live_in_one_directory(
    place: Path, family: DrillWorkload
) -> None:
    del family
    more = 'size = "1MiB"\ndirect = false\n[[workload]]\nkind = "block"\njobs = 2'
    of = loaded(place, more)
    plan = make_plan(of)
    assert plan.data_bytes_by_target == {"one": (2 << 20) + 64 * 1024}
    with Guard(of.study, plan, base=place) as guard:
        access = guard.access["one"]
        assert [Path(m.path).name for m in access.members] == ["storlab.0.dat", "storlab.1.dat"]
        assert access.home == (place / "one" / HOME).resolve()
        assert (access.home / MARKER).is_file()
    assert list((place / "one").iterdir()) == []


def test_a_home_cannot_be_preconditioned(place: Path, family: DrillWorkload) -> None:
    del family
    with pytest.raises(StudyError, match="no workload uses such files"):
        make_plan(loaded(place, "precondition = {}"))


def test_a_family_may_take_the_bytes_it_writes_for_the_space_it_needs(
    place: Path, family: DrillWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate = family.estimate
    written = 2 * free_bytes(place)

    def writing(point, header, target):  # type: ignore[no-untyped-def]
        return replace(
            estimate(point, header, target), bytes_written=written, space_bytes=None, writes=True
        )

    monkeypatch.setattr(family, "estimate", writing)
    with pytest.raises(PreflightError, match="the files of a run another"):
        run(loaded(place), place / "out")
