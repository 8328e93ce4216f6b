"""GlusterFS on the storage hosts of a rig, distributed over two sets of three replicas."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .hosts import Hosts
from .supervisor import BRICKS, GLUSTER_LOGS, MOUNT

VOLUME = "v0"
OPTIONS = {
    # An unreachable server delays I/O for this long; the default is 42 s.
    "network.ping-timeout": "10",
    # Rely on the bricks' own file systems for ENOSPC: they refuse at once, while GlusterFS checks
    # its reserve only every 5 s.
    "storage.reserve": "0",
}
PATIENCE_S = 120.0
PAUSE_S = 0.1
LOG_TAIL = 2000
FILL = "taken"  # file next to the data of each brick
# Repeat, because clients may write into the freed space first.
FILL_SCRIPT = """
import errno, os, sys
for brick in sys.argv[2:]:
    handle = os.open(f"{brick}/{sys.argv[1]}", os.O_CREAT | os.O_WRONLY)
    while free := os.fstatvfs(handle).f_bavail * os.fstatvfs(handle).f_frsize:
        try:
            os.posix_fallocate(handle, os.fstat(handle).st_size, free)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
"""


def wait_until(what: str, reached: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Poll until a condition holds. Raises TimeoutError with the condition's name."""
    deadline = time.monotonic() + patience_s
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {patience_s:g} s: {what}")
        time.sleep(PAUSE_S)


@dataclass
class Gluster:
    """GlusterFS volume of a rig, with its servers and mounts."""

    hosts: Hosts
    servers: Sequence[str]
    bricks_per_server: int
    options: dict[str, str] = field(default_factory=lambda: dict(OPTIONS))

    def begin(self) -> None:
        """Start servers, pool and volume. Raises RuntimeError or TimeoutError with the logs."""
        self.start_servers(self.servers)
        others = self.servers[1:]
        for server in others:
            self._gluster("peer", "probe", server)
        wait_until("servers know each other", self._pooled)
        bricks = [f"{server}:{brick}/data" for brick in self._bricks() for server in self.servers]
        replicas = ["replica", str(len(self.servers))] if others else []
        # A newly added peer may still be unknown to another peer.
        create = ["volume", "create", VOLUME, *replicas, *bricks, "force"]
        wait_until("the volume is made", lambda: self._succeeds(*create))
        for name, value in self.options.items():
            self._gluster("volume", "set", VOLUME, name, value)
        self._gluster("volume", "start", VOLUME)
        self.wait_bricks(len(bricks))

    def start_servers(self, servers: Sequence[str]) -> None:
        """Start each server's daemon, which starts its bricks, and wait until it answers."""
        self._daemons(servers, ["glusterd", "-p", "/run/glusterd.pid"])
        for server in servers:
            answers = partial(self._succeeds, "peer", "status", server=server)
            wait_until(f"glusterd of {server} answers", answers)

    def stop_server(self, server: str) -> None:
        """Kill everything that serves on this host with SIGKILL."""
        # Daemons restart each other, so repeat until none is left.
        while pids := self.hosts.processes(server, own=True):
            self.hosts.kill(pids)
            time.sleep(PAUSE_S)

    def wait_bricks(self, count: int) -> None:
        """Wait until ``count`` bricks are online according to a running server."""
        wait_until(f"{count} bricks are online", lambda: self._bricks_online() == count)

    def mount(self, names: Sequence[str]) -> None:
        """Mount the volume on several hosts in parallel."""
        servers = [f"--volfile-server={server}" for server in self.servers]
        log = ["--log-file", str(GLUSTER_LOGS / "mount.log")]
        self._daemons(names, ["glusterfs", *servers, "--volfile-id", VOLUME, *log, str(MOUNT)])
        for name in names:
            wait_until(f"{name} has mounted the volume", partial(self.is_mounted, name))

    def is_mounted(self, name: str) -> bool:
        """Return whether the volume is mounted on a host, without accessing it."""
        holder = Path(f"/proc/{self.hosts.holders[name]}/mounts")
        lines = [line.split() for line in holder.read_text(encoding="utf-8").splitlines()]
        return any(f[1] == str(MOUNT) and f[2] == "fuse.glusterfs" for f in lines)

    def unmount(self, name: str) -> None:
        """Unmount the volume on a host; the mount point is then a local folder."""
        self.hosts.run(name, ["umount", "--lazy", MOUNT])
        pids = self.hosts.processes(name, own=True)
        self.hosts.kill(pids)
        wait_until(f"{name} has unmounted", lambda: not self.hosts.processes(name, own=True))

    def fill(self) -> None:
        """Fill all space of the bricks directly.

        A client would be refused by one replica set and could not know when all are full.
        """
        bricks = [str(brick) for brick in self._bricks()]
        for server in self.servers:
            self.hosts.run(server, [sys.executable, "-I", "-S", "-c", FILL_SCRIPT, FILL, *bricks])

    def empty(self) -> None:
        """Free the space taken by ``fill``."""
        for server in self.servers:
            self.hosts.run(server, ["rm", "-f", *(brick / FILL for brick in self._bricks())])

    def size(self, name: str) -> int:
        """Return the bytes of the volume as a client sees it."""
        told = self.hosts.run(name, ["stat", "--file-system", "--format", "%b %S", MOUNT]).stdout
        blocks, size = map(int, told.split())
        return blocks * size

    def logs(self) -> str:
        """Return the last lines of every log, for failure messages."""
        paths = sorted((self.hosts.directory / "log").rglob("*.log"))
        tails = [f"== {log.relative_to(self.hosts.directory)}\n{_tail(log)}" for log in paths]
        return "\n".join(tails)

    def _bricks(self) -> list[Path]:
        return [BRICKS / str(number) for number in range(1, self.bricks_per_server + 1)]

    def _pooled(self) -> bool:
        rows = self._ask("pool", "list").stdout.splitlines()
        return sum("Connected" in row for row in rows) == len(self.servers)

    def _bricks_online(self) -> int:
        for server in self.servers:
            told = self._ask("volume", "status", VOLUME, server=server)
            if told.returncode == 0:
                rows = [line.split() for line in told.stdout.splitlines()]
                # Columns: Brick HOST:PATH, TCP port, RDMA port, online, PID; long rows are wrapped.
                return _online(rows)
        return 0

    def _gluster(self, *words: str) -> None:
        self.hosts.run(self.servers[0], ["gluster", "--mode=script", *words])

    def _ask(self, *words: str, server: str = "") -> subprocess.CompletedProcess[str]:
        argv = ["gluster", "--mode=script", *words]
        return self.hosts.run(server or self.servers[0], argv, check=False)

    def _succeeds(self, *words: str, server: str = "") -> bool:
        return self._ask(*words, server=server).returncode == 0

    def _daemons(self, names: Sequence[str], argv: Sequence[str]) -> None:
        """Start a program that daemonises itself on several hosts in parallel."""
        with ExitStack() as stack:
            starting = {}
            for name in names:
                output = stack.enter_context(self._start_log(name).open("ab"))
                starting[name] = subprocess.Popen(
                    self.hosts.command(name, argv, Path("/")),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            codes = {name: process.wait(PATIENCE_S) for name, process in starting.items()}
        for name, code in codes.items():
            if code:
                tail = _tail(self._start_log(name))
                raise RuntimeError(f"{name}: {argv[0]} ended with {code}: {tail}")

    def _start_log(self, name: str) -> Path:
        return self.hosts.directory / "log" / name / "start.log"


def _online(rows: Sequence[Sequence[str]]) -> int:
    count, in_brick = 0, False
    for row in rows:
        if row[:1] == ["Brick"]:
            in_brick = True
        if in_brick and len(row) >= 3 and row[-2] in ("Y", "N"):
            count += row[-2] == "Y"
            in_brick = False
    return count


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]
