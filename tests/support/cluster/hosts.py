"""Hosts as Linux namespaces: create them, run programs on them, remove them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from . import supervisor

ROOM = Path("/tmp")  # not TMPDIR: the sweep of another session looks in /tmp too
PREFIX = "storlab-rig-"
NETWORK = "10.77.0.0/16"
SWITCH = "switch"
OWN = "gluster"  # name prefix of the rig's own daemons
RUN_S = 120.0
END_S = 60.0

AGENT = """#!/bin/sh
# agent [options] HOST [COMMAND...]   as rsh and ssh: the command is run by a shell of HOST, with
# nothing of the caller's environment and files; without one, a shell. What was left open is the
# socket at which mpiexec waits for its helpers: killed meanwhile, they would wait for one another
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
while :; do
  case $1 in
  -[bcDeFIiJLlmOopQRSWw]) shift 2 ;;
  -*) shift ;;
  *) break ;;
  esac
done
host=$1; shift
case $host in
{cases}*) echo "agent: $host: name or service not known" >&2; exit 255 ;;
esac
if [ -e {directory}/down/$host ]; then
  echo "agent: connect to host $host port 22: no route to host" >&2; exit 255
fi
if [ $# = 0 ]; then set -- /bin/sh -i; else set -- /bin/sh -c "$*"; fi
exec nsenter --target $pid $namespaces -- /usr/bin/env -i PATH={path} HOME="$HOME" USER=root \\
  LOGNAME=root SHELL=/bin/sh "$@"
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Host:
    """Properties of a host.

    Processes of the controller stay in the caller's PID and time namespaces, so that they are
    ordinary child processes and its clock is the reference.
    """

    name: str
    address: str
    pid_namespace: bool = True
    clock_offset_ns: int = 0
    bricks: tuple[int, ...] = ()
    visible: tuple[Path, ...] = ()

    @property
    def namespaces(self) -> list[str]:
        """Return the namespace options of nsenter."""
        options = ["--net", "--mount", "--uts", "--ipc"]
        options += ["--time"] if self.clock_offset_ns else []
        return options + (["--pid"] if self.pid_namespace else [])


@dataclass
class Hosts:
    """The hosts of a rig, from ``begin`` to ``end``."""

    specs: Sequence[Host]
    token: str = field(default_factory=lambda: PREFIX + os.urandom(6).hex())
    holders: dict[str, int] = field(default_factory=dict)
    _supervisor: subprocess.Popen[str] | None = None

    @property
    def directory(self) -> Path:
        """Directory of logs, hosts file and agent, removed with the hosts."""
        return ROOM / self.token

    @property
    def agent(self) -> Path:
        """Path of ``agent [options] HOST COMMAND...``, which runs a command on a host like ssh."""
        return self.directory / "agent"

    def begin(self) -> Self:
        """Create all hosts. Raises RuntimeError with the supervisor's output."""
        spec = {
            "directory": str(self.directory),
            "hosts_file": self._hosts_file(),
            "hosts": [_spec(host) for host in self.specs],
        }
        program = Path(supervisor.__file__)
        # In its own session, so that Ctrl-C reaches only the caller, which then ends it in order.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(program), self.token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        self._supervisor.stdin.write(json.dumps(spec) + "\n")
        self._supervisor.stdin.flush()
        line = self._supervisor.stdout.readline()
        if not line:
            self.end()
            raise RuntimeError("no hosts, and no reason")
        self.holders = json.loads(line)
        self._write_agent()
        return self

    def end(self) -> None:
        """Remove all hosts and their processes. Raises RuntimeError if that fails."""
        ending, self._supervisor = self._supervisor, None
        if ending is not None:
            _, errors = ending.communicate(timeout=END_S)
            if errors or ending.returncode:
                sweep()
                raise RuntimeError(f"the rig ended with {ending.returncode}: {errors}")

    @property
    def supervisor_pid(self) -> int:
        """Process id of the supervisor."""
        assert self._supervisor is not None
        return self._supervisor.pid

    def spec(self, name: str) -> Host:
        """Return the properties of a host. Raises KeyError."""
        for host in self.specs:
            if host.name == name:
                return host
        raise KeyError(f"the rig has no host {name}: {', '.join(h.name for h in self.specs)}")

    def command(self, name: str, argv: Sequence[str | Path], cwd: Path | None = None) -> list[str]:
        """Return a command line that runs ``argv`` on a host, for Popen.

        On a client the program dies with the process created by Popen; on the controller it is that
        process.
        """
        host = self.spec(name)
        enter = ["nsenter", "--target", str(self.holders[name]), *host.namespaces, "--"]
        if host.pid_namespace:  # nsenter forks, and its child would survive it
            enter += ["setpriv", "--pdeathsig", "KILL"]
        return [*enter, "env", "-C", str(cwd or Path.cwd()), *map(str, argv)]

    def run(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        check: bool = True,
        timeout: float = RUN_S,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a host until it ends.

        Raises RuntimeError with its output if it fails and ``check`` is set, and TimeoutExpired
        after ``timeout`` seconds.
        """
        done = subprocess.run(
            self.command(name, argv, cwd),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=env,
        )
        if check and done.returncode:
            shown = shlex.join(map(str, argv))
            raise RuntimeError(f"{name}: {shown}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def processes(self, name: str, *, own: bool = False) -> list[int]:
        """Return the process ids, in the caller's namespace, of programs started on a host.

        With ``own``, the rig's own daemons are included.
        """
        holder = self.holders[name]
        holding = {holder, _parent(holder)}
        pids = []
        for pid in supervisor.marked(self.token):
            with suppress(OSError):
                # The agent's nsenter waits in the caller's PID namespace; like an ssh client it
                # does not count as a process of the host.
                if pid in holding or _namespaces(pid) != _namespaces(holder):
                    continue
                program = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                if program.startswith(OWN) is own:
                    pids.append(pid)
        return sorted(pids)

    def kill(self, pids: Sequence[int]) -> None:
        """Send SIGKILL to every process that still exists."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def inside(self, name: str, path: Path) -> Path:
        """Return the caller's path of a host's path. A dead file system there blocks the caller."""
        return Path(f"/proc/{self.holders[name]}/root") / path.relative_to("/")

    def _hosts_file(self) -> str:
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        lines += [f"{host.address} {host.name}" for host in self.specs if host.address]
        return "\n".join(lines) + "\n"

    def _write_agent(self) -> None:
        cases = "".join(
            f'{host.name}) pid={self.holders[host.name]} namespaces="{" ".join(host.namespaces)}"'
            " ;;\n"
            for host in self.specs
        )
        script = AGENT.format(cases=cases, directory=self.directory, path=PATH)
        self.agent.write_text(script, encoding="ascii")
        self.agent.chmod(0o755)


def sweep() -> list[str]:
    """Remove rigs whose supervisor was killed and return their tokens; rigs in use are kept."""
    swept = []
    for directory in ROOM.glob(PREFIX + "*"):
        if not supervisor.is_held(directory):
            supervisor.kill_marked(directory.name)
            shutil.rmtree(directory, ignore_errors=True)
            swept.append(directory.name)
    return swept


def _namespaces(pid: int) -> list[Path]:
    return [Path(f"/proc/{pid}/ns/{kind}").readlink() for kind in ("net", "pid")]


def _parent(pid: int) -> int:
    """Return the process that waits for a holder."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("PPid:")[1].split()[0])


def _spec(host: Host) -> dict[str, Any]:
    return {
        "name": host.name,
        "pid_namespace": host.pid_namespace,
        "clock_offset_ns": host.clock_offset_ns,
        "bricks": host.bricks,
        "visible": [str(path.resolve()) for path in host.visible],
    }
