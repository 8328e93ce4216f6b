"""User files that were replaced between plan and run, or between run and resume."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode, GuardError
from storlab.cli.main import main
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.plan import make_plan
from storlab.lab.run.session import run_study
from storlab.lab.study.file import load_study
from storlab.model.result import RunRecord, Snapshot
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore

HEAD = """
[study]
name = "replaced"
repeats = 2
ramp = "0s"
runtime = "500ms"
interval = "50ms"
settle = "0s"
"""
FILE = """
[[target]]
name = "theirs"
path = "data"
direct = false
[[workload]]
kind = "block"
access = "random"
read_percent = 100
block_size = "4KiB"
"""
RAW = """
[[target]]
name = "folder"
directory = "."
[[workload]]
kind = "preprocess"
input = ["day_*"]
"""
LINE = "1\t5" + "\t" * 38 + "0000000a\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a working directory with a user's file and raw data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_bytes(b"x" * 65_536)
    for day in (1, 2):
        (tmp_path / f"day_{day}").write_text(LINE * 50)
    return tmp_path


def replace(path: Path) -> None:
    """Replace a file by other content of the same size and a later time."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[::-1])
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    other.rename(path)


def plan_hash() -> str:
    return make_plan(load_study("study.toml")).plan_hash


def interrupted(out: Path) -> None:
    """Provide a campaign that lacks its last run."""
    store = ResultStore.open(out)
    shutil.rmtree(store.run_dir(store.plan.runs[-1].run_id))


@pytest.mark.parametrize(("work", "name"), [(FILE, "data"), (RAW, "day_2")])
def test_a_plan_does_not_hold_for_another_file_under_the_same_name(
    work: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "study.toml").write_text(HEAD + work)
    reviewed = plan_hash()
    assert plan_hash() == reviewed
    replace(place / name)
    assert plan_hash() != reviewed
    arguments = ["run", "study.toml", "--out", "out", "--no-report", "--quiet"]
    assert main([*arguments, "--plan-hash", reviewed]) == ExitCode.GUARD
    assert "files that the study reads" in " ".join(capsys.readouterr().err.split())
    assert not (place / "out").exists()


@pytest.mark.parametrize(("work", "name"), [(FILE, "data"), (RAW, "day_2")])
def test_a_resume_refuses_another_file_and_takes_the_first_one_back(
    work: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "study.toml").write_text(HEAD + work)
    assert main(["run", "study.toml", "--out", "out", "--no-report", "--quiet"]) == ExitCode.OK
    interrupted(place / "out")
    shutil.copy2(place / name, place / "kept")
    replace(place / name)
    capsys.readouterr()
    assert main(["resume", "out", "--no-report", "--quiet"]) == ExitCode.GUARD
    told = " ".join(capsys.readouterr().err.split())
    assert name in told
    assert "has changed since this study was planned" in told
    assert "cp -p" in told
    assert len(ResultStore.open(place / "out").records()) == 1
    (place / "kept").rename(place / name)
    assert main(["resume", "out", "--no-report", "--quiet"]) == ExitCode.OK


@pytest.mark.parametrize(
    ("name", "word"), [("day_2", "no longer exists"), ("day_0", "did not exist")]
)
def test_a_resume_refuses_more_or_fewer_raw_files(
    name: str, word: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "study.toml").write_text(HEAD + RAW)
    assert main(["run", "study.toml", "--out", "out", "--no-report", "--quiet"]) == ExitCode.OK
    interrupted(place / "out")
    if name == "day_0":
        shutil.copy(place / "day_1", place / name)
    else:
        (place / name).unlink()
    capsys.readouterr()
    assert main(["resume", "out", "--no-report", "--quiet"]) == ExitCode.GUARD
    told = " ".join(capsys.readouterr().err.split())
    assert f"{name}: {word}" in told


def test_files_that_storlab_lays_out_are_not_part_of_the_plan(place: Path) -> None:
    (place / "study.toml").write_text(HEAD + FILE.replace('"data"', '"ours"\nsize = "64KiB"'))
    before = plan_hash()
    assert main(["run", "study.toml", "--out", "out", "--no-report", "--quiet"]) == ExitCode.OK
    interrupted(place / "out")
    assert main(["resume", "out", "--no-report", "--quiet"]) == ExitCode.OK
    assert plan_hash() == before


def run_with(reporter: Reporter, out: Path) -> None:
    """Run the study of the working directory; the reporter acts as the other program."""
    loaded = load_study("study.toml")
    run_study(
        loaded,
        make_plan(loaded),
        out,
        plan_hash=None,
        reporter=lambda: reporter,
        stop=StopRequest(),
    )


def test_a_campaign_ends_when_a_file_of_somebodys_is_replaced_between_two_runs(
    place: Path,
) -> None:
    (place / "study.toml").write_text(HEAD + FILE)
    shutil.copy2(place / "data", place / "kept")

    class Replacing(Reporter):
        def run_ended(self, record: RunRecord) -> None:
            replace(place / "data")

    with pytest.raises(GuardError, match="has changed since this study was planned"):
        run_with(Replacing(), place / "out")
    assert [r.status for r in ResultStore.open(place / "out").records()] == ["finished"]
    (place / "kept").rename(place / "data")
    assert main(["resume", "out", "--no-report", "--quiet"]) == ExitCode.OK
    assert len(ResultStore.open(place / "out").records()) == 2


def test_a_file_put_in_place_of_a_data_file_between_two_runs_is_not_written(place: Path) -> None:
    ours = FILE.replace('"data"', '"ours"\nsize = "64KiB"').replace("= 100", "= 0")
    (place / "study.toml").write_text(HEAD + ours)
    precious = b"years of work " * 4682

    class Replacing(Reporter):
        def run_ended(self, record: RunRecord) -> None:
            (place / "other").write_bytes(precious)
            (place / "other").rename(place / "ours")

    with pytest.raises(GuardError, match="is no longer the file"):
        run_with(Replacing(), place / "out")
    assert [r.status for r in ResultStore.open(place / "out").records()] == ["finished"]
    assert (place / "ours").read_bytes() == precious


def test_a_data_file_that_another_program_wrote_to_is_laid_out_again(place: Path) -> None:
    ours = FILE.replace('"data"', '"ours"\nsize = "64KiB"\nkeep_data = true')
    (place / "study.toml").write_text(HEAD + ours)
    contents: list[bytes] = []

    class Writing(Reporter):
        done = False

        def run_progress(self, snapshot: Snapshot) -> None:
            if snapshot.phase == "measure" and not self.done:
                self.done = True
                contents.append((place / "ours").read_bytes())
                with (place / "ours").open("r+b") as file:
                    file.write(b"other")

    run_with(Writing(), place / "out")
    first, second = ResultStore.open(place / "out").records()
    assert first.failure is not None
    assert first.failure.changed == "written"
    assert second.status == "finished"
    assert (place / "ours").read_bytes() == contents[0]
    command = ["resume", "out", "--retry-failed", "--no-report", "--quiet"]
    assert main(command) == ExitCode.OK
    assert (place / "ours").read_bytes() == contents[0]


def test_a_file_that_is_removed_ends_the_campaign_and_is_not_made(place: Path) -> None:
    (place / "study.toml").write_text(HEAD + FILE)

    class Removing(Reporter):
        def run_progress(self, snapshot: Snapshot) -> None:
            if snapshot.phase == "measure" and (place / "data").exists():
                (place / "data").rename(place / "kept")

    with pytest.raises(GuardError, match="no longer exists"):
        run_with(Removing(), place / "out")
    (record,) = ResultStore.open(place / "out").records()
    assert record.failure is not None
    assert record.failure.changed == "removed"
    assert not (place / "data").exists()
    (place / "kept").rename(place / "data")
    command = ["resume", "out", "--retry-failed", "--no-report", "--quiet"]
    assert main(command) == ExitCode.OK
    assert [r.status for r in ResultStore.open(place / "out").records()] == ["finished"] * 2


def test_two_campaigns_do_not_read_one_file_at_the_same_time(place: Path) -> None:
    """Check that two campaigns cannot read one file, under any name, but one may twice."""
    (place / "study.toml").write_text(HEAD + FILE)
    os.link(place / "data", place / "same")
    loaded = load_study("study.toml")
    again = FILE.partition("[[workload]]")[0].replace("theirs", "again")
    other = HEAD + again.replace('"data"', '"same"') + FILE
    (place / "other.toml").write_text(other)
    both = load_study("other.toml")
    with Guard(loaded.study, make_plan(loaded)):
        for look_only in (False, True):
            with (
                pytest.raises(GuardError, match="in use by another campaign"),
                Guard(both.study, make_plan(both), look_only=look_only),
            ):
                pytest.fail("two hold it")
    with Guard(both.study, make_plan(both)):
        pass
    assert not list(place.glob("*.storlab.json"))
