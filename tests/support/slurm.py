"""A Slurm of several nodes on this machine, with its daemons as children of the test.

It needs no munge, systemd or control groups, keeps everything in its own folder, and trusts every
client of its ports, so use it only on a machine without other users.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from conftest import need_program
from storlab.base.clock import monotonic_ns, sleep_s
from support.cluster_lab import all_pids, variables
from support.ports import free_ports

UP_S = 300.0
END_S = 10.0
CONFIGURATION = """\
ClusterName=storlab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={ports[0]}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/%n.spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2\n"


class Slurm:
    """``with Slurm(place, 3) as slurm``: idle nodes n1, n2, n3, selected by SLURM_CONF."""

    def __init__(self, place: Path, nodes: int) -> None:
        self.place = place
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.configuration = place / "slurm.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        (self.place / "state").mkdir(parents=True)
        ports = free_ports(len(self.nodes) + 1)
        host = socket.gethostname().partition(".")[0]
        text = "".join(
            NODE.format(name=name, host=host, port=port)
            for name, port in zip(self.nodes, ports[1:], strict=True)
        )
        settings = CONFIGURATION.format(host=host, place=self.place, ports=ports)
        self.configuration.write_text(settings + text)
        # Unused, but version 2 would require a writable group.
        (self.place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        try:
            self._start("slurmctld", "-i")
            for name in self.nodes:
                self._start("slurmd", "-N", name)
            self._await_nodes()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment for programs that use this Slurm."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        return {**own, "SLURM_CONF": str(self.configuration)}

    def run(self, *words: str | Path, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a Slurm program; return its output and errors together."""
        return subprocess.run(
            words,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def steps(self) -> list[int]:
        """Return the process ids of job step daemons on its nodes."""
        return [pid for pid in self._processes() if "slurmstepd" in _name(pid)]

    def _start(self, name: str, *words: str) -> None:
        with (self.place / f"{'-'.join([name, *words[1:]])}.log").open("wb") as log:
            self._daemons.append(
                subprocess.Popen(
                    [need_program(name), "-D", *words],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _await_nodes(self) -> None:
        deadline_ns = monotonic_ns() + round(UP_S * 1e9)
        told = ""
        while told.split() != ["idle"] * len(self.nodes):
            if monotonic_ns() > deadline_ns:
                logs = "".join(log.read_text()[-1000:] for log in self.place.glob("*.log"))
                raise TimeoutError(f"Slurm is not up: {told}\n{logs}")
            sleep_s(0.1)
            told = self.run("sinfo", "--Node", "--noheader", "--format=%t").stdout

    def _end(self) -> None:
        with suppress(OSError, subprocess.TimeoutExpired):
            self.run("scancel", "--user=root", "--signal=KILL", timeout=END_S)
        # Their state is discarded, and a clean shutdown takes ten seconds.
        while left := self._processes():
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            sleep_s(0.05)
        for daemon in self._daemons:
            daemon.wait()

    def _processes(self) -> list[int]:
        """Return all processes that belong to this Slurm, without zombies."""
        configuration = f"{self.configuration}"
        return [
            pid
            for pid in all_pids()
            if pid != os.getpid() and variables(pid).get("SLURM_CONF") == configuration
        ]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""
