"""The fio engine with the real fio: runs, failures, cancelling, and a crosscheck."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need_root
from storlab._native import Histogram
from storlab.base.clock import monotonic_ns
from storlab.base.errors import EngineError
from storlab.cli.main import main
from storlab.contracts.engine import HoldsRuns
from storlab.engines.fio.engine import FioEngine, uring_available
from storlab.engines.fio.run import FioRun
from storlab.exchange.importer import import_files
from storlab.model.job import Arrival, Member, WeightedSize
from storlab.model.result import RunOutcome
from storlab.workloads.block.job import BlockJob, Mix, Offsets, Sync

MIB = 1 << 20
DEPTH = 4 if uring_available() else 1
"""Outstanding I/Os per job; 1 with psync, which fio uses if io_uring is disabled."""
pytestmark = pytest.mark.fio


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(8 * MIB))
    return path


def job_on(path: Path | str, size: int = 8 * MIB, **changes: Any) -> BlockJob:
    fields: dict[str, Any] = {
        "members": [Member(path=str(path), name="the file", kind="file", size=size)],
        "jobs": 2,
        "queue_depth": DEPTH,
        "direct": False,
        "mix": Mix(read=70, write=30),
        "block_sizes": [WeightedSize(bytes=65536)],
        "offsets": Offsets(kind="uniform"),
        "window_ns": 1_000_000_000,
        "interval_ns": 250_000_000,
    }
    return BlockJob(**{**fields, **changes})


def hold(job: BlockJob, tmp_path: Path) -> FioRun:
    """Return a run whose jobs all wait at their gate."""
    work_dir = tmp_path / f"work-{time.monotonic_ns()}"
    work_dir.mkdir()
    handle = FioEngine().hold(job, work_dir)
    while not handle.armed() and not handle.has_ended:
        time.sleep(0.01)
    return handle


def run(job: BlockJob, tmp_path: Path) -> RunOutcome:
    work_dir = tmp_path / f"work-{time.monotonic_ns()}"
    work_dir.mkdir()
    outcome = FioEngine().start(job, work_dir).wait(120)
    assert outcome is not None
    return outcome


def test_a_run_with_ramp_and_time_series(data: Path, tmp_path: Path) -> None:
    before_ns = time.monotonic_ns()
    outcome = run(job_on(data, ramp_ns=500_000_000), tmp_path)
    assert outcome.failure is None
    assert outcome.status == "finished"
    window_ns = outcome.window_end_ns - outcome.window_start_ns
    assert window_ns >= 1_000_000_000
    assert before_ns < outcome.window_start_ns < outcome.window_end_ns
    assert outcome.window_end_ns <= time.monotonic_ns()
    edges = sorted({(s.start_ns, s.end_ns) for s in outcome.samples})
    assert edges[0][0] == outcome.window_start_ns
    assert edges[-1][1] == outcome.window_end_ns
    assert all(first[1] == two[0] for first, two in itertools.pairwise(edges))
    for operation in ("read", "write"):
        totals = outcome.totals[operation]
        of_operation = [s for s in outcome.samples if s.operation == operation]
        assert sum(s.operations for s in of_operation) == totals.operations > 0
        assert sum(s.bytes for s in of_operation) == totals.bytes
        # at the end of the ramp fio may count an I/O in bytes but not in latencies
        assert totals.bytes / 65536 == pytest.approx(totals.operations, abs=8)
        merged = Histogram()
        for sample in of_operation:
            merged.add(Histogram.from_v2(sample.latency))
        assert merged.count == totals.operations
        assert totals.latency is not None
        assert merged.mean_ns == pytest.approx(totals.latency.mean_ns, rel=0.01)
    assert outcome.cpu is not None
    assert outcome.cpu.user_ns + outcome.cpu.system_ns > 0
    assert outcome.cpu.machine_busy_percent is not None
    assert outcome.cpu.cores <= 2
    assert {"job.fio", "command.txt", "fio.json", "stderr.txt"} <= set(outcome.raw)
    assert json.loads(outcome.raw["fio.json"])["jobs"][0]["error"] == 0


def test_the_same_result_imports_to_the_same_numbers(data: Path, tmp_path: Path) -> None:
    outcome = run(job_on(data, window_ns=300_000_000), tmp_path)
    path = tmp_path / "fio.json"
    path.write_bytes(outcome.raw["fio.json"])
    record = import_files([path], tmp_path / "result").records()[0]
    assert record.totals == outcome.totals
    assert record.params["block_size"] == 65536
    assert record.params["offsets"] == "uniform"


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": Offsets(kind="sequential"), "mix": Mix(read=0, write=100)},
        {"offsets": Offsets(kind="zipf", theta=1.2)},
        {"offsets": Offsets(kind="hot_cold")},
        {"offsets": Offsets(kind="permutation"), "mix": Mix(read=100, write=0)},
        {"block_sizes": [WeightedSize(bytes=4096, weight=3), WeightedSize(bytes=65536)]},
        {"backend": "posix", "queue_depth": 1},
        pytest.param({"batch": 4}, marks=pytest.mark.uring),
        {"arrival": Arrival(kind="poisson", rate_iops=500)},
        {"sync": Sync(kind="fdatasync", every_writes=4, final=True)},
        {"cpus": [min(os.sched_getaffinity(0))]},
        {"window_ns": None, "window_bytes": 4 * MIB},
    ],
    ids="-".join,
)
def test_fio_takes_every_kind_of_job(data: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    changes = {"window_ns": 200_000_000, **changes}
    outcome = run(job_on(data, **changes), tmp_path)
    assert outcome.failure is None, outcome.raw["stderr.txt"]
    assert sum(t.operations for t in outcome.totals.values()) > 0
    assert data.stat().st_size == 8 * MIB


def test_null_measures_the_engine(tmp_path: Path) -> None:
    member = Member(path="null:", name="null:", kind="null", size=1 << 30)
    outcome = run(job_on("null:", members=[member], window_ns=200_000_000), tmp_path)
    assert outcome.status == "finished"
    assert outcome.engine.backend == "null"


def test_bytes_bound_the_window(data: Path, tmp_path: Path) -> None:
    job = job_on(data, window_ns=None, window_bytes=4 * MIB, mix=Mix(read=100, write=0))
    assert run(job, tmp_path).totals["read"].bytes == 4 * MIB


def test_several_members_and_jobs(tmp_path: Path) -> None:
    members = []
    for number in range(3):
        path = tmp_path / f"m:{number}"  # a colon is special in fio's file names
        path.write_bytes(b"\1" * MIB)
        members.append(Member(path=str(path), name=path.name, kind="file", size=MIB))
    for jobs in (1, 2, 3, 5):
        job = job_on("", members=members, jobs=jobs, window_ns=100_000_000)
        assert run(job, tmp_path).failure is None
    assert sorted(path.name for path in tmp_path.glob("m*")) == ["m:0", "m:1", "m:2"]


def test_a_descriptor_that_storlab_holds_is_opened(data: Path, tmp_path: Path) -> None:
    """Check that fio opens the guard's descriptor, so a replaced path has no effect."""
    handle = os.open(data, os.O_RDWR)
    try:
        held = f"/proc/{os.getpid()}/fd/{handle}"
        outcome = run(job_on(held, window_ns=100_000_000), tmp_path)
    finally:
        os.close(handle)
    assert outcome.failure is None


def test_a_short_file_is_refused_and_left_alone(data: Path, tmp_path: Path) -> None:
    """Check that a file that is too short is refused; fio would delete and recreate it."""
    with pytest.raises(EngineError, match="has 8388608 bytes"):
        run(job_on(data, size=9 * MIB), tmp_path)
    assert data.stat().st_size == 8 * MIB
    with pytest.raises(EngineError, match="is missing"):
        run(job_on(tmp_path / "absent"), tmp_path)
    assert not (tmp_path / "absent").exists()


def test_cancelling_ends_it_soon_and_says_so(data: Path, tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    handle = FioEngine().start(job_on(data, window_ns=60_000_000_000), work_dir)
    while not (snapshot := handle.snapshot()).operations_s:
        assert handle.wait(0.05) is None
    assert snapshot.phase == "measure"
    assert snapshot.bytes_s
    assert snapshot.phase_ns == 60_000_000_000
    handle.cancel()
    outcome = handle.wait(20)
    assert outcome is not None
    assert outcome.status == "cancelled"
    assert outcome.totals["read"].operations > 0
    assert handle.snapshot().phase == "done"


def test_fio_does_not_outlive_us(data: Path, tmp_path: Path) -> None:
    """Check that fio ends after kill -9 of storlab."""
    code = (
        "import sys, time; from pathlib import Path;"
        "from storlab.workloads.block.job import BlockJob;"
        "from storlab.engines.fio.engine import FioEngine;"
        "run = FioEngine().start(BlockJob.model_validate_json(sys.argv[1]), Path(sys.argv[2]));"
        "print(run._process.pid, flush=True); time.sleep(60)"
    )
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    job = job_on(data, window_ns=60_000_000_000)
    parent = subprocess.Popen(
        [sys.executable, "-c", code, job.model_dump_json(), str(work_dir)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}/comm").read_text().startswith("fio")
        parent.send_signal(signal.SIGKILL)
    for _ in range(300):
        if not _runs(pid):
            return
        time.sleep(0.1)
    pytest.fail("fio was still running 30 s after its parent was killed")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def loop_device(path: Path) -> Iterator[str]:
    done = subprocess.run(
        ["losetup", "--find", "--show", str(path)], capture_output=True, text=True, check=True
    )
    try:
        yield done.stdout.strip()
    finally:
        subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


@pytest.mark.root
def test_a_failing_device_fails_the_run_with_errno_operation_and_offset(tmp_path: Path) -> None:
    need_root()
    image = tmp_path / "image"
    image.write_bytes(b"\0" * 8 * MIB)
    with loop_device(image) as device:
        os.truncate(image, 4 * MIB)
        member = Member(path=device, name="by-id/broken", kind="block_device", size=8 * MIB)
        job = job_on(device, members=[member], mix=Mix(read=100, write=0), direct=True)
        outcome = run(job, tmp_path)
    assert outcome.status == "failed"
    failure = outcome.failure
    assert failure is not None
    assert (failure.errno_name, failure.operation, failure.path) == ("EIO", "read", "by-id/broken")
    assert failure.offset is not None
    assert failure.offset >= 4 * MIB


def test_missing_and_old_fio_are_named_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORLAB_FIO", str(tmp_path / "nothing"))
    with pytest.raises(EngineError, match="apt install fio"):
        FioEngine().describe()
    for version, what in (("fio-3.32", "too old"), ("hello", "instead of a version")):
        script = tmp_path / f"fio-{what[:3]}"
        script.write_text(f"#!/bin/sh\necho {version}\n")
        script.chmod(0o755)
        monkeypatch.setenv("STORLAB_FIO", str(script))
        with pytest.raises(EngineError, match=what):
            FioEngine().describe()


def test_crosscheck_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(
        '[study]\nname = "check"\nramp = "50ms"\nruntime = "500ms"\n'
        '[[target]]\nname = "file"\npath = "data.bin"\nsize = "16MiB"\ndirect = false\n'
        '[[workload]]\nkind = "block"\nblock_size = "64KiB"\nread_percent = 70\n'
        f"queue_depth = {DEPTH}\njobs = [1, 2]\n"
    )
    code = main(
        ["crosscheck", "study.toml", "--repeats", "2", "--point", "jobs=1", "--out", "r", "--json"]
    )
    report = json.loads(capsys.readouterr().out)
    assert code == {"agree": 0, "differ": 10, "inconclusive": 12}[report["verdict"]]
    assert report["failed"] == report["missing"] == 0
    assert len(report["points"]) == 1
    metrics = {tuple(m["quantity"].split(".")): m for m in report["points"][0]["metrics"]}
    for name in (("throughput_mb_s", "all"), ("latency_p99_ns", "read"), ("cpu_us_per_io", "all")):
        assert metrics[name]["native"] > 0
        assert metrics[name]["reference"] > 0
        interval = metrics[name]["interval"]
        assert interval["low"] <= interval["estimate"] <= interval["high"]
    runs = [json.loads(p.read_text()) for p in Path("r/runs").glob("*/run.json")]
    assert sorted(r["engine"]["name"] for r in runs) == ["fio", "fio", "native", "native"]
    assert main(["compare", "r", "--json"]) == 0


@pytest.mark.parametrize(("jobs", "ramp_ns"), [(1, 0), (5, 300_000_000)])
def test_a_held_run_begins_when_it_is_told(
    data: Path, tmp_path: Path, jobs: int, ramp_ns: int
) -> None:
    job = job_on(data, jobs=jobs, ramp_ns=ramp_ns)
    handle = hold(job, tmp_path)
    assert isinstance(FioEngine(), HoldsRuns)
    assert handle.snapshot().phase == "armed"
    time.sleep(1.5)  # longer than fio takes to start by itself
    start_ns = monotonic_ns() + 200_000_000
    handle.open_at(start_ns)
    with pytest.raises(RuntimeError):
        handle.open_at(start_ns)
    outcome = handle.wait(60)
    ended_ns = monotonic_ns()
    assert outcome is not None and outcome.status == "finished", outcome
    late_ns, last_ns = outcome.first_io_late_ns, outcome.last_worker_late_ns
    assert late_ns is not None and last_ns is not None and 0 <= late_ns <= last_ns
    assert outcome.window_start_ns == start_ns + late_ns + ramp_ns
    assert job.window_ns is not None
    assert job.window_ns <= outcome.window_end_ns - outcome.window_start_ns
    # If the time at the gate were in the window, the window would end that much later than fio. On
    # a busy machine a job's ramp ends before its first I/O took that long.
    assert outcome.window_end_ns <= ended_ns + 1_000_000_000
    assert sum(total.operations for total in outcome.totals.values()) > 0
    assert not any("prerun" in note.replace("exec_prerun", "") for note in outcome.notes)


def test_a_held_run_that_is_cancelled_ends(data: Path, tmp_path: Path) -> None:
    handle = hold(job_on(data, jobs=3), tmp_path)
    handle.cancel()
    outcome = handle.wait(30)
    assert outcome is not None
    assert (outcome.status, outcome.failure, outcome.samples) == ("cancelled", None, [])


def test_a_held_run_that_cannot_be_set_up_fails_and_is_never_armed(
    data: Path, tmp_path: Path
) -> None:
    handle = hold(job_on(data, cpus=[100_000]), tmp_path)
    outcome = handle.wait(30)
    assert outcome is not None and outcome.status == "failed"
    assert not handle.armed()


def test_a_run_that_is_not_held_is_told_nothing(data: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    handle = FioEngine().start(job_on(data), tmp_path / "work")
    with pytest.raises(RuntimeError):
        handle.open_at(0)
    handle.cancel()
    assert handle.wait(30) is not None
