"""Runs in limited control groups: a client limit is never reported as the target's speed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.stores.devices import Device, device_number
from support.cgroups import control_group, storlab_in
from support.mounts import loop_device

STUDY = """
[study]
name = "limits"
repeats = 1
ramp = 0
runtime = "{runtime}"
[[target]]
name = "target"
{target}
[[workload]]
kind = "block"
{workload}
"""
NULL = 'path = "null:"'


def ran_in(
    group: Path, place: Path, target: str, workload: str, *, runtime: str = "1s"
) -> RunRecord:
    study = STUDY.format(target=target, workload=workload, runtime=runtime)
    (place / "study.toml").write_text(study)
    command = ["run", place / "study.toml", "--out", place / "out", "--no-report"]
    done = subprocess.run(storlab_in(group, command), capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    (record,) = ResultStore.open(place / "out").records()
    return record


def flags_of(record: RunRecord) -> set[str]:
    return {flag.kind for flag in record.flags}


def test_a_cpu_quota_that_stops_the_client_is_flagged_and_named(tmp_path: Path) -> None:
    quota = {"cpu.cfs_period_us": "50000", "cpu.cfs_quota_us": "10000"}
    with control_group("cpu", quota, {"cpu.max": "10000 50000"}) as group:
        record = ran_in(group, tmp_path, NULL, "jobs = 2")
        doctor = subprocess.run(
            storlab_in(group, ["doctor", tmp_path / "study.toml", "--json"]),
            capture_output=True,
            check=False,
            text=True,
        )
        plan = subprocess.run(
            storlab_in(group, ["plan", tmp_path / "study.toml"]),
            capture_output=True,
            check=False,
            text=True,
        )
    assert record.cpu is not None
    assert record.cpu.quota_cores == pytest.approx(0.2)
    assert (record.cpu.throttled_percent or 0) > 2
    assert "starved" in flags_of(record)
    checks = {check["name"]: check["status"] for check in json.loads(doctor.stdout)["checks"]}
    assert checks["CPU quota"] == "warning"
    assert str(group) in plan.stdout.replace("\n", "")


def test_a_group_without_limits_marks_nothing(tmp_path: Path) -> None:
    with control_group("cpu", {}, {}) as group:
        record = ran_in(group, tmp_path, NULL, "jobs = 2\nrate_iops = 200")
    assert record.cpu is not None
    assert (record.cpu.quota_cores, record.cpu.throttled_percent) == (None, None)
    assert not {"cgroup-limit", "client-bound"} & flags_of(record)


@pytest.mark.root
@pytest.mark.parametrize("limit_mb_s", [4, 100_000])
def test_an_io_limit_of_the_device_is_flagged_where_the_run_reaches_it(
    tmp_path: Path, limit_mb_s: int
) -> None:
    image = tmp_path / "image"
    image.write_bytes(os.urandom(32 << 20))
    with loop_device(image) as device:
        number = device_number(Path(device))
        assert number is not None
        name = (Device(number).sysfs / "dev").read_text().strip()
        limit = limit_mb_s * 1_000_000
        v1 = {"blkio.throttle.read_bps_device": f"{name} {limit}"}
        with control_group("io", v1, {"io.max": f"{name} rbps={limit}"}) as group:
            # A second of reads queues at the limit, so a client that loses its core briefly keeps
            # the rate; the window is long compared with late operations at its end.
            read = 'read_percent = 100\nblock_size = "64KiB"\nqueue_depth = 64'
            record = ran_in(group, tmp_path, f'path = "{device}"', read, runtime="4s")
    assert ("cgroup-limit" in flags_of(record)) == (limit_mb_s == 4)


def test_a_memory_limit_that_is_met_is_flagged(tmp_path: Path) -> None:
    limit = str(256 << 20)
    with control_group("memory", {"memory.limit_in_bytes": limit}, {"memory.max": limit}) as group:
        file = f'path = "{tmp_path}/data"\nsize = "384MiB"\ndirect = false'
        record = ran_in(group, tmp_path, file, 'read_percent = 0\nblock_size = "128KiB"')
    assert "cgroup-limit" in flags_of(record)
