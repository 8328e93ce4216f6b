"""Slurm support: the node that storlab runs on, and the PMI plugin for srun."""

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
# PMI plugins that MPI libraries support, by mpi4py's name of the library. PMIx has many versions,
# and for other libraries Slurm's default is kept.
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
    """Return this machine's node name in the current Slurm job; None outside of a job.

    Rank 0 must run on the same machine as storlab, because meters use its clock, and Slurm starts
    ranks only on nodes of the job.

    Raises:
        PreflightError: Storlab does not run on a node of its job.
    """
    if "SLURM_JOB_ID" not in environ:
        return None
    here = environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    if here not in [line.name for line in from_slurm(environ)]:
        raise PreflightError(
            f"Slurm job {environ['SLURM_JOB_ID']}",
            f"storlab runs on {here}, which is not one of its nodes",
            "start storlab on a node: in a script for sbatch, or by "
            "`salloc ... srun --nodes=1 --ntasks=1 --overlap --pty storlab ...`",
        )
    return here


def plugin_for(srun: Path, environ: Mapping[str, str]) -> str | None:
    """Return the srun ``--mpi`` value for this Python's MPI library; None to use Slurm's default.

    Slurm's own default is ``none``, with which each rank is a job of its own.
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
    """Return the output of a program; empty if it cannot be executed."""
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
