"""A cluster on one machine: clients and storage hosts as namespaces, over a real file system.

::

    with ClusterRig(clients=12, servers=3) as rig:
        rig.run("c1", ["ls", rig.mount])
        subprocess.Popen(rig.command("c0", ["storlab", "run", "study.toml"]))

``c0`` is the controller: it reaches the clients by name, does not mount the volume, and has the
caller's clock and process ids. Clients and servers have their own names, networks, mounts, process
ids and clocks. They see all files of the caller except ``/run``, ``/tmp`` and shared memory, so
they run the same software but share no temporary files.

Outside of the rig only its directory under ``/tmp`` and its processes are visible. They are removed
at the end of the block, or when the process that created them dies.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from . import network
from .gluster import Gluster, wait_until
from .hosts import SWITCH, Host, Hosts, sweep
from .supervisor import MOUNT

CONTROLLER = "c0"
BRICKS_PER_SERVER = 2
BRICK_SIZE = 256 << 20
# Each client's monotonic clock is ahead by this value times its number. It has a fraction of a
# second, so that no offset is a round number.
CLOCK_STEP_NS = 100_000_000_000 + 137_000_001
MOST_CLIENTS = 250
SOFTWARE = (Path(__file__).resolve().parents[3], Path(sys.prefix), Path(sys.base_prefix))


class ClusterRig:
    """Hosts ``c0`` to ``cN``, servers ``s1`` to ``sM`` and a volume that the clients share."""

    sweep = staticmethod(sweep)

    def __init__(
        self,
        clients: int = 12,
        servers: int = 3,
        *,
        brick_size: int = BRICK_SIZE,
        clock_offsets_ns: Mapping[str, int] | None = None,
        options: Mapping[str, str] | None = None,
        visible: Sequence[Path] = (),
    ) -> None:
        """Prepare a rig, which starts on entering the ``with`` block.

        Args:
            clients: Number of clients.
            servers: Number of storage hosts; with 0 the clients share no file system.
            brick_size: Bytes of a brick; the volume holds two bricks' data.
            clock_offsets_ns: Clock offsets of clients that differ from the default.
            options: Options of the volume.
            visible: Further paths of the caller that clients see.
        """
        if not 1 <= clients <= MOST_CLIENTS:
            raise ValueError(f"clients: 1 to {MOST_CLIENTS}, not {clients}")
        self.hosts = [f"c{number}" for number in range(1, clients + 1)]
        self.servers = [f"s{number}" for number in range(1, servers + 1)]
        self.controller = CONTROLLER
        self.mount = MOUNT
        offsets = {
            name: number * CLOCK_STEP_NS for number, name in enumerate(self.hosts, start=1)
        } | dict(clock_offsets_ns or {})
        bricks = (brick_size,) * BRICKS_PER_SERVER
        self.namespaces = Hosts(
            [
                Host(SWITCH, ""),
                Host(CONTROLLER, "10.77.0.1", pid_namespace=False),
                *(
                    Host(name, f"10.77.2.{n}", bricks=bricks, visible=SOFTWARE)
                    for n, name in _counted(self.servers)
                ),
                *(
                    Host(
                        name,
                        f"10.77.1.{n}",
                        clock_offset_ns=offsets[name],
                        visible=(*SOFTWARE, *visible),
                    )
                    for n, name in _counted(self.hosts)
                ),
            ]
        )
        self.gluster = Gluster(self.namespaces, self.servers, BRICKS_PER_SERVER)
        self.gluster.options.update(options or {})
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        sweep()
        with ExitStack() as stack:
            stack.callback(self.namespaces.end)
            self.namespaces.begin()
            network.connect(self.namespaces)
            if self.servers:
                try:
                    self.gluster.begin()
                    self.gluster.mount(self.hosts)
                except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
                    error.add_note(self.gluster.logs())
                    raise
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def agent(self) -> Path:
        """Path of ``agent [options] HOST COMMAND...``, mpiexec's substitute for ssh."""
        return self.namespaces.agent

    @property
    def volume_size(self) -> int:
        """Bytes of the volume as its first client sees it."""
        return self.gluster.size(self.hosts[0])

    def address(self, host: str) -> str:
        """Return the IPv4 address of a host on its ``eth0``."""
        return self.namespaces.spec(host).address

    def clock_offset_ns(self, host: str) -> int:
        """Return how far CLOCK_MONOTONIC of a host is ahead of the controller's."""
        return self.namespaces.spec(host).clock_offset_ns

    def command(self, host: str, argv: Sequence[str | Path], cwd: Path | None = None) -> list[str]:
        """Return a command line that runs ``argv`` on a host, for Popen."""
        return self.namespaces.command(host, argv, cwd)

    def run(
        self,
        host: str,
        argv: Sequence[str | Path],
        *,
        check: bool = True,
        timeout: float = 120.0,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a host until it ends: see ``Hosts.run``."""
        return self.namespaces.run(host, argv, check=check, timeout=timeout, cwd=cwd, env=env)

    def pids(self, host: str) -> list[int]:
        """Return the process ids of programs started on a host, without the rig's own daemons."""
        return self.namespaces.processes(host)

    def link(self, host: str, *, up: bool) -> None:
        """Disconnect (``up=False``) or connect the cable of a client or server."""
        network.set_link(self.namespaces, host, up=up)

    def shape(self, host: str, rate: str | None) -> None:
        """Limit the NIC of a host in both directions (``"100mbit"``); None removes the limit."""
        network.shape(self.namespaces, host, rate)

    def unmount(self, host: str) -> None:
        """Unmount the volume on a client; its mount point is then a local folder in memory."""
        self.gluster.unmount(host)

    def remount(self, host: str) -> None:
        """Mount the volume on a client again."""
        self.gluster.mount([host])

    def fill_volume(self) -> None:
        """Fill the volume.

        The next write ends with ENOSPC, or the next fsync or close, because GlusterFS acknowledges
        the last MiB before writing it.
        """
        self.gluster.fill()

    def free_volume(self) -> None:
        """Free the space taken by ``fill_volume``."""
        self.gluster.empty()

    def kill_server(self, number: int) -> None:
        """Kill everything on storage host ``number`` (from 1) by SIGKILL; its data stays."""
        self.gluster.stop_server(self.servers[number - 1])

    def restart_server(self, number: int) -> None:
        """Start a killed storage host again, and wait until all bricks are online."""
        self.gluster.start_servers([self.servers[number - 1]])
        self.gluster.wait_bricks(BRICKS_PER_SERVER * len(self.servers))

    def wait_until_gone(self, host: str) -> None:
        """Wait until all programs started on a host have ended.

        Raises TimeoutError with those still running.
        """
        try:
            wait_until(f"{host} is idle", lambda: not self.pids(host))
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {[_command(pid) for pid in self.pids(host)]}") from None


def _command(pid: int) -> str:
    """Describe a process: id, wait channels and command line; empty if it has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        threads = Path(f"/proc/{pid}/task").iterdir()
        waits = " ".join(sorted({(thread / "wchan").read_text() for thread in threads}))
    except OSError:
        return ""
    return f"{pid} ({waits}): {' '.join(words.split(chr(0)))}"


def _counted(names: Sequence[str]) -> list[tuple[int, str]]:
    return list(enumerate(names, start=1))
