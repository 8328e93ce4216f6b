"""A target that disappears during a campaign is waited for, and no run is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlab.base.clock import sleep_s
from storlab.base.errors import ExitCode
from storlab.results.store import ResultStore
from support.mounts import loop_device, make_image, mounted, sh

pytestmark = pytest.mark.root

COMMAND = [sys.executable, "-m", "storlab"]
SIZE = 16 << 20
STUDY = """
[study]
name = "outage"
repeats = 3
ramp = 0
runtime = "500ms"
interval = "50ms"
wait_for_target = "{wait}"
[[target]]
name = "t"
{target}
[[workload]]
kind = "block"
block_size = "64KiB"
read_percent = 100
queue_depth = 4
"""


@pytest.fixture
def device(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    image = tmp_path / "disk.img"
    image.write_bytes(os.urandom(SIZE))
    with loop_device(image) as loop:
        yield loop, image


def begin(place: Path, target: str, wait: str) -> subprocess.Popen[str]:
    study = place / "study.toml"
    study.write_text(STUDY.format(wait=wait, target=target))
    arguments = ["run", str(study), "--out", str(place / "out"), "--no-report", "--json"]
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], done: Callable[[], object]) -> None:
    while not done():
        assert process.poll() is None, process.communicate()
        sleep_s(0.01)


def stored(out: Path) -> list[Path]:
    return list((out / "runs").glob("[!.]*"))


def attempts(out: Path) -> list[Path]:
    return list((out / "attempts").glob("*.json"))


def test_a_device_that_comes_back_costs_no_run(tmp_path: Path, device: tuple[Path, Path]) -> None:
    (loop, image), out = device, tmp_path / "out"
    with begin(tmp_path, f'path = "{loop}"', "10min") as process:
        until(process, lambda: stored(out))
        os.truncate(image, 0)
        until(process, lambda: attempts(out))
        image.write_bytes(os.urandom(SIZE))
        assert process.wait() == ExitCode.OK
    records = ResultStore.open(out).records()
    assert [record.status for record in records] == ["finished"] * 3
    (repeated,) = [record for record in records if record.attempts]
    assert [attempt.failure.errno_name for attempt in repeated.attempts] == ["EIO"]
    assert attempts(out) == []


def test_a_device_that_stays_away_stops_the_campaign_and_resume_goes_on(
    tmp_path: Path, device: tuple[Path, Path]
) -> None:
    (loop, image), out = device, tmp_path / "out"
    with begin(tmp_path, f'path = "{loop}"', "0s") as process:
        until(process, lambda: stored(out))
        os.truncate(image, 0)
        text, _ = process.communicate()
    assert process.returncode == ExitCode.UNREACHABLE
    error = json.loads(text)["error"]
    assert (error["kind"], error["where"]) == ("UnreachableError", "t")
    assert f"storlab resume {out}" in error["fix"]
    left = ResultStore.open(out)
    assert {record.status for record in left.records()} == {"finished"}
    assert left.missing()
    image.write_bytes(os.urandom(SIZE))
    subprocess.run([*COMMAND, "resume", out, "--no-report", "--quiet"], check=True)
    records = ResultStore.open(out).records()
    assert [record.status for record in records] == ["finished"] * 3
    assert sum(len(record.attempts) for record in records) == 1


def test_a_mount_that_comes_back_costs_no_run(tmp_path: Path) -> None:
    out, image = tmp_path / "out", make_image(tmp_path / "fs.img", 64 << 20)
    where = tmp_path / "mnt"
    with loop_device(image) as loop, mounted(where, loop):
        data = where / "data"
        target = f'path = "{data}"\nsize = "4MiB"\ndirect = false'
        with begin(tmp_path, target, "10min") as process:
            until(process, lambda: stored(out))
            sh("umount", "--lazy", where)
            until(process, lambda: attempts(out))
            sh("mount", loop, where)
            assert process.wait() == ExitCode.OK
    records = ResultStore.open(out).records()
    assert [record.status for record in records] == ["finished"] * 3
    assert any(record.attempts for record in records)
