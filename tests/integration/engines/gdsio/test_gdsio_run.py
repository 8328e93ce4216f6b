"""The gdsio process, with a stand-in that is started like gdsio; and the real one."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import EngineError
from storlab.engines.gdsio.engine import GdsioEngine, find_gdsio
from storlab.engines.gdsio.run import GdsioRun
from storlab.model.result import RunOutcome
from storlab.workloads.common import metrics as common
from support.gpudirect_jobs import MIB, files, gdsio_standin, make_job

SECOND = 1_000_000_000


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = gdsio_standin(tmp_path)
    monkeypatch.setenv("STORLAB_GDSIO", str(program))
    monkeypatch.delenv("STANDIN_GDSIO", raising=False)
    return program


def start(tmp_path: Path, count: int = 1, **changes: Any) -> GdsioRun:
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    return GdsioEngine().start(make_job(*files(tmp_path, count), **changes), work_dir)


def run(tmp_path: Path, count: int = 1, **changes: Any) -> RunOutcome:
    outcome = start(tmp_path, count, **changes).wait(120)
    assert outcome is not None
    return outcome


@pytest.mark.usefixtures("standin")
def test_its_line_becomes_totals_and_a_window(tmp_path: Path) -> None:
    outcome = run(tmp_path, 3)
    assert (outcome.status, outcome.failure) == ("finished", None)
    assert outcome.engine.version == "1.12"
    assert (outcome.engine.backend, outcome.engine.features) == ("gdsio -x 0", ["XferType=GPUD"])
    assert list(outcome.totals) == ["read"]
    read = outcome.totals["read"]
    assert read.bytes == read.operations * 65536 > 0
    assert outcome.window_end_ns - outcome.window_start_ns >= SECOND
    assert outcome.cpu is not None
    assert outcome.cpu.user_ns + outcome.cpu.system_ns > 0
    assert {"command.txt", "stdout.txt", "stderr.txt", "process.json"} == set(outcome.raw)
    assert outcome.raw["stdout.txt"].startswith(b"IoType: RANDREAD XferType: GPUD Threads: 3 ")
    command = outcome.raw["command.txt"].decode()
    assert "-D gpu0 -d 0 -w 3 -s 8192K -i 64K -x 0 -I 2 -T 1 -k 1" in command


@pytest.mark.usefixtures("standin")
def test_what_it_does_not_tell_is_absent_and_not_zero(tmp_path: Path) -> None:
    outcome = run(tmp_path, 2)
    read = outcome.totals["read"]
    assert read.latency is None
    assert read.latency_mean_ns is not None
    assert outcome.samples == []
    assert any("no percentiles" in note for note in outcome.notes)
    found = {m.name: m.value for m in common.time_metrics(outcome, ("read", "write"))}
    assert found == {"latency_mean_ns": read.latency_mean_ns}
    implied = common.implied_outstanding(outcome, ("read", "write"))
    assert implied == pytest.approx(2, rel=0.05)


@pytest.mark.usefixtures("standin")
def test_a_ramp_runs_before_and_is_in_no_number(tmp_path: Path) -> None:
    before = time.monotonic_ns()
    outcome = run(tmp_path, ramp_ns=SECOND)
    assert outcome.failure is None
    assert b"-T 1" in outcome.raw["command.txt"]
    assert outcome.raw["ramp.txt"].startswith(b"IoType:")
    assert outcome.raw["stdout.txt"].count(b"IoType:") == 1
    assert outcome.window_start_ns - before > SECOND  # the ramp precedes the window
    assert any("gdsio has no ramp" in note for note in outcome.notes)


@pytest.mark.usefixtures("standin")
def test_what_it_does_after_its_line_is_in_no_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_GDSIO", "teardown")
    outcome = run(tmp_path)
    assert outcome.failure is None
    assert time.monotonic_ns() - outcome.window_end_ns > SECOND  # taken by its teardown


@pytest.mark.usefixtures("standin")
def test_writes_go_to_the_files_themselves(tmp_path: Path) -> None:
    outcome = run(tmp_path, mix={"read": 0, "write": 100}, offsets={"kind": "sequential"})
    assert list(outcome.totals) == ["write"]
    assert (tmp_path / "data.0").stat().st_size == 8 * MIB
    assert any((tmp_path / "data.0").read_bytes()[:4096])


@pytest.mark.usefixtures("standin")
def test_a_batch_has_its_entries_and_no_latency(tmp_path: Path) -> None:
    outcome = run(tmp_path, api="batch", queue_depth=16)
    assert outcome.failure is None
    assert outcome.totals["read"].latency_mean_ns is None
    assert not [note for note in outcome.notes if "entries instead of" in note]
    assert common.time_metrics(outcome, ("read", "write")) == []


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("unsupported", "GPUDirect Storage not supported on current file"),
        ("io-error", "an I/O failed: Input/output error"),
        ("lost", "CUDA_ERROR_NO_DEVICE"),
        ("no-line", "it has no result line"),
        ("cut", "cut short"),
        ("old", "before 1.0"),
        ("idle", "no operations"),
        ("unloadable", "libcufile.so.0: cannot open shared object file"),
    ],
)
def test_invalid_runs_fail_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    GdsioEngine().describe()  # cache its version before it breaks
    monkeypatch.setenv("STANDIN_GDSIO", mode)
    outcome = run(tmp_path)
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert words in outcome.failure.message
    assert outcome.failure.fix


@pytest.mark.usefixtures("standin")
def test_a_failed_ramp_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_GDSIO", "unsupported")
    outcome = run(tmp_path, ramp_ns=SECOND)
    assert outcome.failure is not None
    assert "not supported on current file" in outcome.failure.message
    assert outcome.failure.path == str(tmp_path / "data.0")


@pytest.mark.usefixtures("standin")
def test_a_rate_that_contradicts_itself_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_GDSIO", "boast")
    outcome = run(tmp_path)
    assert outcome.failure is None
    assert any("the latter is used" in note for note in outcome.notes)


@pytest.mark.usefixtures("standin")
def test_cancelling_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_GDSIO", "hangs")
    running = start(tmp_path)
    assert running.snapshot().phase == "measure"
    while not (tmp_path / "work" / "ready").exists():
        assert running.wait(0.05) is None
    running.cancel()
    outcome = running.wait(60)
    assert outcome is not None
    assert (outcome.status, outcome.failure, outcome.totals) == ("cancelled", None, {})


@pytest.mark.usefixtures("standin")
def test_a_file_that_is_missing_or_short_is_no_order(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(MIB))
    for name, word in (("short", "has 1048576 bytes"), ("gone", "is missing")):
        with pytest.raises(EngineError, match=word):
            GdsioEngine().start(make_job(tmp_path / name), tmp_path)
    assert not (tmp_path / "gone").exists()


def test_another_program_of_that_name_is_named(
    standin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(standin, ns=(1, 1))  # otherwise the cached answer is used
    monkeypatch.setenv("STANDIN_GDSIO", "other")
    with pytest.raises(EngineError, match="printed 'something else"):
        GdsioEngine().describe()


def test_a_missing_gdsio_is_named_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(Path(place, "gdsio").exists() for place in ("/usr/local/cuda/gds/tools",)):
        pytest.skip("gdsio is installed here")
    monkeypatch.delenv("STORLAB_GDSIO", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError) as raised:
        GdsioEngine().describe()
    assert "gds-tools" in str(raised.value)
    assert "/usr/local/cuda/gds/tools" in str(raised.value)


def test_it_is_found_in_the_cuda_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "gds" / "tools"
    tools.mkdir(parents=True)
    program = gdsio_standin(tools)
    monkeypatch.delenv("STORLAB_GDSIO", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    if shutil.which("gdsio") is not None:
        pytest.skip("a gdsio on the path comes first")
    assert find_gdsio() == program


def test_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORLAB_GDSIO", raising=False)
    try:
        program = find_gdsio()
    except EngineError as error:
        pytest.skip(f"gdsio is not installed: {error.fix}")
    if not Path("/dev/nvidia0").exists():
        pytest.skip("there is no NVIDIA GPU")
    assert program.is_file()
    outcome = run(tmp_path, 2, path="bounce")
    assert outcome.failure is None, outcome.failure
    assert outcome.totals["read"].operations > 0
