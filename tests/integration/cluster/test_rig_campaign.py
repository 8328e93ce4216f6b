"""Campaigns on six clients with their own clocks, on GlusterFS, through faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import need_mpi
from storlab.base.errors import ExitCode
from storlab.model.result import RunRecord
from support.cluster import ClusterRig
from support.cluster_lab import Lab, Recorded, check_sum, is_rank, stop, wait_for

pytestmark = pytest.mark.cluster

STUDY = """
[study]
name = "on a rig"
repeats = {repeats}
ramp = 0
runtime = "{runtime}"
interval = "500ms"
wait_for_target = "{wait}"
[cluster]
mpiexec = "{mpiexec}"
launch_agent = "{agent}"
interface = "eth0"
hosts = ["c[1-6]"]
clients = {clients}
mount = "{mount}"
data_nics = ["eth0"]
lost_after = "{lost_after}"
[[target]]
name = "gluster"
directory = "{mount}/{directory}"
size = "{size}"
direct = {direct}
{keep}
{workloads}
"""
SEVERAL = """
[[workload]]
kind = "block"
access = "random"
block_size = "4KiB"
read_percent = [100, 50]
rate_iops = 300
[[workload]]
kind = "block"
access = "sequential"
block_size = "1MiB"
read_percent = 0
"""
# The rate leaves CPU time for the clients' messages to the lab.
READ = """
[[workload]]
kind = "block"
access = "sequential"
block_size = "128KiB"
read_percent = 100
jobs = 1
queue_depth = 4
rate_iops = 200
"""
MIXED = READ.replace("read_percent = 100", "read_percent = 50")
DEFAULTS: dict[str, Any] = {
    "repeats": 1,
    "runtime": "3s",
    "clients": 3,
    "lost_after": "20s",
    "wait": "10min",
    "size": "4MiB",
    "direct": "true",
    "keep": "",
    "workloads": READ,
}


class Field:
    """Studies on a rig, with the lab on its controller."""

    def __init__(self, rig: ClusterRig, place: Path) -> None:
        self.rig = rig
        self.place = place
        self.command = rig.command(rig.controller, [sys.executable, "-m", "storlab"])

    def study(self, name: str, **values: Any) -> Path:
        self.rig.run("c1", ["mkdir", "-p", self.rig.mount / name])
        path = self.place / f"{name}.toml"
        given = {
            "mpiexec": need_mpi("mpich"),
            "agent": self.rig.agent,
            "mount": self.rig.mount,
            "directory": name,
        }
        path.write_text(STUDY.format_map(DEFAULTS | given | values))
        return path

    def run(self, study: Path) -> Lab:
        return Lab.run(study, self.place / study.stem, command=self.command)

    def finished(self, study: Path) -> list[RunRecord]:
        with self.run(study) as lab:
            assert lab.end() == 0, lab.printed
        return lab.records()

    def doctor(self, study: Path) -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [*self.command, "doctor", study, "--json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        return done.returncode, json.loads(done.stdout)

    def left(self, name: str) -> list[str]:
        told = self.rig.run("c1", ["find", self.rig.mount / name, "-mindepth", "1"])
        return told.stdout.split()

    def wait_for_mounts(self) -> None:
        """Wait until all bricks are back; a client drops bricks silent for the ping timeout."""
        for host in self.rig.hosts:
            command = partial(self.rig.run, host, ["ls", self.rig.mount], check=False)
            wait_for(f"{host} reads its mount", lambda ls=command: ls().returncode == 0)

    def rank(self, host: str) -> int:
        """Return the process of the rank on a client."""
        (pid,) = (pid for pid in self.rig.pids(host) if is_rank(pid))
        return pid


@pytest.fixture(scope="module")
def field(rig: ClusterRig, tmp_path_factory: pytest.TempPathFactory) -> Field:
    need_mpi("mpich")
    return Field(rig, tmp_path_factory.mktemp("rig"))


def flags(record: RunRecord) -> dict[str, str]:
    return {flag.kind: flag.message for flag in record.flags}


def show(what: str, found: Recorded) -> None:
    failure = found.record.failure
    text = found.record.status if failure is None else failure.message
    kinds = " ".join(sorted(flags(found.record)))
    sys.stdout.write(f"{what}: {found.after_s:.1f} s: {text} [{kinds}]\n")


@pytest.fixture(scope="module")
def several(field: Field) -> list[RunRecord]:
    """Provide several workloads on three clients."""
    study = field.study("several", workloads=SEVERAL)
    return field.finished(study)


def test_several_workloads_on_three_clients(field: Field, several: list[RunRecord]) -> None:
    assert [record.status for record in several] == ["finished"] * 3
    for record in several:
        assert record.cluster is not None
        assert [client.name for client in record.cluster.clients] == field.rig.hosts[:3]
        assert all(client.operations > 0 for client in record.cluster.clients)
    assert field.left("several") == []


def test_the_whole_is_the_sum_of_its_clients(field: Field, several: list[RunRecord]) -> None:
    whole = [check_sum(field.place / "several", record) for record in several]
    sys.stdout.write(f"{sum(whole)} of {len(whole)} windows were kept whole\n")
    assert 2 * sum(whole) > len(whole), "in most runs no histograms were compared"


def test_offsets_are_those_of_the_hosts_clocks(field: Field, several: list[RunRecord]) -> None:
    worst = 0
    for record in several:
        assert record.cluster is not None
        for client in record.cluster.clients:
            error = abs(client.offset_ns - field.rig.clock_offset_ns(client.name))
            # The uncertainty left by the pings is reported as well.
            assert error <= max(50_000, client.round_trip_ns)
            worst = max(worst, error)
    skews = sorted(r.cluster.start_skew_ns or 0 for r in several if r.cluster is not None)
    sys.stdout.write(
        f"offsets wrong by {worst / 1e3:.0f} us at most; start skew "
        f"{skews[len(skews) // 2] / 1e6:.1f} ms median, {skews[-1] / 1e6:.1f} ms worst\n"
    )


def test_bytes_that_were_read_came_over_the_network(several: list[RunRecord]) -> None:
    for record in several:
        assert record.cluster is not None
        assert record.cluster.nics_seen
        assert "client-cache" not in flags(record), flags(record)


def test_reads_of_a_clients_cache_are_flagged(field: Field) -> None:
    study = field.study("cached", direct="false", clients=2)
    (record,) = field.finished(study)
    message = flags(record)["client-cache"]
    assert "c1 (" in message
    assert "c2 (" in message


FAULTS: dict[str, Callable[[Field], object]] = {
    "rank killed": lambda field: os.kill(field.rank("c2"), signal.SIGKILL),
    "rank stopped": lambda field: stop(field.rank("c3")),
    "link down": lambda field: field.rig.link("c2", up=False),
    "server lost": lambda field: field.rig.kill_server(3),
    "none": lambda field: None,
}
MENDED: dict[str, Callable[[Field], object]] = {
    "link down": lambda field: field.rig.link("c2", up=True),
}


@pytest.fixture(scope="module")
def faulty(field: Field) -> dict[str, Recorded]:
    """Provide one campaign with a fault in each of its runs."""
    study = field.study(
        "faulty",
        clients=3,
        repeats=len(FAULTS),
        runtime="8s",
        lost_after="5s",
        workloads=MIXED,
    )
    what = {}
    with field.run(study) as lab:
        for number, (name, do) in enumerate(FAULTS.items()):
            mend = MENDED.get(name)
            what[name] = lab.fault(
                number, partial(do, field), None if mend is None else partial(mend, field)
            )
            show(name, what[name])
            if name == "server lost":
                field.rig.restart_server(3)
        assert lab.end() == ExitCode.RUN_FAILED, lab.printed
    assert len(lab.records()) == len(FAULTS)
    assert field.left("faulty") == []
    return what


def test_clients_that_are_lost_are_named(faulty: dict[str, Recorded]) -> None:
    named = {"rank killed": "c2", "rank stopped": "c3", "link down": "c2"}
    for fault, name in named.items():
        record = faulty[fault].record
        failures = [attempt.failure for attempt in record.attempts]
        failures += [] if record.failure is None else [record.failure]
        assert [failure.message.partition(":")[0] for failure in failures] == [name], fault


def test_a_client_that_was_away_costs_no_run(faulty: dict[str, Recorded]) -> None:
    record = faulty["link down"].record
    assert (record.status, len(record.attempts)) == ("finished", 1)


def test_a_campaign_goes_on_behind_each_fault(faulty: dict[str, Recorded]) -> None:
    assert faulty["none"].record.status == "finished"


def test_a_lost_server_is_survived_or_told(faulty: dict[str, Recorded]) -> None:
    record = faulty["server lost"].record
    if record.status == "failed":
        assert faulty["server lost"].message.startswith("c")


@contextmanager
def shaped(rig: ClusterRig, host: str, rate: str) -> Iterator[None]:
    rig.shape(host, rate)
    try:
        yield
    finally:
        rig.shape(host, None)


def test_a_client_on_a_slow_link_is_a_straggler(field: Field) -> None:
    study = field.study("slow", clients=2)
    with shaped(field.rig, "c2", "20mbit"):
        (record,) = field.finished(study)
    message = flags(record)["straggler"]
    sys.stdout.write(f"{message}\n")
    assert "c2 (" in message


def test_a_missing_mount_is_refused_by_name(field: Field) -> None:
    study = field.study("unmounted")
    field.rig.unmount("c3")
    try:
        code, told = field.doctor(study)
        assert code == ExitCode.PREFLIGHT
        (check,) = (check for check in told["checks"] if check["name"] == "mount")
        assert check["status"] == "error"
        assert check["what"].startswith(f"no file system is mounted at {field.rig.mount} on c3,")
        with field.run(study) as lab:
            assert lab.end() == ExitCode.PREFLIGHT
        assert "on c3," in lab.printed
        assert not lab.out.exists()
        assert field.rig.run("c3", ["ls", "-A", field.rig.mount]).stdout == ""
    finally:
        field.rig.remount("c3")


@contextmanager
def down(rig: ClusterRig, *hosts: str) -> Iterator[None]:
    for host in hosts:
        rig.link(host, up=False)
    try:
        yield
    finally:
        for host in hosts:
            rig.link(host, up=True)


def test_doctor_looks_at_all_that_answer(field: Field) -> None:
    """Check that doctor reports on all reachable hosts even if some do not answer."""
    study = field.study("reach", clients=5)
    with down(field.rig, "c3", "c5"):
        code, told = field.doctor(study)
    assert code == ExitCode.PREFLIGHT
    checks = {check["name"]: check for check in told["checks"]}
    assert checks["cluster"]["what"].startswith("3 of 5 clients answer; ")
    for name in ("c3", "c5"):
        assert f"{name} does not answer: " in checks["cluster"]["what"]
    assert "mpiexec: 255" in checks["cluster"]["what"]
    assert checks["shared"]["what"] == "every client sees the files of all others"
    assert sorted(told["clients"]) == ["c1", "c2", "c4"]
    assert told["clients"]["c1"]["nics"].keys() == {"eth0"}
    sys.stdout.write(f"{checks['cluster']['what']}\n")


def test_clients_that_answer_clean_up_for_one_that_does_not(field: Field) -> None:
    study = field.study("cleaned", clients=2, keep="keep_data = true", runtime="1s")
    field.finished(study)
    assert any("/c2/" in name for name in field.left("cleaned"))
    out = field.place / "cleaned"
    with down(field.rig, "c2"), Lab(out, ["clean", out], field.command) as lab:
        assert lab.end() == 0, lab.printed
    assert "c2 does not answer" in lab.printed
    assert field.left("cleaned") == []


def test_a_mount_that_goes_stops_the_campaign_by_name(field: Field) -> None:
    study = field.study("goes", clients=2, repeats=2, runtime="8s", wait="0s")
    with field.run(study) as lab:
        lab.loading(0)
        field.rig.run("c2", ["umount", "--lazy", field.rig.mount])
        try:
            assert lab.end() == ExitCode.UNREACHABLE, lab.printed
            assert f"c2: {field.rig.mount}: nothing is mounted there" in " ".join(
                lab.printed.split()
            )
            assert all(record.status == "finished" for record in lab.records())
            assert field.rig.run("c2", ["ls", "-A", field.rig.mount]).stdout == ""
        finally:
            field.rig.remount("c2")
    with Lab(lab.out, ["clean", lab.out], field.command) as rest:
        assert rest.end() == 0, rest.printed
    assert field.left("goes") == []


def test_a_mount_of_another_file_system_fails_its_runs_by_name(field: Field) -> None:
    """Check that a client refuses to write to a different mounted file system."""
    study = field.study("other", clients=2, repeats=2, runtime="8s")
    place = field.rig.mount / "other"
    with field.run(study) as lab:
        lab.loading(0)
        field.rig.run("c2", ["mount", "-t", "tmpfs", "none", place])
        try:
            wait_for("the last run", lambda: len(lab.records()) == 2, lab)
            last = lab.records()[-1]
            assert last.failure is not None
            assert last.failure.message.startswith(f"c2: {place}: has no folders of c1, ")
            assert field.rig.run("c2", ["ls", "-A", place]).stdout == ""
        finally:
            field.rig.run("c2", ["umount", "--lazy", place])
        assert lab.end() == ExitCode.RUN_FAILED, lab.printed
    assert field.left("other") == []


def test_it_is_resumed_behind_a_killed_launcher_and_a_killed_lab(field: Field) -> None:
    study = field.study("resumed", clients=2, repeats=3)
    with field.run(study) as lab:
        lost = lab.fault(0, lambda: os.kill(lab.mpiexec(), signal.SIGKILL))
        assert "ended without an outcome (mpiexec: -9)" in lost.message
        lab.loading(1)
        field.rig.run("c1", ["touch", field.rig.mount / "resumed/c1/of-somebody-else"])
        os.kill(lab.process.pid, signal.SIGKILL)
        lab.process.wait()
    for host in field.rig.hosts:
        field.rig.wait_until_gone(host)
    assert [record.status for record in lab.records()] == ["failed"]
    with Lab.resume(lab.out, command=field.command) as rest:
        assert rest.end() in (0, ExitCode.RUN_FAILED), rest.printed
    statuses = [record.status for record in rest.records()]
    assert statuses.count("finished") >= 2
    assert len(statuses) == 3
    kept = field.rig.mount / "resumed/c1"
    assert sorted(field.left("resumed")) == [str(kept), f"{kept}/of-somebody-else"]


@contextmanager
def full(rig: ClusterRig) -> Iterator[None]:
    rig.fill_volume()
    try:
        yield
    finally:
        rig.free_volume()


def test_a_full_volume_is_refused(field: Field) -> None:
    study = field.study("full", clients=2, workloads=MIXED, size="16MiB")
    with full(field.rig), field.run(study) as lab:
        assert lab.end() == ExitCode.PREFLIGHT, lab.printed
    assert "No space left" in lab.printed or "0 B are free" in lab.printed
    assert field.left("full") == []


def test_a_volume_that_fills_up_fails_its_runs_by_name(field: Field) -> None:
    study = field.study("filled", clients=2, workloads=MIXED, size="100MiB")
    # One client is slow, so that data remains to be written when the volume is full.
    with shaped(field.rig, "c1", "80mbit"), field.run(study) as lab:
        live = lab.out / "work" / "prepare" / "live.json"
        wait_for("the data are made", live.exists, lab)
        with full(field.rig):
            assert lab.end() == ExitCode.RUN_FAILED, lab.printed
    (record,) = lab.records()
    assert record.failure is not None
    sys.stdout.write(f"volume filled up: {record.failure}\n")
    assert "No space left on device" in record.failure.message
    assert record.failure.message.partition(":")[0] in field.rig.hosts
    field.wait_for_mounts()
    # Without free space no lock can be taken, and without a lock nothing is removed.
    with Lab(lab.out, ["clean", lab.out], field.command) as rest:
        assert rest.end() == 0, rest.printed
    assert field.left("filled") == []


def test_doctor_says_host_by_host_what_there_is(field: Field) -> None:
    code, told = field.doctor(field.study("doctor"))
    checks = {check["name"]: check for check in told["checks"]}
    assert code == 0, told
    assert checks["cluster"]["what"] == "3 clients answer"
    assert checks["mount type"]["what"] == "fuse.glusterfs"
    assert checks["shared"]["status"] == "ok"
    assert " µs at worst" in checks["clocks"]["what"]
    assert field.left("doctor") == []
