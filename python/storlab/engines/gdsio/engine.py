"""gdsio engine: runs jobs with the benchmark that comes with GPUDirect Storage, as a reference.

The command line and the output are kept in ``raw/``. If gdsio is neither on PATH nor in the CUDA
toolkit, ``STORLAB_GDSIO`` names it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from storlab.base.errors import EngineError, Problem
from storlab.engines.gdsio import command as gdsio_command
from storlab.engines.gdsio.run import KILL_AFTER_S, GdsioRun
from storlab.model.job import Job
from storlab.model.result import EngineInfo
from storlab.process.child import GRACE_NS, Launch
from storlab.process.member_files import check_lengths
from storlab.process.program import ask_program, asked_once, executable, find_program
from storlab.workloads.gpudirect.job import GpuDirectJob

_INSTALL = (
    "install gds-tools from NVIDIA's CUDA repository (`apt install gds-tools-12-8` or `dnf install "
    "gds-tools-12-8`, with your CUDA version instead of 12-8), which puts gdsio into "
    "/usr/local/cuda/gds/tools; or set STORLAB_GDSIO to its path"
)
_PLACES = ("/usr/local/cuda/gds/tools", "/usr/libexec/gds/tools")
_ASK_S = 60  # generous timeout, since gdsio loads the CUDA libraries before it prints its help


class GdsioEngine:
    """Engine that runs GPUDirect jobs with NVIDIA's gdsio."""

    name = "gdsio"
    kinds: tuple[str, ...] = (GpuDirectJob.kind,)

    def describe(self) -> EngineInfo:
        """Return gdsio's version. Raises EngineError if gdsio is missing or another program."""
        return EngineInfo(name="gdsio", version=_version_of(find_gdsio()), clock="gdsio")

    def refuse(self, job: Job) -> str | None:
        """Return why gdsio cannot run this job, or None if it can."""
        if not isinstance(job, GpuDirectJob):
            return "gdsio runs GPUDirect jobs only"
        return gdsio_command.refusal(job)

    def problem(self, job: Job) -> Problem | None:
        """Return why gdsio cannot run this job, with the field of the study to change, or None."""
        return gdsio_command.problem(job) if isinstance(job, GpuDirectJob) else None

    def start(self, job: Job, work_dir: Path) -> GdsioRun:
        """Start a run in ``work_dir``, where links to the target's files are created.

        Raises:
            EngineError: gdsio is missing or cannot run the job, or a file is missing or short
                (gdsio would create or extend it).
        """
        program = find_gdsio()
        reason = self.refuse(job)
        if reason is not None or not isinstance(job, GpuDirectJob):
            raise EngineError("engine", f"gdsio cannot run this job: {reason}")
        check_lengths(gdsio_command.members_of(job), "gdsio would create or extend it")
        gdsio_command.make_links(job, work_dir)
        info = EngineInfo(
            name="gdsio",
            version=_version_of(program),
            backend=f"gdsio -x {gdsio_command.xfer_type(job)}",
            clock="gdsio",
        )
        launch = Launch(
            name="gdsio",
            command=gdsio_command.command(program, job, _unbuffered()),
            environment={},
            work_dir=work_dir,
            kill_after_s=KILL_AFTER_S,
            limit_ns=job.ramp_ns + (job.window_ns or 0) + job.drain_timeout_ns + GRACE_NS,
        )
        return GdsioRun(job, launch, info)


def _unbuffered() -> tuple[str, ...]:
    """Return a command prefix that makes gdsio flush every line, if stdbuf is installed."""
    program = shutil.which("stdbuf")
    return () if program is None else (program, "-oL")


def find_gdsio() -> Path:
    """Return the path of the gdsio program. Raises EngineError if it is missing."""
    if "STORLAB_GDSIO" not in os.environ and shutil.which("gdsio") is None:
        home = os.environ.get("CUDA_HOME")
        places = [f"{home}/gds/tools"] if home else []
        program = executable("gdsio", os.pathsep.join([*places, *_PLACES]))
        if program is not None:
            return program
    return find_program("gdsio", _INSTALL)


@asked_once
def _version_of(program: Path) -> str:
    """Return gdsio's version, such as ``1.12``, from its help text.

    Raises:
        EngineError: The program is broken or is not gdsio.
    """
    done = ask_program([str(program), "-h"], _INSTALL, _ASK_S)
    printed = f"{done.stdout}\n{done.stderr}".strip()
    match = re.search(r"gdsio version\s*:\s*(\S+)", printed)
    if match is None:
        what = f"printed {printed[:120]!r} instead of a version"
        raise EngineError(str(program), what, _INSTALL)
    return match.group(1)
