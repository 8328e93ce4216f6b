"""Find the node on which storlab runs in a Slurm job, and the PMI plugin for srun."""

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
# PMI plugins of Slurm that each MPI library supports, by mpi4py's name of the library. A prefix
# suffices, because the names of PMIx plugins contain a version. Other libraries use Slurm's
# default.
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
    """Return this machine's node name in the current Slurm job, or None outside a job.

    Rank 0 must run on the same machine as storlab, because power meters use its clock. Slurm starts
    ranks only on nodes of the job.

    Raises:
        PreflightError: This machine is not a node of the job.
    """
    if "SLURM_JOB_ID" not in environ:
        return None
    here = environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    if here not in [line.name for line in from_slurm(environ)]:
        raise PreflightError(
            f"Slurm job {environ['SLURM_JOB_ID']}",
            f"storlab runs on {here}, which is not a node of this job",
            "start storlab on a node of the job: in a script for sbatch, or by "
            "`salloc ... srun --nodes=1 --ntasks=1 --overlap --pty storlab ...`",
        )
    return here


def plugin_for(srun: Path, environ: Mapping[str, str]) -> str | None:
    """Return the value of srun's ``--mpi`` for this Python's MPI library.

    With Slurm's built-in default ``none``, ranks would not find one another.

    Returns:
        Name of the plugin; None if the configured default or SLURM_MPI_TYPE can be used.
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
    """Return the output of a program, or an empty text if it fails to start or takes too long."""
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
