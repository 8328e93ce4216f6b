"""After full disks, failed flushes, power loss or kills, the last checkpoint is restorable.

Every fault is real: of a file system, a device, a kernel limit, or a signal.
"""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.native.engine import NativeEngine
from storlab.model.place import DataPlace
from storlab.model.result import Failure, RunOutcome
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from support.mounts import cut_power, loop_device, make_image, mounted

MIB = 1 << 20
MANIFEST = "storlab-checkpoint.json"
RANKS = 2
SIZE = 4 * MIB  # of a file
WHOLE = 4 * SIZE

CHILD = """\
import resource, sys
from storlab import _native
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
run = _native.Run("checkpoint", sys.stdin.read(), {})
while not run.wait(1.0):
    pass
print(run.outcome()[0])
"""


def order(place: Path, size: int = SIZE, **changes: Any) -> CheckpointJob:
    """Return a job of two files of ``size`` per rank on two ranks, in small I/Os.

    Small I/Os make it possible to stop in the middle of a file.
    """
    direct = changes.pop("direct", True)
    job = CheckpointJob(
        place=DataPlace(directory=str(place), direct=direct),
        files=[
            CheckpointFile(name=f"rank{rank}/part{n}.pt", rank=rank, bytes=size + n)
            for rank in range(RANKS)
            for n in range(2)
        ],
        ranks=RANKS,
        writes=1,
        restores=0,
        io_bytes=128 << 10,
        queue_depth=2,
        preallocate=False,  # so that a file's size shows its progress
        seed=3,
    )
    return job.model_copy(update=changes)


def run(job: CheckpointJob) -> RunOutcome:
    outcome = NativeEngine().start(job, Path()).wait()
    assert outcome is not None
    return outcome


def finished(job: CheckpointJob) -> RunOutcome:
    outcome = run(job)
    assert outcome.status == "finished", outcome.failure
    return outcome


def failed(job: CheckpointJob) -> tuple[RunOutcome, Failure]:
    outcome = run(job)
    assert outcome.status == "failed"
    assert outcome.failure is not None
    return outcome, outcome.failure


def names(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir())


def assert_restorable(place: Path, number: int, **changes: Any) -> None:
    """Check that a restore-only job reads every byte and that no partial checkpoint is left."""
    outcome = finished(order(place, writes=0, restores=1, **changes))
    (restore,) = outcome.details["restores"]
    assert restore["number"] == number
    assert restore["verified"] is True
    assert restore["bytes"] == outcome.totals["read"].bytes
    assert not [name for name in names(place) if name.startswith(".partial")]


def half_made(place: Path) -> dict[Path, int]:
    """Return checkpoints without a manifest, with the bytes of their files."""
    found = {}
    for entry in place.glob("*-0*") if place.is_dir() else ():
        if not (entry / MANIFEST).exists():
            found[entry] = 0
            with suppress(FileNotFoundError):  # it was published meanwhile
                for file in entry.rglob("*.pt"):
                    found[entry] += file.stat().st_size
    return found


@contextmanager
def child(job: CheckpointJob, limit: int = 0) -> Iterator[subprocess.Popen[str]]:
    """Run the job in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(limit)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(job.model_dump_json())
        process.stdin.close()
        process.stdin = None
        yield process
    finally:
        process.kill()
        process.communicate()


def stop_in_the_middle(
    process: subprocess.Popen[str], place: Path, share: float, whole: int = WHOLE
) -> Path:
    """Stop the process while a checkpoint has at least this share of its bytes and no manifest."""
    while True:
        assert process.poll() is None, process.communicate()
        for entry, size in half_made(place).items():
            if size < share * whole or entry.name.endswith("000001"):
                continue
            process.send_signal(signal.SIGSTOP)
            if half_made(place).get(entry, -1) >= share * whole:
                return entry
            process.send_signal(signal.SIGCONT)
        time.sleep(0.0005)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("publish", ["rename", "in_place"])
def test_a_killed_process_leaves_the_checkpoint_before(
    tmp_path: Path, publish: str, share: float
) -> None:
    place = tmp_path / "checkpoints"
    # It runs without end, so that the kill always hits it in the middle.
    endless = order(place, writes=100_000, keep_last=2, publish=publish)
    with child(endless) as process:
        half = stop_in_the_middle(process, place, share)
        process.send_signal(signal.SIGKILL)
        process.wait()
    number = int(half.name.rpartition("-")[2])
    assert not (half / MANIFEST).exists()
    assert half.exists()
    assert_restorable(place, number - 1, publish=publish)
    # The next job replaces the partial checkpoint.
    finished(order(place, publish=publish))
    assert_restorable(place, number, publish=publish)
    finished(order(place, task="clean"))
    assert not place.exists()


def test_a_rank_that_cannot_write_its_file_is_named(tmp_path: Path) -> None:
    """Check the error if rank 1's file exceeds the file size limit of the process."""
    place = tmp_path / "checkpoints"
    finished(order(place))
    job = order(place, restores=1)
    larger = job.files[3].model_copy(update={"bytes": 6 * MIB})
    job = job.model_copy(update={"files": [*job.files[:3], larger]})
    with child(job, limit=5 * MIB) as process:
        stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert '"status":"failed"' in stdout
    assert ".partial-000002/rank1/part1.pt" in stdout
    assert "checkpoint 2 was not published; checkpoint 1 is the newest complete one" in stdout
    assert names(place) == ["checkpoint-000001"]
    assert_restorable(place, 1)


@pytest.mark.root
@pytest.mark.parametrize("preallocate", [True, False], ids=["preallocated", "grown"])
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "buffered"])
def test_a_full_disk_costs_only_the_checkpoint_that_did_not_fit(
    tmp_path: Path, direct: bool, preallocate: bool
) -> None:
    image = make_image(tmp_path / "disk.img", 64 * MIB)
    with mounted(tmp_path / "fs", "-o", "loop", image) as fs:
        place = fs / "checkpoints"
        job = order(place, writes=9, direct=direct, preallocate=preallocate)
        outcome, failure = failed(job)
        assert (failure.operation == "preallocate") == preallocate
        number = len(outcome.details["writes"])
        assert 1 <= number < 9
        assert failure.errno == errno.ENOSPC
        assert failure.errno_name == "ENOSPC"
        assert failure.path is not None
        assert f".partial-{number + 1:06}/rank" in failure.path
        text = f"checkpoint {number} is the newest complete one"
        assert any(text in note for note in outcome.notes)
        assert names(place) == [f"checkpoint-{n:06}" for n in range(1, number + 1)]
        assert_restorable(place, number, direct=direct)


@pytest.mark.root
def test_memory_that_is_full_is_a_full_disk_too(tmp_path: Path) -> None:
    with mounted(tmp_path / "fs", "-t", "tmpfs", "-o", "size=40m", "storlab-test") as fs:
        outcome, failure = failed(order(fs / "checkpoints", writes=9, direct=False))
        assert failure.errno_name == "ENOSPC"
        assert_restorable(fs / "checkpoints", len(outcome.details["writes"]), direct=False)


@pytest.mark.root
def test_a_flush_that_fails_fails_the_run_and_not_the_checkpoint_before(tmp_path: Path) -> None:
    """Check that a failed flush fails the run and keeps the previous checkpoint."""
    image = make_image(tmp_path / "disk.img", 128 * MIB)
    files = [
        CheckpointFile(name=f"rank{rank}/part{n}.pt", rank=rank, bytes=256 << 10)
        for rank in range(RANKS)
        for n in range(40)
    ]
    with loop_device(image) as loop:
        with mounted(tmp_path / "fs", loop, "-o", "commit=300") as fs:
            place = fs / "checkpoints"
            changes: dict[str, Any] = {"files": files, "direct": False}
            with child(order(place, writes=100_000, keep_last=1, **changes)) as process:
                half = stop_in_the_middle(process, place, 1.0, whole=80 * (256 << 10))
                cut_power(fs)
                process.send_signal(signal.SIGCONT)
                stdout, stderr = process.communicate()
            assert process.returncode == 0, stderr
            failure = Failure.model_validate(json.loads(stdout)["failure"])
            # ext4 reports the latter once it has noticed that its journal is gone.
            assert failure.errno_name in ("EIO", "EROFS")
            assert (failure.path or "").startswith(str(half))
            # The manifest is written after all files are flushed.
            assert failure.operation == "sync" or (failure.path or "").endswith(MANIFEST)
        number = int(half.name.rpartition("-")[2])
        with mounted(tmp_path / "fs", loop):
            assert_restorable(place, number - 1, **changes)


@pytest.mark.root
def test_what_was_called_durable_survives_a_loss_of_power(tmp_path: Path) -> None:
    image = make_image(tmp_path / "disk.img", 96 * MIB)
    with loop_device(image) as loop:
        with mounted(tmp_path / "fs", loop, "-o", "commit=300") as fs:
            finished(order(fs / "checkpoints", direct=False, writes=2))
            cut_power(fs)
        with mounted(tmp_path / "fs", loop):
            assert_restorable(fs / "checkpoints", 2)


@pytest.mark.root
def test_what_was_not_flushed_does_not_survive_it(tmp_path: Path) -> None:
    """Check that the simulated power loss does discard unflushed data."""
    image = make_image(tmp_path / "disk.img", 96 * MIB)
    with loop_device(image) as loop:
        with mounted(tmp_path / "fs", loop, "-o", "commit=300") as fs:
            finished(order(fs / "checkpoints", direct=False, sync="none"))
            cut_power(fs)
        with mounted(tmp_path / "fs", loop):
            assert not (fs / "checkpoints" / "checkpoint-000001" / MANIFEST).exists()


@pytest.mark.root
@pytest.mark.parametrize("publish", ["rename", "in_place"])
def test_power_lost_in_the_middle_leaves_the_checkpoint_before(
    tmp_path: Path, publish: str
) -> None:
    image = make_image(tmp_path / "disk.img", 128 * MIB)
    with loop_device(image) as loop:
        with mounted(tmp_path / "fs", loop, "-o", "commit=300") as fs:
            place = fs / "checkpoints"
            endless = order(place, writes=100_000, keep_last=2, publish=publish)
            with child(endless) as process:
                half = stop_in_the_middle(process, place, 0.5)
                cut_power(fs)
                process.send_signal(signal.SIGCONT)
                stdout, stderr = process.communicate()
            assert process.returncode == 0, stderr
            assert '"status":"failed"' in stdout
            assert '"errno_name":"EIO"' in stdout
        number = int(half.name.rpartition("-")[2])
        with mounted(tmp_path / "fs", loop):
            assert_restorable(place, number - 1, publish=publish)


def test_a_directory_that_vanishes_is_no_reason_to_hang(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    with child(order(place, writes=100_000, keep_last=1)) as process:
        half = stop_in_the_middle(process, place, 0.1)
        place.rename(tmp_path / "elsewhere")
        process.send_signal(signal.SIGCONT)
        stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert '"status":"failed"' in stdout
    number = int(half.name.rpartition("-")[2])
    assert f"checkpoint {number} was not published" in stdout
    assert_restorable(tmp_path / "elsewhere", number - 1)
