"""The test cluster has the hosts, clocks, file system and faults that it promises."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conftest import need_fio
from support.cluster import ClusterRig
from support.cluster.gluster import wait_until

pytestmark = pytest.mark.cluster

BLOCK = 4096
FILE = 256 * BLOCK
FIO = (
    "--ioengine=psync",
    "--rw=randread",
    "--direct=1",
    f"--bs={BLOCK}",
    f"--size={FILE}",
    "--output-format=json",
)
PORT = 7000
RECEIVE = f"""
import socket
with socket.create_server(("", {PORT})) as listening:
    print("listening", flush=True)
    with listening.accept()[0] as peer:
        while peer.recv(1 << 16):
            pass
        peer.sendall(b"!")
"""
SEND = f"""
import socket, sys, time
began = time.monotonic()
with socket.create_connection((sys.argv[1], {PORT}), timeout=60) as peer:
    peer.sendall(bytes(int(sys.argv[2])))
    peer.shutdown(socket.SHUT_WR)
    assert peer.recv(1) == b"!"
print(time.monotonic() - began)
"""
CONNECT = f"""
import socket, sys
socket.create_connection((sys.argv[1], {PORT}), timeout=2).close()
"""
WRITE = """
import hashlib, os, sys
data = os.urandom(int(sys.argv[2]))
handle = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(handle, data)
os.fsync(handle)
print(hashlib.sha256(data).hexdigest())
"""
APPEND = """
import os, sys
handle = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(handle, os.urandom(1 << 20))
os.fsync(handle)
"""


def python(text: str, *arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-I", "-S", "-c", text, *arguments]


def on_each(
    rig: ClusterRig, hosts: Sequence[str], argv: Sequence[Sequence[str | Path]]
) -> dict[str, str]:
    """Run a program on each host in parallel; return the outputs. All must succeed."""
    running = {
        host: subprocess.Popen(
            rig.command(host, words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for host, words in zip(hosts, argv, strict=True)
    }
    ended = {host: process.communicate(timeout=120) for host, process in running.items()}
    failed = {host: ended[host] for host, process in running.items() if process.returncode}
    assert not failed
    return {host: output for host, (output, _) in ended.items()}


def received(rig: ClusterRig, host: str) -> int:
    """Return the bytes received by a host's NIC."""
    return int(rig.run(host, ["cat", "/sys/class/net/eth0/statistics/rx_bytes"]).stdout)


@contextmanager
def listening(rig: ClusterRig, host: str) -> Iterator[None]:
    """Run a program on a host that receives from another host."""
    with subprocess.Popen(
        rig.command(host, python(RECEIVE)), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        try:
            yield
        finally:
            process.kill()


def test_each_client_is_a_machine_of_its_own(rig: ClusterRig) -> None:
    names = [rig.controller, *rig.hosts]
    told = on_each(rig, names, [["sh", "-c", "hostname; ls /sys/class/net; ls /run"]] * len(names))
    assert [output.split()[0] for output in told.values()] == names
    assert all(output.split()[1:3] == ["eth0", "lo"] for output in told.values())
    for name in rig.hosts:
        rig.run(name, ["sh", "-c", f"echo {name} >/tmp/mine; echo {name} >/dev/shm/mine"])
    for name in rig.hosts:
        assert rig.run(name, ["cat", "/tmp/mine", "/dev/shm/mine"]).stdout.split() == [name] * 2
        assert rig.run(name, ["sh", "-c", "kill -0 1; cat /proc/1/comm"]).returncode == 0
    assert not Path("/tmp/mine").exists()


def test_nothing_of_it_is_seen_outside(rig: ClusterRig) -> None:
    assert "glusterfs" not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    assert rig.address("c1") not in Path("/etc/hosts").read_text(encoding="utf-8")
    assert not rig.mount.exists()
    assert "port-c1" not in links()
    assert rig.run("c0", ["test", "-e", rig.mount / "."]).returncode == 0
    assert not rig.gluster.is_mounted("c0")


def test_clients_read_what_others_wrote_over_the_network(rig: ClusterRig) -> None:
    need_fio()
    hosts, files = rig.hosts, [rig.mount / f"of-{name}" for name in rig.hosts]
    written = on_each(rig, hosts, [python(WRITE, file, str(FILE)) for file in files])
    others = [*files[1:], files[0]]
    seen = on_each(rig, hosts, [["sha256sum", "--zero", file] for file in others])
    assert len(set(written.values())) == len(hosts)
    for reader, writer in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
        assert seen[reader].split()[0] == written[writer].strip()
    before = {name: received(rig, name) for name in hosts}
    told = on_each(rig, hosts, [["fio", "--name=r", f"--filename={f}", *FIO] for f in others])
    for name, output in told.items():
        (job,) = json.loads(output)["jobs"]
        assert (job["error"], job["read"]["io_bytes"]) == (0, FILE)
        # Read from the servers, not from the client's cache.
        assert received(rig, name) - before[name] > FILE


def test_clocks_are_ahead_by_what_was_asked(rig: ClusterRig) -> None:
    read = "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))"
    offsets = [rig.clock_offset_ns(name) for name in rig.hosts]
    assert len({offset % 10**9 for offset in offsets}) == len(offsets)
    for name in [rig.controller, *rig.hosts]:
        before = time.monotonic_ns()
        there = int(rig.run(name, python(read)).stdout)
        assert before < there - rig.clock_offset_ns(name) < time.monotonic_ns()


def test_agent_runs_a_command_as_ssh_would(rig: ClusterRig) -> None:
    def agent(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OF_THE_CALLER": "yes"}
        command = rig.command("c0", [rig.agent, *words])
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=60
        )

    told = agent("-x", "-l", "root", "c4", "hostname; echo", "$OF_THE_CALLER", "'two  words'")
    assert (told.returncode, told.stdout) == (0, "c4\n two  words\n".replace("\n ", "\n"))
    assert agent("c6", "exit 3").returncode == 3
    assert agent("c0", "hostname").stdout == "c0\n"
    unknown = agent("c13", "true")
    assert (unknown.returncode, unknown.stdout) == (255, "")
    assert "c13" in unknown.stderr


def test_agent_hands_on_no_file_of_its_caller(rig: ClusterRig) -> None:
    """Check that the agent passes no open files on; a socket once kept mpiexec's helpers alive."""
    program = ['exec 5</dev/null; "$0" c4 "test ! -e /proc/self/fd/5"', str(rig.agent)]
    assert subprocess.run(["bash", "-c", *program], check=False, timeout=60).returncode == 0


def test_processes_of_a_client_can_be_killed_from_outside(rig: ClusterRig) -> None:
    assert rig.pids("c2") == []
    started = subprocess.Popen([str(rig.agent), "c2", "sleep 1000 & sleep 1000"])
    wait_until("three processes run", lambda: len(rig.pids("c2")) == 3)
    assert rig.pids("c3") == []
    for pid in rig.pids("c2"):
        os.kill(pid, signal.SIGKILL)
    rig.wait_until_gone("c2")
    assert started.wait(60) != 0
    assert rig.gluster.is_mounted("c2")


def test_command_dies_with_its_caller(rig: ClusterRig) -> None:
    started = subprocess.Popen(rig.command("c2", ["sleep", "1000"]))
    # Wait for the program itself: the wrappers that exec it have no death signal yet.
    wait_until("it runs", lambda: [_name(pid) for pid in rig.pids("c2")] == ["sleep"])
    started.kill()
    started.wait(60)
    rig.wait_until_gone("c2")


def _name(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def test_pulled_cable(rig: ClusterRig) -> None:
    with listening(rig, "c4"):
        rig.link("c4", up=False)
        assert rig.run("c0", python(CONNECT, "c4"), check=False).returncode != 0
        refused = subprocess.run([rig.agent, "c4", "true"], check=False, capture_output=True)
        assert refused.returncode == 255
        assert b"c4" in refused.stderr
        rig.link("c4", up=True)
        wait_until(
            "c4 answers", lambda: not rig.run("c0", python(CONNECT, "c4"), check=False).returncode
        )
    assert rig.run("c4", ["ls", rig.mount]).returncode == 0


@pytest.mark.parametrize(("sender", "receiver"), [("c5", "c6"), ("c6", "c5")])
def test_shaped_client_is_slow_in_both_directions(
    rig: ClusterRig, sender: str, receiver: str
) -> None:
    size, rate, bucket = 2 << 20, 8e6 / 8, 256_000 * 2
    rig.shape("c5", "8mbit")
    with listening(rig, receiver):
        took = float(rig.run(sender, python(SEND, receiver, str(size))).stdout)
    rig.shape("c5", None)
    assert took > (size - bucket) / rate  # so the shaper is the limit, not this machine
    assert "tbf" not in rig.run("c5", ["tc", "qdisc", "show", "dev", "eth0"]).stdout
    rig.shape("c5", None)


def test_client_without_the_mount_writes_to_itself(rig: ClusterRig) -> None:
    rig.unmount("c2")
    for name in ("c2", "c3"):
        rig.run(name, ["touch", rig.mount / f"by-{name}"])
    assert rig.run("c2", ["ls", rig.mount]).stdout == "by-c2\n"
    rig.remount("c2")
    seen = rig.run("c2", ["ls", rig.mount]).stdout.split()
    assert "by-c3" in seen
    assert "by-c2" not in seen


def test_full_volume(rig: ClusterRig) -> None:
    assert rig.volume_size == pytest.approx(512 << 20, rel=0.05)
    rig.fill_volume()
    for number in range(4):  # the file's name selects the brick
        target = rig.mount / f"one-more-{number}"
        refused = rig.run("c4", python(APPEND, target), check=False)
        assert refused.returncode != 0
        assert "No space left on device" in refused.stderr
    rig.free_volume()
    rig.run("c4", python(APPEND, rig.mount / "one-more"))


def test_loss_of_a_server(rig: ClusterRig) -> None:
    rig.run("c1", python(APPEND, rig.mount / "before"))
    rig.kill_server(2)
    assert rig.namespaces.processes("s2", own=True) == []
    rig.run("c5", python(APPEND, rig.mount / "meanwhile"))
    digests = rig.run("c5", ["sha256sum", rig.mount / "before", rig.mount / "meanwhile"]).stdout
    rig.restart_server(2)
    assert rig.namespaces.processes("s2", own=True) != []
    again = rig.run("c6", ["sha256sum", rig.mount / "before", rig.mount / "meanwhile"]).stdout
    assert again == digests


def test_sweep_leaves_a_rig_alone_that_is_in_use(rig: ClusterRig) -> None:
    assert rig.namespaces.token not in ClusterRig.sweep()
    assert rig.run("c1", ["ls", rig.mount]).returncode == 0


OWNER = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from support.cluster import ClusterRig
rig = ClusterRig(clients=2, servers=1).__enter__()
for host in ("c0", "c1"):
    subprocess.Popen(rig.command(host, ["sleep", "1000"]), start_new_session=True)
subprocess.Popen([rig.agent, "c2", "sleep 1000"], start_new_session=True)
print(rig.namespaces.token, rig.namespaces.supervisor_pid, *rig.namespaces.holders.values())
sys.stdout.flush()
input()
"""


def links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def namespaces() -> set[str]:
    """Return all namespaces kept alive by a process or mount."""
    told = subprocess.run(
        ["lsns", "--noheadings", "--output", "NS"], capture_output=True, text=True, check=True
    )
    return set(told.stdout.split())


def of_holder(pid: str) -> set[str]:
    """Return the namespaces of a host that differ from the test's."""
    own = Path("/proc/self/ns")
    links = {link.readlink().name for link in Path(f"/proc/{pid}/ns").iterdir()}
    links -= {link.readlink().name for link in own.iterdir()}
    return {link.split("[")[1].rstrip("]") for link in links}


def mounts(of_tests: Path) -> list[str]:
    """Return the mounts here, without those of parallel tests in their folders."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not Path(line.split()[4]).is_relative_to(of_tests)]


@pytest.mark.parametrize("with_supervisor", [False, True])
def test_nothing_is_left_of_a_killed_owner(
    with_supervisor: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    of_tests = tmp_path_factory.getbasetemp().parent
    kept = links(), Path("/etc/hosts").read_bytes(), mounts(of_tests)
    tests = Path(__file__).resolve().parents[2]
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tests)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        token, supervisor, *holders = owner.stdout.readline().split()
        made = set().union(*map(of_holder, holders))
        assert made <= namespaces()
        if with_supervisor:
            os.kill(int(supervisor), signal.SIGKILL)
        owner.kill()
    directory = Path("/tmp") / token
    if with_supervisor:
        assert directory.exists()
        wait_until("it is swept", lambda: token in ClusterRig.sweep())
    wait_until("the directory is gone", lambda: not directory.exists())
    wait_until("the namespaces are gone", lambda: not made & namespaces())
    wait_until("no program names it", lambda: not commands_with(token))
    assert kept == (links(), Path("/etc/hosts").read_bytes(), mounts(of_tests))


def commands_with(token: str) -> list[str]:
    """Return the command lines of running programs that contain a rig's token."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").split("\0")
            if any(token in word for word in words):
                found.append(shlex.join(words))
    return found


def test_rig_that_cannot_be_made_leaves_nothing() -> None:
    before = set(Path("/tmp").glob("storlab-rig-*"))
    impossible = {"c1": -(10**18)}  # before the machine booted
    with (
        pytest.raises(RuntimeError, match="c1 could not be made"),
        ClusterRig(clients=1, servers=0, clock_offsets_ns=impossible),
    ):
        pass
    assert set(Path("/tmp").glob("storlab-rig-*")) == before


def test_rig_ends_while_a_client_waits_for_lost_servers() -> None:
    with ClusterRig(clients=1, servers=3) as rig:
        flushing = f"while echo; do sync {rig.mount}/file; done >{rig.mount}/file"
        started = subprocess.Popen([rig.agent, "c1", flushing], stderr=subprocess.DEVNULL)
        wait_until("it writes", lambda: len(rig.pids("c1")) > 0)
        rig.link("c1", up=False)
        directory = rig.agent.parent
    assert started.wait(60) != 0
    assert not directory.exists()
