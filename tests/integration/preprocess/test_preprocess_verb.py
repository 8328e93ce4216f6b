"""``storlab preprocess`` with the real engines, killed, interrupted and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from storlab.base.clock import sleep_s
from storlab.base.errors import ExitCode
from storlab.workloads.preprocess.job import STAGES
from support.preprocess_runs import clicks

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]
ENGINES = ("native", "pandas", "polars")
OPTIONS = ("--part-size", "16KiB", "--threshold", "2", "--workers", "2")
ROWS = 2_000  # of each file; a part has about 65 of them
FILES = 2

MOMENTS: dict[str, Callable[[Path], bool]] = {
    "at once": Path.is_dir,
    "first parts": lambda out: len(finished_parts(out)) >= 3,
    "half": lambda out: len(finished_parts(out)) >= 30,
    "vocabulary": lambda out: any((out / "vocabulary").glob("C*.json")),
    "encode": lambda out: (out / "binary.partial").is_dir(),
}
KILLED = [("native", moment) for moment in MOMENTS] + [
    (engine, moment) for engine in ENGINES[1:] for moment in ("first parts", "encode")
]


class Place:
    """Raw files, and outputs of undisturbed runs."""

    def __init__(self, path: Path, rows: int = ROWS) -> None:
        self.path = path
        self.raw = [clicks(path, f"day_{n}", rows, seed=n, wrong=0.01) for n in range(FILES)]
        self.whole = cache(self._whole)

    def call(self, engine: str, out: Path, *more: str) -> list[str]:
        files = [str(path) for path in self.raw]
        options = ["--engine", engine, "--malformed", "skip", *OPTIONS, "--json", *more]
        return [*COMMAND, "preprocess", *files, "--out", str(out), *options]

    def _whole(self, engine: str) -> tuple[Path, dict[str, Any]]:
        out = self.path / engine
        return out, report_of(self.call(engine, out))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Provide files for the tests; leftovers of killed runs are removed with the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("programs")))
        yield Place(tmp_path_factory.mktemp("verb"))


def report_of(call: list[str], code: int = 0) -> dict[str, Any]:
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def running(call: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(call, text=True, **pipes)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(moment: Callable[[Path], bool], out: Path, process: subprocess.Popen[str]) -> None:
    """Wait for a condition or the end of the process; later checks must hold in both cases."""
    while process.poll() is None and not moment(out):
        sleep_s(0.002)


def finished_parts(out: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of each finished part's Parquet file."""
    done = [path.with_suffix(".parquet") for path in out.glob("parquet/*/part-*.json")]
    found = {str(path): path.stat() for path in done}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def contents(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def assert_it_goes_on(place: Place, engine: str, out: Path) -> None:
    """Run the same command again: the same result, with finished parts unchanged."""
    before = finished_parts(out)
    found = report_of(place.call(engine, out))
    whole, expected = place.whole(engine)
    after = finished_parts(out)
    assert {name: after[name] for name in before} == before
    assert found["stages"][0]["resumed_parts"] >= len(before)
    assert contents(out) == contents(whole)
    assert found["output"] == expected["output"]
    assert found["malformed"] == expected["malformed"]


def test_all_engines_say_the_same(place: Place) -> None:
    outputs = {engine: place.whole(engine) for engine in ENGINES}
    for out, found in outputs.values():
        assert [stage["name"] for stage in found["stages"]] == list(STAGES)
        assert found["lines"] == ROWS * FILES
        assert found["rows"] + found["malformed"]["count"] == ROWS * FILES
        assert found["malformed"] == outputs["native"][1]["malformed"]
        assert found["output"] == outputs["native"][1]["output"]
        assert found["resumed_parts"] == 0
        spec = out / "binary" / "feature_spec.yaml"
        assert found["feature_spec"] == str(spec)
        assert spec.read_text() == (outputs["native"][0] / "binary" / spec.name).read_text()


@pytest.mark.parametrize(("engine", "moment"), KILLED)
def test_a_killed_run_goes_on(tmp_path: Path, place: Place, engine: str, moment: str) -> None:
    out = tmp_path / "out"
    with running(place.call(engine, out)) as process:
        wait_for(MOMENTS[moment], out, process)
        process.kill()
        assert process.wait() in (-signal.SIGKILL, 0)  # it may have finished before it was seen
    assert_it_goes_on(place, engine, out)


@pytest.mark.parametrize("engine", ["pandas", "polars"])
def test_a_run_whose_program_was_killed_fails_and_goes_on(
    tmp_path: Path, place: Place, engine: str
) -> None:
    out = tmp_path / "out"
    with running(place.call(engine, out)) as process:
        wait_for(MOMENTS["first parts"], out, process)
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        stdout, stderr = process.communicate()
    assert process.returncode == ExitCode.RUN_FAILED, stdout + stderr
    assert "signal 9" in json.loads(stdout)["error"]["what"]
    assert_it_goes_on(place, engine, out)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupted_run_goes_on(tmp_path: Path, place: Place, engine: str) -> None:
    if engine == "native":  # it would finish before it checks for cancellation
        place = Place(tmp_path, 10 * ROWS)
    out = tmp_path / "out"
    with running(place.call(engine, out)) as process:
        wait_for(MOMENTS["first parts"], out, process)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    assert process.returncode == ExitCode.INTERRUPTED, stdout + stderr
    assert json.loads(stdout)["interrupted"]
    assert "the same command goes on" in stderr
    assert_it_goes_on(place, engine, out)


@pytest.mark.parametrize("engine", ENGINES)
def test_it_goes_on_without_the_lines_that_it_refused(
    tmp_path: Path, place: Place, engine: str
) -> None:
    out = tmp_path / "out"
    error = report_of(place.call(engine, out, "--malformed", "refuse"), ExitCode.RUN_FAILED)[
        "error"
    ]
    first = place.whole(engine)[1]["malformed"]["samples"][0]
    assert f"{first['file']}, line {first['line']}: {first['reason']}" in error["what"]
    assert "--malformed skip" in error["fix"]
    assert len(finished_parts(out)) == place.whole(engine)[1]["stages"][0]["parts"]
    assert_it_goes_on(place, engine, out)


@pytest.mark.parametrize("engine", ENGINES)
def test_workers_and_memory_may_be_others_when_it_goes_on(
    tmp_path: Path, place: Place, engine: str
) -> None:
    out = tmp_path / "out"
    with running(place.call(engine, out)) as process:
        wait_for(MOMENTS["half"], out, process)
        process.kill()
    report_of(place.call(engine, out, "--workers", "1", "--memory", "512MiB"))
    assert contents(out) == contents(place.whole(engine)[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_files_that_were_touched_since_are_not_mixed(
    tmp_path: Path, place: Place, engine: str
) -> None:
    out, day = tmp_path / "out", tmp_path / "day_0"
    day.write_bytes(place.raw[0].read_bytes())
    call = [*COMMAND, "preprocess", str(day), "--out", str(out), "--engine", engine, "--json"]
    report_of([*call, "--malformed", "skip"])
    before = contents(out)
    with day.open("ab") as file:
        file.write(b"\n")
    error = report_of([*call, "--malformed", "skip"], ExitCode.USAGE)["error"]
    assert (error["where"], error["fix"]) == (str(day), "name another --out")
    assert contents(out) == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_directory_that_is_there_stays(tmp_path: Path, place: Place, engine: str) -> None:
    """Check that an existing output directory (a mount point, or locked) is kept."""
    out = tmp_path / "out"
    out.mkdir()
    before = out.stat().st_ino
    assert_it_goes_on(place, engine, out)
    assert out.stat().st_ino == before


@pytest.mark.parametrize("engine", ENGINES)
def test_files_without_rows_fail(tmp_path: Path, engine: str) -> None:
    empty = tmp_path / "day_0"
    empty.write_bytes(b"")
    call = [*COMMAND, "preprocess", str(empty), "--out", str(tmp_path / "o"), "--engine", engine]
    error = report_of([*call, "--json"], ExitCode.RUN_FAILED)["error"]
    assert str(empty) in error["what"]
    assert not (tmp_path / "o" / "binary").exists()
