"""Which mpiexec there is, of which MPI, and how it is told what to start where."""

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
_ANYWHERE = "/"  # where ranks run: the folder that mpiexec is in need not be on the clients
_MPIEXEC_FIX = 'pip install "storlab[cluster]" brings one; or name yours: [cluster] mpiexec = "..."'
_SIGNS: tuple[tuple[Vendor, re.Pattern[str]], ...] = (  # Intel MPI's Hydra before MPICH's
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
# Messages are few and small: TCP is everywhere, and leaves the fast network to what is measured.
# Shared memory would be left behind in /dev/shm.
_SETTINGS: dict[Vendor, dict[str, str]] = {
    "mpich": {"MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "tcp", "UCX_TLS": "tcp,self"},
    "openmpi": {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        # Rank 0 aborts when a peer's socket closes; prterun knows of which rank, a moment later.
        "OMPI_MCA_opal_abort_delay": "2",
    },
    "intel": {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "I_MPI_PIN": "0"},
    "slurm": {
        "MPIR_CVAR_NOLOCAL": "1",
        # By UCX, MPICH tells Slurm 4 KiB of an address, and Slurm reads no more than 1 KiB of what
        # it is told: whether that does depends on how many of those bytes are 0.
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
    """A program that starts ranks."""

    program: Path
    vendor: Vendor
    version: str
    plugin: str | None = None  # for srun: its --mpi; None: as Slurm is set up


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where ranks run: rank 0 on this machine, then one for each client.

    ``hosts`` has one host for each client, or is ``["localhost"]``: then all are on this machine.
    ``agent`` is a program that is called as ``agent HOST COMMAND...`` in place of ssh.
    """

    hosts: Sequence[str]
    clients: int
    mpi_args: Sequence[str] = ()
    agent: str | None = None
    interface: str | None = None  # name of the network interface for MPI's own messages
    environment: Mapping[str, str] = field(default_factory=dict)  # for every rank; no secrets

    @property
    def size(self) -> int:
        """Of the job: clients and rank 0."""
        return self.clients + 1

    @property
    def local(self) -> bool:
        """Whether all are on this machine."""
        return list(self.hosts) == [LOCAL]

    def check(self) -> None:
        """Raises UsageError where hosts and clients do not fit."""
        if self.clients < 1:
            raise UsageError("clients", f"is {self.clients}", "a cluster has at least 1 client")
        if not self.local and len(self.hosts) < self.clients:
            raise UsageError(
                "clients",
                f"is {self.clients}, and there are {len(self.hosts)} hosts",
                'name more hosts, or hosts = ["localhost"] for ranks on this machine',
            )
        secret = [name for name in self.environment if names_secret(name)]
        if secret:
            raise UsageError(secret[0], "is a secret in the environment", "put it in the order")


def find_launcher(explicit: str | None = None, kind: Literal["mpi", "slurm"] = "mpi") -> Launcher:
    """The mpiexec (or srun) to use, asked for its version.

    That is ``explicit``, else that of the environment variable STORLAB_MPIEXEC, else the one beside
    this Python, which the wheels bring, else the one on the path. Raises EngineError where there is
    none, or where nothing is known of its kind.
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
            str(program), f"does not tell its version: {error}", _MPIEXEC_FIX
        ) from error
    text = asked.stdout + asked.stderr
    vendor, version = vendor_of(text, program)
    plugin = plugin_for(program, os.environ) if vendor == "slurm" else None
    return Launcher(program, vendor, version, plugin)


def vendor_of(text: str, program: Path) -> tuple[Vendor, str]:
    """From what ``--version`` prints. Raises EngineError for what is not known."""
    for vendor, sign in _SIGNS:
        match = sign.search(text)
        if match:
            return vendor, match[1].rstrip(",")
    shown = " ".join(text.split())[:200] or "nothing"
    raise EngineError(
        str(program),
        f"is of no known MPI; its --version prints: {shown}",
        "use the mpiexec of MPICH, Open MPI or Intel MPI, or srun",
    )


def _find_program(explicit: str | None, name: str) -> Path:
    asked = explicit or (os.environ.get("STORLAB_MPIEXEC") if name == "mpiexec" else None)
    beside = Path(sys.executable).parent / name
    if asked is None and os.access(beside, os.X_OK):
        return beside
    path = shutil.which(asked or name)
    if path is None:
        fix = _MPIEXEC_FIX if name == "mpiexec" else "run it in a Slurm job, or take launcher = mpi"
        raise EngineError(
            asked or name, "is no program that can be run" if asked else "is missing", fix
        )
    return Path(path).absolute()


def command(launcher: Launcher, ranks: Ranks, program: Sequence[str]) -> list[str]:
    """What is to be run. Raises UsageError where hosts and clients do not fit."""
    ranks.check()
    build = {"openmpi": _openmpi, "slurm": _slurm}.get(launcher.vendor, _hydra)
    return [str(launcher.program), *build(launcher, ranks), *ranks.mpi_args, *program]


def environment(
    launcher: Launcher, ranks: Ranks, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All of the launcher's environment: this process's less its secrets, and what MPI needs.

    What the user has set for MPI stays as it is.
    """
    own = os.environ if inherited is None else inherited
    kept = {name: value for name, value in own.items() if not names_secret(name)}
    wanted = dict(_SETTINGS[launcher.vendor])
    if ranks.interface is not None:
        wanted |= dict.fromkeys(_INTERFACE[launcher.vendor], ranks.interface)
    elif ranks.local and launcher.vendor == "openmpi":
        wanted["OMPI_MCA_btl_tcp_if_include"] = "lo"  # which it leaves out unless it is named
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
    """Return whether this machine has a route for IPv4, apart from loopback."""
    try:
        return len(_ROUTES.read_text().splitlines()) > 1  # the first has the names of columns
    except OSError:
        return False


def _library(launcher: Launcher) -> Path | None:
    """The library of that mpiexec, where it lies beside it as that of a wheel does."""
    prefix = launcher.program.parent.parent
    for folder in ("lib", "lib64"):
        for name in _LIBRARY[launcher.vendor]:
            if (prefix / folder / name).exists():
                return prefix / folder / name
    return None


def _places(ranks: Ranks, here: str = LOCAL) -> list[str]:
    """The host of each rank."""
    return [here, *([here] * ranks.clients if ranks.local else ranks.hosts[: ranks.clients])]


def _hydra(launcher: Launcher, ranks: Ranks) -> list[str]:
    """MPICH, and Intel MPI's descendant of it."""
    words = ["-n", str(ranks.size), "-wdir", _ANYWHERE]
    if launcher.vendor == "mpich":
        words += ["-bind-to", "none"]
    if ranks.local:
        words += ["-hosts", LOCAL, "-launcher", "fork"]
    else:
        # By its own name: others are told that name to connect to, and localhost would be theirs.
        # In a Slurm job mpiexec itself asks srun, which knows nodes by their names alone.
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
        # Those of Open MPI it passes on itself; others' would be many.
        if name in ranks.environment or _PASSED_ON.fullmatch(name):
            words += ["-x", name]
    return words


def _slurm(launcher: Launcher, ranks: Ranks) -> list[str]:
    """Standard input goes to rank 0 alone; ``launch`` hands over which rank is where."""
    words = [] if launcher.plugin is None else [f"--mpi={launcher.plugin}"]
    words += [f"--ntasks={ranks.size}", "--distribution=arbitrary", "--input=0"]
    words += [
        "--cpu-bind=none",
        f"--chdir={_ANYWHERE}",
        "--overlap",
        "--overcommit",  # rank 0 and a client on one node, of which the job may have one core
        "--kill-on-bad-exit=1",
        "--export=ALL",
        "--unbuffered",
    ]
    return words


def slurm_places(ranks: Ranks, environ: Mapping[str, str]) -> str:
    """Lines of SLURM_HOSTFILE: the node of each rank, in order. Raises as ``own_node``."""
    here = own_node(environ)
    if here is None:
        raise PreflightError(
            "srun",
            "is started in a Slurm job only, else it would ask for one for every run",
            'start storlab in a Slurm job (sbatch), or leave launcher = "slurm" out',
        )
    return "".join(f"{here if place == LOCAL else place}\n" for place in _places(ranks, here))
