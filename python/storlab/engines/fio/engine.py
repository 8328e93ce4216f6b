"""fio engine: runs jobs with fio, the established block benchmark, as a reference.

The job file, the command line and fio's output are kept in ``raw/``. If fio is not on PATH,
``STORLAB_FIO`` names it. ``STORLAB_FIO_HUGE_PAGES=0`` leaves fio's buffers in normal pages, which
is fio's own default.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.engines.fio import job as fio_job
from storlab.engines.fio import libcufile
from storlab.engines.fio.gate import Gate
from storlab.engines.fio.run import KILL_AFTER_S, FioRun
from storlab.model.job import Job, NamedJob
from storlab.model.result import EngineInfo
from storlab.process.child import Launch
from storlab.process.member_files import check_lengths
from storlab.process.program import ask_program, asked_once, find_program
from storlab.workloads.block.job import BlockJob, GroupedBlockJob
from storlab.workloads.gpudirect.job import GpuDirectJob

OLDEST = (3, 33)
_INSTALL = (
    "install fio 3.33 or newer: `apt install fio` (Debian, Ubuntu), `dnf install fio` (Fedora, "
    "RHEL), `zypper install fio` (SUSE), `pacman -S fio` (Arch); or set STORLAB_FIO to its path"
)


class FioEngine:
    """Engine that runs block jobs with fio, through io_uring if the kernel permits it.

    It also runs GPUDirect jobs, if fio was built with its I/O engine libcufile.
    """

    name = "fio"
    kinds: tuple[str, ...] = (BlockJob.kind, GpuDirectJob.kind)

    def describe(self) -> EngineInfo:
        """Return fio's version. Raises EngineError if fio is missing, broken or older than 3.33."""
        return EngineInfo(name="fio", version=_version_of(find_fio()), clock="fio")

    def refuse(self, job: Job) -> str | None:
        """Return why fio cannot run this job, or None if it can."""
        if isinstance(job, GpuDirectJob):
            reason = libcufile.refusal(job)
            return reason or (None if libcufile.available(find_fio()) else libcufile.MISSING)
        if isinstance(job, GroupedBlockJob):
            return fio_job.grouped_refusal(job, uring_available())
        if not isinstance(job, BlockJob):
            return "fio runs only block I/O and transfers to GPU memory"
        return fio_job.refusal(job, uring_available())

    def start(self, job: Job, work_dir: Path) -> FioRun:
        """Start a run in ``work_dir``.

        Raises:
            EngineError: fio is missing or cannot run the job, or a data file is missing or short
                (fio would delete and recreate it).
        """
        return self._begin(job, work_dir, held=False)

    def hold(self, job: Job, work_dir: Path) -> FioRun:
        """Start fio like ``start``, but send no I/O until ``FioRun.open_at`` is called.

        Implements ``contracts.engine.HoldsRuns``.
        """
        return self._begin(job, work_dir, held=True)

    def _begin(self, job: Job, work_dir: Path, *, held: bool) -> FioRun:
        program = find_fio()
        reason = self.refuse(job)
        if reason is not None:
            raise EngineError("engine", f"fio cannot run this job: {reason}")
        order = _order(job, held=held)
        check_lengths(order.block.members, "fio would delete and recreate it")
        job_path = work_dir / "job.fio"
        job_path.write_text(order.text)
        info = EngineInfo(
            name="fio",
            version=_version_of(program),
            backend=order.backend,
            features=order.features,
            clock="fio",
        )
        launch = Launch(
            name="fio",
            command=fio_job.command(program, job_path, order.block),
            environment=order.environment,
            work_dir=work_dir,
            kill_after_s=KILL_AFTER_S,
            alone=True,
        )
        gate = Gate(work_dir, order.block.jobs) if held else None
        try:
            return FioRun(order.block, launch, info, order.caveats, gate, order.groups)
        except BaseException:
            if gate is not None:
                gate.close()
            raise


@dataclass(frozen=True, slots=True)
class _Order:
    """Translation of a job for fio: job file, environment variables, and notes for the result."""

    block: BlockJob
    text: str
    backend: str
    features: list[str]
    environment: dict[str, str]
    caveats: list[str]
    groups: Sequence[NamedJob[BlockJob]] = ()


def _order(job: Job, *, held: bool) -> _Order:
    """Translate a job for fio; ``FioEngine.refuse`` must have accepted it."""
    if isinstance(job, GpuDirectJob):
        return _Order(
            block=libcufile.as_block(job),
            text=libcufile.job_file(job, held=held),
            backend=libcufile.BACKEND,
            features=["ioengine=libcufile", f"cuda_io={libcufile.CUDA_IO[job.path]}"],
            environment={},
            caveats=libcufile.caveats(job),
        )
    extra = _extra_environment()
    groups: Sequence[NamedJob[BlockJob]] = ()
    if isinstance(job, GroupedBlockJob):
        block, groups = fio_job.together(job), job.groups
        engine = fio_job.ioengine(block, uring_available())
        text = fio_job.grouped_job_file(job, engine, huge_pages=bool(extra), held=held)
        caveats = fio_job.grouped_caveats(job)
    elif isinstance(job, BlockJob):
        block, engine = job, fio_job.ioengine(job, uring_available())
        text = fio_job.job_file(job, engine, huge_pages=bool(extra), held=held)
        caveats = fio_job.caveats(job)
    else:
        raise TypeError(f"fio cannot run jobs of {job.kind}")
    return _Order(
        block=block,
        text=text,
        backend=fio_job.BACKENDS[engine],
        features=[f"ioengine={engine}", *(["huge_pages"] if extra else [])],
        environment=extra,
        caveats=caveats,
        groups=groups,
    )


def _extra_environment() -> dict[str, str]:
    if os.environ.get("STORLAB_FIO_HUGE_PAGES") == "0":
        return {}
    given = os.environ.get("GLIBC_TUNABLES")
    tunables = fio_job.huge_page_tunables()
    return {"GLIBC_TUNABLES": f"{tunables}:{given}" if given else tunables}


def find_fio() -> Path:
    """Return the path of the fio program. Raises EngineError if it is missing."""
    return find_program("fio", _INSTALL)


@asked_once
def _version_of(program: Path) -> str:
    """Return fio's version, such as ``3.42-135``, from ``fio --version``.

    Raises:
        EngineError: The program is too old, broken or not fio.
    """
    printed = ask_program([str(program), "--version"], _INSTALL).stdout.strip()
    match = re.match(r"fio-((\d+)\.(\d+)\S*)", printed)
    if match is None:
        raise EngineError(str(program), f"printed {printed!r} instead of a version", _INSTALL)
    if (int(match.group(2)), int(match.group(3))) < OLDEST:
        raise EngineError(str(program), f"is fio {match.group(1)}, which is too old", _INSTALL)
    return match.group(1)


@cache
def uring_available() -> bool:
    """Return whether the kernel lets this process use io_uring."""
    from storlab._native import probe

    probed: dict[str, dict[str, object]] = json.loads(probe())
    return bool(probed["uring"]["available"])
