"""Inside of a Slurm job: the node that storlab is on, and what srun and the ranks speak."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from storlab.base.errors import PreflightError
from storlab.cluster.hosts import from_slurm

_ASK_S = 30.0
# What a library of MPI can speak with srun, by the name that mpi4py has for it. Of PMIx there are
# many versions, and of others Slurm's default is left as it is.
_SPOKEN = {
    "MPICH": ("pmi2", "cray_shasta"),
    "MVAPICH": ("pmi2",),
    "Intel MPI": ("pmi2",),
    "Open MPI": ("pmix",),
}
_VENDOR = (
    "import mpi4py; mpi4py.rc.initialize = False; "
    "from mpi4py import MPI; print(MPI.get_vendor()[0])"
)
_DEFAULT = re.compile(r"^MpiDefault\s*=\s*(\S+)", re.MULTILINE)


def own_node(environ: Mapping[str, str]) -> str | None:
    """This machine's name as a node of the Slurm job that storlab runs in; None: in no job.

    Raises PreflightError where storlab is not on a node of its job: rank 0 has to be where storlab
    is, whose clock its meters use, and Slurm starts ranks on nodes of the job alone.
    """
    if "SLURM_JOB_ID" not in environ:
        return None
    here = environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    if here not in [line.name for line in from_slurm(environ)]:
        raise PreflightError(
            f"Slurm job {environ['SLURM_JOB_ID']}",
            f"storlab runs on {here}, which is none of its nodes",
            "start storlab on a node: in a script for sbatch, or by "
            "`salloc ... srun --nodes=1 --ntasks=1 --overlap --pty storlab ...`",
        )
    return here


def plugin_for(srun: Path, environ: Mapping[str, str]) -> str | None:
    """The ``--mpi`` of srun that this Python's library of MPI understands; None: as Slurm is set.

    Slurm's own default is ``none``, with which every rank is alone.
    """
    if environ.get("SLURM_MPI_TYPE"):
        return None
    spoken = _SPOKEN.get(_asked([sys.executable, "-c", _VENDOR]).strip(), ())
    default = _DEFAULT.search(_asked([str(srun.with_name("scontrol")), "show", "config"]))
    if default is not None and default[1].startswith(spoken):
        return None
    offered = _asked([str(srun), "--mpi=list"]).split()
    return next((plugin for plugin in spoken if plugin in offered), None)


def _asked(words: Sequence[str]) -> str:
    """All that a program prints; nothing where it cannot be run."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
        return done.stdout
    return ""
