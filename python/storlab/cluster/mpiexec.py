"""Find mpiexec (or srun) and its MPI implementation; build its command line and environment."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from storlab.base.errors import EngineError, PreflightError, UsageError
from storlab.base.secrets import names_secret
from storlab.cluster.link import SIZE_VARIABLE, VENDOR_VARIABLE
from storlab.cluster.slurm import own_node, plugin_for

Vendor = Literal["mpich", "openmpi", "intel", "slurm"]
LOCAL = "localhost"
_VERSION_S = 30.0
_ANYWHERE = "/"  # working directory of ranks, because mpiexec's may not exist on clients
_MPIEXEC_FIX = 'pip install "storlab[cluster]", or set the path of yours: [cluster] mpiexec = "..."'
_SIGNS: tuple[tuple[Vendor, re.Pattern[str]], ...] = (  # intel precedes mpich: both use Hydra
    ("intel", re.compile(r"Intel\(R\) MPI Library.*?Version\s+(\S+)", re.DOTALL)),
    ("mpich", re.compile(r"HYDRA build details.*?Version:\s+(\S+)", re.DOTALL)),
    ("openmpi", re.compile(r"\(Open(?:RTE|\s?MPI)\)\s+(\S+)")),
    ("openmpi", re.compile(r"(?:PRRTE|prterun)\D*(\d\S*)")),
    ("slurm", re.compile(r"^slurm(?:-\w+)?\s+(\S+)", re.MULTILINE)),
)
_LIBRARY: dict[Vendor, tuple[str, ...]] = {
    "mpich": ("libmpi.so.12",),
    "openmpi": ("libmpi.so.40",),
    "intel": ("release/libmpi.so.12", "libmpi.so.12"),
    "slurm": (),
}
# MPI uses TCP: it is always available, leaves the fast network to the load, and suffices for a few
# small messages. MPI's shared memory would leave files in /dev/shm.
_SETTINGS: dict[Vendor, dict[str, str]] = {
    "mpich": {"MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "tcp", "UCX_TLS": "tcp,self"},
    "openmpi": {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        # Rank 0 aborts when the socket of a dead rank closes. It must wait 2 s, in which prterun
        # reports which rank died.
        "OMPI_MCA_opal_abort_delay": "2",
    },
    "intel": {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "I_MPI_PIN": "0"},
    "slurm": {
        "MPIR_CVAR_NOLOCAL": "1",
        # With UCX, MPICH passes an address of 4 KiB through Slurm, which reads only 1 KiB of it and
        # may cut off bytes that are not 0. So MPICH must use libfabric (ofi).
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "tcp",
        "UCX_TLS": "tcp,self",
        "OMPI_MCA_btl": "tcp,self",
    },
}
_INTERFACE: dict[Vendor, tuple[str, ...]] = {
    "mpich": ("FI_TCP_IFACE", "UCX_NET_DEVICES"),
    "openmpi": ("OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include"),
    "intel": ("FI_TCP_IFACE",),
    "slurm": ("FI_TCP_IFACE", "UCX_NET_DEVICES", "OMPI_MCA_btl_tcp_if_include"),
}
_ROUTES = Path("/proc/self/net/route")
_PASSED_ON = re.compile(r"(PATH|LD_LIBRARY_PATH|PYTHON.*|VIRTUAL_ENV|MPI4PY_.*|STORLAB_.*|TMPDIR)")


@dataclass(frozen=True, slots=True)
class Launcher:
    """Program that starts MPI ranks: mpiexec or srun."""

    program: Path
    vendor: Vendor
    version: str
    plugin: str | None = None  # value of srun's --mpi; None for Slurm's default


@dataclass(frozen=True, slots=True)
class Ranks:
    """Placement of ranks: rank 0 on this machine, then one rank per client.

    ``hosts`` has one host per client, or is ``["localhost"]`` to run all on this machine. ``agent``
    is a program called as ``agent HOST COMMAND...`` instead of ssh.
    """

    hosts: Sequence[str]
    clients: int
    mpi_args: Sequence[str] = ()
    agent: str | None = None
    interface: str | None = None  # network interface for MPI's own messages
    environment: Mapping[str, str] = field(default_factory=dict)  # of each rank; no secrets

    @property
    def size(self) -> int:
        """Return the number of ranks: clients and rank 0."""
        return self.clients + 1

    @property
    def local(self) -> bool:
        """Return whether all ranks run on this machine."""
        return list(self.hosts) == [LOCAL]

    def check(self) -> None:
        """Check the number of clients, and that no environment variable has a secret's name.

        Raises:
            UsageError: There is no client or too few hosts, or a variable's name suggests a secret.
        """
        if self.clients < 1:
            raise UsageError("clients", f"is {self.clients}", "use at least 1 client")
        if not self.local and len(self.hosts) < self.clients:
            raise UsageError(
                "clients",
                f"is {self.clients}, but there are only {len(self.hosts)} hosts",
                'list more hosts, or use hosts = ["localhost"] to run all clients on this machine',
            )
        secret = [name for name in self.environment if names_secret(name)]
        if secret:
            raise UsageError(
                secret[0],
                "looks like a secret, which other processes could read from the environment",
                "pass it in the order, the task description on standard input",
            )


def find_launcher(explicit: str | None = None, kind: Literal["mpi", "slurm"] = "mpi") -> Launcher:
    """Find mpiexec or srun, and determine its MPI implementation and version.

    The first one set is used: ``explicit``, the environment variable STORLAB_MPIEXEC (not for
    srun), the program next to this Python (from a wheel), the program on PATH.

    Raises:
        EngineError: The program does not exist or cannot be run, or its MPI is not supported.
    """
    program = _find_program(explicit, "srun" if kind == "slurm" else "mpiexec")
    try:
        asked = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(
            str(program), f"fails to print its version: {error}", _MPIEXEC_FIX
        ) from error
    text = asked.stdout + asked.stderr
    vendor, version = vendor_of(text, program)
    plugin = plugin_for(program, os.environ) if vendor == "slurm" else None
    return Launcher(program, vendor, version, plugin)


def vendor_of(text: str, program: Path) -> tuple[Vendor, str]:
    """Return MPI implementation and version from the output of ``mpiexec --version``.

    Raises:
        EngineError: The output belongs to none of the supported implementations.
    """
    for vendor, sign in _SIGNS:
        match = sign.search(text)
        if match:
            return vendor, match[1].rstrip(",")
    shown = " ".join(text.split())[:200] or "nothing"
    raise EngineError(
        str(program),
        f"does not belong to a supported MPI implementation; --version prints: {shown}",
        "use the mpiexec of MPICH, Open MPI or Intel MPI, or srun",
    )


def _find_program(explicit: str | None, name: str) -> Path:
    asked = explicit or (os.environ.get("STORLAB_MPIEXEC") if name == "mpiexec" else None)
    beside = Path(sys.executable).parent / name
    if asked is None and os.access(beside, os.X_OK):
        return beside
    path = shutil.which(asked or name)
    if path is None:
        fix = _MPIEXEC_FIX if name == "mpiexec" else "run it in a Slurm job, or set launcher to mpi"
        what = "is not an executable program" if asked else "was not found on PATH"
        raise EngineError(asked or name, what, fix)
    return Path(path).absolute()


def command(launcher: Launcher, ranks: Ranks, program: Sequence[str]) -> list[str]:
    """Return the command line that starts ``program`` as every rank.

    Raises:
        UsageError: Hosts and number of clients do not match.
    """
    ranks.check()
    build = {"openmpi": _openmpi, "slurm": _slurm}.get(launcher.vendor, _hydra)
    return [str(launcher.program), *build(launcher, ranks), *ranks.mpi_args, *program]


def environment(
    launcher: Launcher, ranks: Ranks, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the launcher's environment: the inherited one without secrets, plus MPI settings.

    MPI settings that the user has made take precedence over storlab's.

    Args:
        launcher: Program that starts the ranks.
        ranks: Hosts, network interface and further variables.
        inherited: Environment to start from; None for that of this process.
    """
    own = os.environ if inherited is None else inherited
    kept = {name: value for name, value in own.items() if not names_secret(name)}
    wanted = dict(_SETTINGS[launcher.vendor])
    if ranks.interface is not None:
        wanted |= dict.fromkeys(_INTERFACE[launcher.vendor], ranks.interface)
    elif ranks.local and launcher.vendor == "openmpi":
        wanted["OMPI_MCA_btl_tcp_if_include"] = "lo"  # Open MPI uses loopback only if named
    elif ranks.local and launcher.vendor == "mpich" and not _has_routes():
        wanted["MPIR_CVAR_CH4_NETMOD"] = "ofi"  # UCX finds no route to a loopback address
    if launcher.vendor == "openmpi" and ranks.agent is not None:
        wanted |= {"PRTE_MCA_plm_ssh_agent": ranks.agent, "OMPI_MCA_plm_rsh_agent": ranks.agent}
    library = _library(launcher)
    if library is not None:
        wanted["MPI4PY_LIBMPI"] = str(library)
    own_words = {SIZE_VARIABLE: str(ranks.size), VENDOR_VARIABLE: launcher.vendor}
    return {**wanted, **kept, **ranks.environment, **own_words}


def _has_routes() -> bool:
    """Return whether this machine has an IPv4 route besides loopback."""
    try:
        return len(_ROUTES.read_text().splitlines()) > 1  # the first line has column names
    except OSError:
        return False


def _library(launcher: Launcher) -> Path | None:
    """Return the MPI library in the same installation as mpiexec, such as a wheel's, or None."""
    prefix = launcher.program.parent.parent
    for folder in ("lib", "lib64"):
        for name in _LIBRARY[launcher.vendor]:
            if (prefix / folder / name).exists():
                return prefix / folder / name
    return None


def _places(ranks: Ranks, here: str = LOCAL) -> list[str]:
    """Return the host of each rank."""
    return [here, *([here] * ranks.clients if ranks.local else ranks.hosts[: ranks.clients])]


def _hydra(launcher: Launcher, ranks: Ranks) -> list[str]:
    """Return the arguments for Hydra, the launcher of MPICH and Intel MPI."""
    words = ["-n", str(ranks.size), "-wdir", _ANYWHERE]
    if launcher.vendor == "mpich":
        words += ["-bind-to", "none"]
    if ranks.local:
        words += ["-hosts", LOCAL, "-launcher", "fork"]
    else:
        # Rank 0's host is not "localhost", because clients connect to it by this name. In a Slurm
        # job mpiexec uses srun, which accepts only names of nodes.
        by_srun = ranks.agent is None and "-launcher" not in ranks.mpi_args
        here = (own_node(os.environ) if by_srun else None) or socket.gethostname()
        words += ["-hosts", ",".join(f"{host}:1" for host in _places(ranks, here))]
    if ranks.agent is not None:
        words += ["-launcher", "ssh", "-launcher-exec", ranks.agent]
    if ranks.interface is not None:
        words += ["-iface", ranks.interface]
    return words


def _openmpi(launcher: Launcher, ranks: Ranks) -> list[str]:
    major = int(launcher.version.split(".")[0]) if launcher.version[:1].isdigit() else 5
    words = ["--allow-run-as-root", "--bind-to", "none", "-n", str(ranks.size)]
    words += ["--wdir", _ANYWHERE]
    words += ["--map-by", ":OVERSUBSCRIBE"] if major >= 5 else ["--oversubscribe"]
    if ranks.local:
        words += ["--host", f"{LOCAL}:{ranks.size}"]
    else:
        words += ["--host", ",".join(f"{host}:1" for host in _places(ranks))]
    for name in environment(launcher, ranks):
        # Open MPI passes its own variables to the ranks, but no others without -x.
        if name in ranks.environment or _PASSED_ON.fullmatch(name):
            words += ["-x", name]
    return words


def _slurm(launcher: Launcher, ranks: Ranks) -> list[str]:
    """Return the arguments for srun, which passes standard input to rank 0 only."""
    words = [] if launcher.plugin is None else [f"--mpi={launcher.plugin}"]
    words += [f"--ntasks={ranks.size}", "--distribution=arbitrary", "--input=0"]
    words += [
        "--cpu-bind=none",
        f"--chdir={_ANYWHERE}",
        "--overlap",
        "--overcommit",  # rank 0 and a client share a node, on which the job may have only one core
        "--kill-on-bad-exit=1",
        "--export=ALL",
        "--unbuffered",
    ]
    return words


def slurm_places(ranks: Ranks, environ: Mapping[str, str]) -> str:
    """Return the content of SLURM_HOSTFILE: the node of each rank, one per line.

    Raises:
        PreflightError: This process runs outside a Slurm job, or on no node of its job.
    """
    here = own_node(environ)
    if here is None:
        raise PreflightError(
            "srun",
            "works only inside a Slurm job; elsewhere it would request a new job for every run",
            'start storlab in a Slurm job (sbatch), or remove launcher = "slurm" from [cluster]',
        )
    return "".join(f"{here if place == LOCAL else place}\n" for place in _places(ranks, here))
