"""A block device per client: loop devices, one for each host of a rig."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import need_cluster, need_mpi, need_root
from storlab.base.errors import ExitCode
from storlab.model.result import RunRecord
from support.cluster import ClusterRig
from support.cluster_lab import Lab
from support.mounts import loop_device, sh
from support.udev import named

pytestmark = pytest.mark.cluster

SIZES = (32 << 20, 48 << 20)
STUDY = """
[study]
name = "own devices"
repeats = 1
ramp = 0
runtime = "2s"
[cluster]
mpiexec = "{mpiexec}"
launch_agent = "{agent}"
interface = "eth0"
hosts = ["c[1-2]"]
lost_after = "20s"
[cluster.host.c2.target."own"]
path = "{second}"
{second_serial}
[[target]]
name = "own"
path = "{first}"
size = "16MiB"
{first_serial}
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = 0
rate_iops = 500
"""


@dataclass
class Drives:
    """Devices of c1 and c2, each with its own name."""

    rig: ClusterRig
    place: Path
    images: list[Path]
    devices: list[Path]
    links: list[Path]

    def study(self, name: str, paths: list[Path] | None = None, serials: Any = ()) -> Path:
        first, second = paths or self.links
        typed = [f'serial = "{serial}"' for serial in serials] or ["", ""]
        path = self.place / f"{name}.toml"
        path.write_text(
            STUDY.format(
                mpiexec=need_mpi("mpich"),
                agent=self.rig.agent,
                first=first,
                second=second,
                first_serial=typed[0],
                second_serial=typed[1],
            )
        )
        return path

    def storlab(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = self.rig.command(self.rig.controller, [sys.executable, "-m", "storlab"])
        return subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def plan(self, study: Path) -> dict[str, Any]:
        done = self.storlab("plan", study, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def run(self, study: Path, name: str, *more: str) -> Lab:
        command = self.rig.command(self.rig.controller, [sys.executable, "-m", "storlab"])
        return Lab.run(study, self.place / name, *more, command=command)

    def written(self) -> list[bool]:
        """Return the devices that contain anything but zeros."""
        return [any(image.read_bytes()) for image in self.images]


@pytest.fixture
def drives(tmp_path: Path) -> Iterator[Drives]:
    need_cluster()
    need_root()
    images = [tmp_path / f"drive-{number}" for number in (1, 2)]
    for image, size in zip(images, SIZES, strict=True):
        with image.open("wb") as file:
            file.truncate(size)
    with ExitStack() as stack:
        devices = [stack.enter_context(loop_device(image)) for image in images]
        links = [stack.enter_context(named(device, "by-id")) for device in devices]
        rig = stack.enter_context(ClusterRig(clients=2, servers=0))
        yield Drives(rig, tmp_path, images, devices, links)


def finished(lab: Lab) -> RunRecord:
    assert lab.end() == ExitCode.OK, lab.printed
    (record,) = lab.records()
    assert record.status == "finished"
    return record


def test_each_client_writes_to_the_device_that_the_plan_has_of_it(drives: Drives) -> None:
    study = drives.study("own")
    planned = drives.plan(study)
    devices = planned["plan"]["client_devices"]
    assert [
        devices[c][str(link)]["size"] for c, link in zip(("c1", "c2"), drives.links, strict=True)
    ] == [*SIZES]
    assert planned["plan"]["devices"] == {}, "that of the controller is nobody's"

    with drives.run(study, "refused") as refused:
        assert refused.end() != ExitCode.OK
    assert "needs your consent" in " ".join(refused.printed.split())
    assert drives.written() == [False, False]

    with drives.run(study, "out", "--plan-hash", planned["plan_hash"]) as lab:
        record = finished(lab)
    assert record.cluster is not None
    assert all(client.operations > 0 for client in record.cluster.clients)
    assert drives.written() == [True, True]


def test_a_device_that_was_exchanged_since_the_plan_is_refused(drives: Drives) -> None:
    study = drives.study("own")
    before = drives.plan(study)["plan_hash"]
    spare = drives.place / "spare"
    with spare.open("wb") as file:
        file.truncate(SIZES[1])
    with loop_device(spare) as other:
        drives.links[1].unlink()
        drives.links[1].symlink_to(other)
        with drives.run(study, "refused", "--plan-hash", before) as lab:
            assert lab.end() == ExitCode.GUARD, lab.printed
        assert "but the plan of this study now has" in " ".join(lab.printed.split())
        assert not any(spare.read_bytes())
    assert drives.written() == [False, False]


def test_a_device_that_two_clients_have_is_refused(drives: Drives) -> None:
    """Check the refusal of one loop device that two clients see under different names."""
    first, _ = drives.images
    study = drives.study("shared", [drives.links[0], drives.devices[0]], (first, first))
    for verb in (["plan"], ["doctor"], ["run", "--out", drives.place / "refused"]):
        done = drives.storlab(*verb, study)
        printed = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == (ExitCode.PREFLIGHT if verb == ["doctor"] else ExitCode.GUARD)
        pair = f"{drives.links[0]} on c1 and {drives.devices[0]} on c2 are the same device"
        assert pair in printed
    assert not (drives.place / "refused").exists()
    assert drives.written() == [False, False]


def test_a_typed_serial_consents_to_one_device(drives: Drives) -> None:
    """Check that a typed serial (a loop device's file) permits only that device."""
    first, other = map(str, drives.images)
    wrong = drives.study("wrong", drives.devices, (first, first))
    with drives.run(wrong, "refused") as refused:
        assert refused.end() != ExitCode.OK
    assert "c2: " in refused.printed
    assert "is not the serial number of" in " ".join(refused.printed.split())
    assert drives.written()[1] is False
    study = drives.study("typed", drives.devices, (first, other))
    for image in drives.images:
        sh("blkdiscard", "-z", drives.devices[drives.images.index(image)])
    with drives.run(study, "out") as lab:
        finished(lab)
    assert drives.written() == [True, True]


def test_a_client_without_its_device_is_named(drives: Drives) -> None:
    study = drives.study("gone", [drives.links[0], Path("/dev/disk/by-id/storlab-no-such")])
    done = drives.storlab("doctor", study, "--json")
    assert done.returncode == ExitCode.PREFLIGHT
    told = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert told["devices"]["status"] == "error"
    assert "/dev/disk/by-id/storlab-no-such on c2" in told["devices"]["what"]
