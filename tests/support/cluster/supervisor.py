"""Supervisor of a rig's hosts, a separate program so that nothing outlives its creator.

``python supervisor.py TOKEN`` reads one line of JSON: ``directory``, ``hosts_file`` and ``hosts``,
each with ``name``, ``pid_namespace``, ``clock_offset_ns``, ``bricks`` (sizes in bytes) and
``visible`` (parts of the machine's /tmp that the host sees). It writes the process id of each
host's holder as a line of JSON, then waits for the end of its standard input, which means that its
creator closed the pipe or died. It then kills all processes on the hosts and removes the directory.
The holders die with it, and with them the processes in their namespaces.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1

MARK = "run/storlab-rig"  # on every host: the token of its rig
LOCK = "lock"  # in the rig's directory
MOUNT = Path("/run/shared")
BRICKS = Path("/run/bricks")
GLUSTER_LOGS = Path("/var/log/glusterfs")
GEO_REPLICATION = ("lib*/glusterfs/gsyncd", "lib/*/glusterfs/gsyncd")
PAUSE_S = 0.02

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}{arguments}: {os.strerror(error)}")


def _mount(source: str, target: str | Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    _call("mount", source.encode(), str(target).encode(), kind.encode(), flags, data.encode())


def marked(token: str) -> Iterator[int]:
    """Return the processes on the hosts of this rig, found by a mark that only they can see."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if (entry / "root" / MARK).read_text(encoding="ascii") == token:
                    yield int(entry.name)


def kill_marked(token: str) -> None:
    """Kill until none is left, to catch processes forked in between."""
    while pids := list(marked(token)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def _child(work: Callable[[], object]) -> int:
    """Fork a child that dies with its parent and never returns."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # In a new PID namespace the parent has no id.
        if os.getppid() in (parent, 0):
            work()
            code = 0
    except BaseException as error:  # noqa: BLE001  a forked child must not run its parent's code
        sys.stderr.write(f"{sys.argv[0]}: {error!r}\n")
        sys.stderr.flush()
    os._exit(code)


def _furnish(host: dict[str, Any], token: str, directory: Path) -> None:
    """Set up the mounts of a host; none is visible outside of it."""
    _mount("none", "/", flags=MS_REC | MS_PRIVATE)
    socket.sethostname(host["name"])
    # Private as on a separate machine: sockets and PID files of programs, shared memory.
    _mount("tmpfs", "/run", "tmpfs", data="size=64m,mode=755")
    _mount("tmpfs", "/dev/shm", "tmpfs")
    for name in ("gluster", "lock", "cgroup", MOUNT.name):
        (Path("/run") / name).mkdir()
    # /sys shows the network interfaces of the namespace that mounted it.
    _mount("/sys/fs/cgroup", "/run/cgroup", flags=MS_BIND | MS_REC)
    _mount("sysfs", "/sys", "sysfs")
    _mount("/run/cgroup", "/sys/fs/cgroup", flags=MS_MOVE)
    Path("/run/cgroup").rmdir()
    _mount(str(directory / "hosts"), "/etc/hosts", flags=MS_BIND)
    logs = directory / "log" / host["name"]
    logs.mkdir(parents=True)
    if GLUSTER_LOGS.is_dir():
        _mount(str(logs), GLUSTER_LOGS, flags=MS_BIND)
    if host["bricks"]:
        _mount("tmpfs", "/var/lib/glusterd", "tmpfs")
        # A new server reads its settings through a Python program many times: 4 to 10 seconds.
        for place in GEO_REPLICATION:
            for program in Path("/usr").glob(place):
                _mount(str(directory / "gsyncd"), program, flags=MS_BIND)
    for number, size in enumerate(host["bricks"], start=1):
        brick = BRICKS / str(number)
        brick.mkdir(parents=True)
        _mount("tmpfs", brick, "tmpfs", data=f"size={size}")
    if host["pid_namespace"]:
        _mount("proc", "/proc", "proc")
        # prted must find the launch agent on each host.
        _private_tmp([directory, *(Path(name) for name in host["visible"])])
    Path("/", MARK).write_text(token, encoding="ascii")


def _private_tmp(visible: list[Path]) -> None:
    """Give the host its own /tmp: programs name files there by process id, which would collide."""
    kept = Path("/run/kept")
    kept.mkdir()
    inside = [path for path in visible if path.is_relative_to("/tmp")]
    for number, path in enumerate(inside):
        (kept / str(number)).mkdir()
        _mount(str(path), kept / str(number), flags=MS_BIND)
    _mount("tmpfs", "/tmp", "tmpfs", data="mode=1777")
    for number, path in enumerate(inside):
        path.mkdir(parents=True, exist_ok=True)
        _mount(str(kept / str(number)), path, flags=MS_MOVE)
        (kept / str(number)).rmdir()
    kept.rmdir()


def _reap() -> NoReturn:
    """Act as init of a namespace: reap daemons that ended."""
    while True:
        signal.sigwait([signal.SIGCHLD])
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _hold(host: dict[str, Any], token: str, directory: Path, answer: int) -> None:
    """Create the namespaces in a child and fork the process that holds them."""
    flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC
    flags |= CLONE_NEWPID if host["pid_namespace"] else 0
    offset = host["clock_offset_ns"]
    flags |= CLONE_NEWTIME if offset else 0
    _call("unshare", flags)
    if offset:
        seconds, rest = divmod(offset, 10**9)
        lines = "".join(f"{clock} {seconds} {rest}\n" for clock in ("monotonic", "boottime"))
        Path("/proc/self/timens_offsets").write_text(lines, encoding="ascii")

    ready, furnished = os.pipe()

    def hold() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        _furnish(host, token, directory)
        os.write(furnished, b"!")
        os.close(furnished)
        os.close(answer)
        _reap()

    holder = _child(hold)
    os.close(furnished)
    if os.read(ready, 1):
        os.write(answer, str(holder).encode())
    os.close(answer)
    os.waitpid(holder, 0)


def _start(host: dict[str, Any], token: str, directory: Path) -> tuple[int, int]:
    """Return the ids of the holder's parent and the holder. Raises if creation failed."""
    answer, end = os.pipe()
    parent = _child(lambda: _hold(host, token, directory, end))
    os.close(end)
    reply = os.read(answer, 32)
    os.close(answer)
    if not reply:
        raise RuntimeError(f"host {host['name']} could not be made")
    return parent, int(reply)


def _make(directory: Path, hosts_file: str) -> None:
    """Create and lock the rig's directory."""
    made = directory.with_name(f".{directory.name}")
    made.mkdir(mode=0o755)
    # Kept open by this process and the holders: see ``is_held``.
    fcntl.flock(os.open(made / LOCK, os.O_CREAT | os.O_WRONLY), fcntl.LOCK_EX)
    made.rename(directory)
    (directory / "down").mkdir()
    (directory / "hosts").write_text(hosts_file, encoding="ascii")
    (directory / "gsyncd").write_text("#!/bin/sh\necho gsyncd.py 0\n", encoding="ascii")
    (directory / "gsyncd").chmod(0o755)


def is_held(directory: Path) -> bool:
    """Return whether the hosts of a rig's directory are alive, even in another container."""
    with suppress(FileNotFoundError), (directory / LOCK).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _end(token: str, directory: Path, parents: list[int]) -> None:
    for pid in parents:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    kill_marked(token)
    for pid in parents:
        os.waitpid(pid, 0)
    shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    """Hold the hosts until standard input ends."""
    token = sys.argv[1]
    spec = json.loads(sys.stdin.buffer.readline() or sys.exit("nothing asked for"))
    directory = Path(spec["directory"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parents: list[int] = []
    try:
        _make(directory, spec["hosts_file"])
        holders: dict[str, int] = {}
        for host in spec["hosts"]:
            parent, holders[host["name"]] = _start(host, token, directory)
            parents.append(parent)
        sys.stdout.write(json.dumps(holders) + "\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(token, directory, parents)


if __name__ == "__main__":
    main()
