"""Devices that fail during a run: the run fails with its reason, the campaign continues."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from storlab.model.result import Failure, RunRecord
from storlab.results.store import ResultStore
from storlab.stores.sidecar import DataFileHold, Sidecar
from support.mounts import flush
from support.sidecars import put_sidecar

pytestmark = pytest.mark.root

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]


def sh(*command: str | Path) -> str:
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def storlab(*arguments: str | Path, code: int) -> dict[str, Any]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments), "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@contextmanager
def mounted(where: Path, *options: str | Path) -> Iterator[Path]:
    where.mkdir()
    sh("mount", *options, where)
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=False)


@contextmanager
def loop_device(image: Path) -> Iterator[Path]:
    device = Path(sh("losetup", "--find", "--show", image))
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", str(device)], check=False)


def write_study(
    place: Path, bad: str, *, read: int, more: str = "", settle: int = 0, block: str = "64KiB"
) -> Path:
    """Write a study of a failing and a healthy target, with two repeats each."""
    study = place / "study.toml"
    study.write_text(f"""
    [study]
    name = "device errors"
    repeats = 2
    ramp = 0
    runtime = "500ms"
    interval = "50ms"
    settle = {settle}
    [[target]]
    name = "bad"
    {bad}
    {more}
    [[target]]
    name = "good"
    path = "{place}/good.dat"
    size = "4MiB"
    direct = false
    [[workload]]
    kind = "block"
    block_size = "{block}"
    read_percent = {read}
    queue_depth = 8
    """)
    return study


def bad_and_good(out: Path) -> tuple[list[RunRecord], list[RunRecord]]:
    store = ResultStore.open(out)
    store.check()
    records = store.records()
    assert len(records) == 4
    bad = [record for record in records if record.target == "bad"]
    return bad, [record for record in records if record.target == "good"]


def failure_of(record: RunRecord) -> Failure:
    assert record.status == "failed"
    assert record.failure is not None
    assert record.metrics == []
    return record.failure


def test_no_space_left(tmp_path: Path) -> None:
    """Check ENOSPC during a run, by a sparse file on a file system that cannot hold it."""
    options = ("-t", "tmpfs", "-o", "size=8m", "storlab-test")
    with mounted(tmp_path / "small", *options) as small:
        data = small / "data"
        data.touch()
        os.truncate(data, 64 << 20)
        put_sidecar(data, Sidecar(64 << 20, 1, "test", "complete", data.stat().st_ino))
        study = write_study(
            tmp_path, f'path = "{data}"\nsize = "64MiB"\ndirect = false', read=0, block="4KiB"
        )
        report = storlab("run", study, "--out", tmp_path / "out", "--no-report", code=6)
    assert report["runs"]["failed"] == 2
    bad, good = bad_and_good(tmp_path / "out")
    for record in bad:
        failure = failure_of(record)
        assert failure.errno == errno.ENOSPC
        assert failure.errno_name == "ENOSPC"
        assert failure.operation == "write"
        assert failure.offset is not None
        assert 0 <= failure.offset < 64 << 20
        assert failure.path == str(data)
    assert [record.status for record in good] == ["finished", "finished"]


def test_a_device_that_cannot_read_its_second_half(tmp_path: Path) -> None:
    """Check EIO with its offset, by a loop device whose backing file was truncated."""
    image = tmp_path / "disk.img"
    image.write_bytes(os.urandom(16 << 20))
    with loop_device(image) as loop:
        os.truncate(image, 8 << 20)
        study = write_study(tmp_path, f'path = "{loop}"', read=100)
        storlab("run", study, "--out", tmp_path / "out", "--no-report", code=6)
        bad, good = bad_and_good(tmp_path / "out")
        for record in bad:
            failure = failure_of(record)
            assert failure.errno_name == "EIO"
            assert failure.operation == "read"
            assert failure.offset is not None
            assert failure.offset >= 8 << 20
            assert failure.path == str(loop)
        assert [record.status for record in good] == ["finished", "finished"]
        before = {record.run_id: record.started_at for record in good}
        os.truncate(image, 16 << 20)
        report = storlab("resume", tmp_path / "out", "--retry-failed", "--no-report", code=0)
    assert report["runs"] == {
        "planned": 4,
        "finished": 4,
        "failed": 0,
        "missing": 0,
        "this_session": 2,
    }
    _, good = bad_and_good(tmp_path / "out")
    assert {record.run_id: record.started_at for record in good} == before


def test_a_file_system_that_turns_read_only(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    sh("mkfs.ext4", "-q", image)
    out = tmp_path / "out"
    with mounted(tmp_path / "fs", "-o", "loop", image) as place:
        study = write_study(
            tmp_path, f'path = "{place}/data"\nsize = "4MiB"\ndirect = false', read=0, settle=2
        )
        process = subprocess.Popen(
            [*COMMAND, "run", str(study), "--out", str(out), "--no-report", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not (out / "runs").is_dir() or not list((out / "runs").glob("[!.]*")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        remount = ["mount", "-o", "remount,ro", str(place)]
        while subprocess.run(remount, capture_output=True, check=False).returncode:
            assert process.poll() is None  # io_uring releases its files a moment later
            time.sleep(0.01)
        stdout, stderr = process.communicate()
    assert process.returncode == 6, stdout + stderr
    bad, good = bad_and_good(out)
    failure = failure_of(bad[-1])
    assert failure.errno_name == "EROFS"
    assert failure.operation == "open"
    assert [record.status for record in good] == ["finished", "finished"]


def test_a_target_that_cannot_be_laid_out_fails_alone(tmp_path: Path) -> None:
    """Check that a disk failing during layout fails only its own target."""
    small = mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=30m", "none")
    with small as place_of_image:
        # Larger than the backing file: blocks beyond its end cannot be written.
        image = place_of_image / "disk.img"
        with image.open("wb") as file:
            file.truncate(64 << 20)
        sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        with loop_device(image) as loop, mounted(tmp_path / "fs", loop) as place:
            study = write_study(
                tmp_path, f'path = "{place}/data"\nsize = "40MiB"', read=100, more="direct = true"
            )
            storlab("run", study, "--out", tmp_path / "out", "--no-report", code=6)
    bad, good = bad_and_good(tmp_path / "out")
    for record in bad:
        failure = failure_of(record)
        assert failure.errno_name in ("EIO", "EROFS", "ENOSPC")
    assert [record.status for record in good] == ["finished", "finished"]


@pytest.fixture
def blank(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    image = tmp_path / "blank.img"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    with loop_device(image) as loop:
        yield loop, image


def test_a_device_is_overwritten_with_consent_and_only_in_its_region(
    tmp_path: Path, blank: tuple[Path, Path]
) -> None:
    loop, image = blank
    study = write_study(
        tmp_path,
        f'path = "{loop}"\nserial = "{image}"',
        read=0,
        more='offset = "4MiB"\nsize = "8MiB"',
    )
    storlab("run", study, "--out", tmp_path / "out", "--no-report", code=0)
    flush(loop)
    content = image.read_bytes()
    assert content[: 4 << 20] == bytes(4 << 20)
    assert content[12 << 20 :] == bytes(20 << 20)
    assert content[4 << 20 : 12 << 20] != bytes(8 << 20)


@pytest.mark.fio
def test_fio_gets_the_device_that_the_guard_holds(tmp_path: Path, blank: tuple[Path, Path]) -> None:
    loop, image = blank
    study = write_study(tmp_path, f'path = "{loop}"\nserial = "{image}"', read=0)
    text = study.read_text().replace("repeats = 2", 'repeats = 2\nengine = "fio"')
    study.write_text(text.replace("queue_depth = 8", "queue_depth = 1"))  # maximum of psync
    storlab("run", study, "--out", tmp_path / "out", "--no-report", code=0)
    bad, _ = bad_and_good(tmp_path / "out")
    assert all(record.engine.name == "fio" for record in bad)
    assert all(record.totals["write"].bytes > 0 for record in bad)
    flush(loop)
    assert any(image.read_bytes())


def test_without_consent_nothing_is_written_anywhere(
    tmp_path: Path, blank: tuple[Path, Path]
) -> None:
    loop, image = blank
    study = write_study(tmp_path, f'path = "{loop}"', read=0)
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    report = storlab("run", study, "--out", tmp_path / "out", "--no-report", code=5)
    assert report["error"]["kind"] == "GuardError"
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["blank.img", "study.toml"]


def test_preconditioning_has_its_own_record_and_is_done_once(
    tmp_path: Path, blank: tuple[Path, Path]
) -> None:
    loop, image = blank
    study = write_study(
        tmp_path,
        f'path = "{loop}"\nserial = "{image}"',
        read=100,
        more='precondition = { round = "100ms", max_rounds = 6 }',
    )
    out = tmp_path / "out"
    storlab("run", study, "--out", out, "--no-report", code=0)
    (path,) = (out / "prepare").iterdir()
    record = json.loads(path.read_text())
    assert record["complete"] is True
    assert record["target"] == "bad"
    assert record["fill"]["bytes"] == 32 << 20
    assert 5 <= len(record["rounds"]) <= 6
    assert all(entry["throughput_mb_s"] > 0 for entry in record["rounds"])
    last = [entry["throughput_mb_s"] for entry in record["rounds"]][-5:]
    assert record["verdict"]["values"] == last
    flush(loop)
    content = image.read_bytes()
    assert all(any(content[i : i + 4096]) for i in range(0, len(content), 1 << 16))
    victim = ResultStore.open(out).records()[0].run_id
    for file in sorted((out / "runs" / victim).rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (out / "runs" / victim).rmdir()
    before = path.stat().st_mtime_ns
    storlab("resume", out, "--no-report", code=0)
    assert path.stat().st_mtime_ns == before


def test_a_sidecar_is_plain_json(tmp_path: Path) -> None:
    sidecar = Sidecar(1, 2, "3", "complete", 4)
    (tmp_path / "data").touch()
    with DataFileHold(tmp_path / "data", "c") as hold:
        hold.write(sidecar)
    assert json.loads((tmp_path / "data.storlab.json").read_text()) == asdict(sidecar)
