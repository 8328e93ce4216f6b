"""The warp process, with a stand-in: outcomes, secrets, cancelling.

``test_warp_engine.py`` checks the numbers of the real warp.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import EngineError
from storlab.base.units import NS_PER_S
from storlab.engines.warp import run as warp_run
from storlab.engines.warp.engine import WarpEngine
from storlab.engines.warp.records import unpacked
from storlab.engines.warp.run import WarpRun
from storlab.model.job import WeightedSize
from storlab.model.result import RunOutcome
from storlab.model.s3 import Credentials, S3Store
from storlab.workloads.object.job import ObjectJob, ObjectMix, ObjectSizes, Pool

STANDIN = Path(__file__).parents[3] / "simulators" / "warp.py"
SECRETS = ("AKIDofThisTest", "secretOfThisTest", "tokenOfThisTest")
SIZES = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=65536)])


@pytest.fixture(autouse=True)
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "warp"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("STORLAB_WARP", str(program))
    monkeypatch.delenv("STANDIN_WARP", raising=False)
    return program


def job(**changes: Any) -> ObjectJob:
    fields: dict[str, Any] = {
        "store": S3Store(
            endpoints=["http://127.0.0.1:9000"], bucket="bench", credentials=Credentials(*SECRETS)
        ),
        "pool": Pool(prefix="p/", objects=100, sizes=SIZES),
        "write_prefix": "run/",
        "sizes": SIZES,
        "mix": ObjectMix(get=50, put=50),
        "concurrency": 1,
        "ramp_ns": 1_000_000_000,
        "window_ns": 3_000_000_000,
    }
    return ObjectJob(**{**fields, **changes})


def start(tmp_path: Path, **changes: Any) -> WarpRun:
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    return WarpEngine().start(job(**changes), work_dir)


def run(tmp_path: Path, **changes: Any) -> RunOutcome:
    outcome = start(tmp_path, **changes).wait(120)
    assert outcome is not None
    return outcome


def test_the_window_is_cut_from_the_record(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    assert (outcome.status, outcome.failure) == ("finished", None)
    assert outcome.window_end_ns - outcome.window_start_ns == 3_000_000_000
    assert {kind: t.operations for kind, t in outcome.totals.items()} == {"get": 150, "put": 150}
    assert outcome.totals["get"].bytes == 150 * 65536
    latency, ttfb = outcome.totals["get"].latency, outcome.totals["get"].ttfb
    assert latency is not None
    assert ttfb is not None
    assert (latency.mean_ns, ttfb.mean_ns) == (5_000_000, 2_500_000)
    assert len(outcome.samples) == 6
    assert outcome.samples[0].start_ns == outcome.window_start_ns
    assert 0 < outcome.drain_ns <= 250_000_000
    assert outcome.cpu is not None
    assert outcome.engine.version == "9.8.7"


def test_no_secret_stays_anywhere(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    assert b"--session-token=***" in unpacked(outcome.raw["requests.csv.zst"])
    kept = [unpacked(content) for content in outcome.raw.values()]
    kept += [repr(outcome.notes).encode(), repr(outcome.failure).encode()]
    for secret in SECRETS:
        assert not any(secret.encode() in content for content in kept)
    assert {"command.txt", "stdout.txt", "stderr.txt", "process.json"} < set(outcome.raw)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fails", "Error preparing server. Access Denied. (***)"),
        ("no-record", "Mixed operations."),
        ("errors", "all 300 requests in the window failed, most of them with NoSuchKey (404)"),
        ("short", "before the window's end"),
        ("damaged", "cannot be read: file"),
    ],
)
def test_invalid_runs_fail_with_warps_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    monkeypatch.setenv("STANDIN_WARP", mode)
    outcome = run(tmp_path)
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert words in outcome.failure.message
    assert outcome.failure.fix
    assert ("requests.csv.zst" in outcome.raw) == (mode in ("errors", "short"))


@pytest.mark.parametrize("mode", ["hangs", "stubborn"])
def test_cancelling_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("STANDIN_WARP", mode)
    handle = start(tmp_path)
    while not (tmp_path / "work" / "ready").exists():
        assert handle.wait(0.05) is None
    # Phases are guessed from CPU use: a start that waits for a core looks like a load.
    assert handle.snapshot().phase in ("prepare", "ramp")
    handle.cancel()
    outcome = handle.wait(60)
    assert outcome is not None
    assert (outcome.status, outcome.totals) == ("cancelled", {})
    assert handle.snapshot().phase == "done"
    assert not _lives(str(STANDIN))


def test_a_stall_while_warp_prepares_does_not_shorten_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the time limit scales with the data: 1 TB at 5 MB/s takes 58 hours."""
    sizes = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=4 << 20)])
    handle = start(tmp_path, pool=Pool(prefix="p/", objects=250_000, sizes=sizes), sizes=sizes)
    assert handle.wait(120) is not None
    handle._phases.load_ns = handle.started_ns + 10 * NS_PER_S
    for hours, expected in ((1, False), (50, False), (60, True)):
        now_ns = handle.started_ns + hours * 3600 * NS_PER_S
        monkeypatch.setattr(warp_run, "monotonic_ns", lambda now_ns=now_ns: now_ns)
        assert handle.overdue() == expected
    handle._phases.load_ns = handle.started_ns + 60 * 3600 * NS_PER_S
    assert not handle.overdue()


def _lives(word: str) -> bool:
    """Return whether a child of this process has the word in its command line."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = (directory / "stat").read_text().rpartition(")")[2].split()[1]
            command = (directory / "cmdline").read_text()
        except OSError:
            continue
        if parent == str(os.getpid()) and word in command:
            return True
    return False


@pytest.mark.parametrize(
    ("mode", "what"), [("old", "has no --full"), ("other", "instead of a version")]
)
def test_another_program_of_that_name(
    standin: Path, monkeypatch: pytest.MonkeyPatch, mode: str, what: str
) -> None:
    monkeypatch.setenv("STANDIN_WARP", mode)
    os.utime(standin, ns=(time.time_ns(), hash(mode) % 10**15))  # answers are cached
    with pytest.raises(EngineError) as caught:
        WarpEngine().describe()
    assert what in caught.value.what
    assert "go install github.com/minio/warp@latest" in caught.value.fix


def test_a_missing_warp_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLAB_WARP", "/nowhere/warp")
    with pytest.raises(EngineError) as caught:
        WarpEngine().describe()
    assert "STORLAB_WARP=/nowhere/warp" in caught.value.where
    assert "releases" in caught.value.fix


def test_a_job_that_it_cannot_run_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="verify"):
        start(tmp_path, verify=True)
    assert not list((tmp_path / "work").iterdir())
