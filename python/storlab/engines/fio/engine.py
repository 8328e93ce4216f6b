"""fio as a reference engine: the tool that the field already trusts, on the same job.

The job file, the command line and everything fio prints are kept in ``raw/``. ``STORLAB_FIO``
names another fio than the one on PATH; ``STORLAB_FIO_HUGE_PAGES=0`` leaves its buffers in plain
pages, as fio has them by itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.engines.fio import job as fio_job
from storlab.engines.fio.run import KILL_AFTER_S, FioRun
from storlab.model.result import EngineInfo
from storlab.process.child import Launch
from storlab.workloads.block.job import BlockJob

OLDEST = (3, 33)
_INSTALL = (
    "install fio 3.33 or newer: `apt install fio` (Debian, Ubuntu), `dnf install fio` (Fedora, "
    "RHEL), `zypper install fio` (SUSE), `pacman -S fio` (Arch); or set STORLAB_FIO to its path"
)


class FioEngine:
    """Runs block jobs with fio, through io_uring where the kernel allows it."""

    name = "fio"
    kinds: tuple[str, ...] = ("block",)

    def describe(self) -> EngineInfo:
        """fio's version. Raises EngineError when fio is missing, broken or before 3.33."""
        return EngineInfo(name="fio", version=_version_of(find_fio()), clock="fio")

    def refuse(self, job: BlockJob) -> str | None:
        """Why fio cannot run this job as it stands, or None."""
        return fio_job.refusal(job, uring_available())

    def start(self, job: BlockJob, work_dir: Path) -> FioRun:
        """Start one run in ``work_dir``.

        Raises EngineError for a missing fio, a job that fio cannot run and a data file that is
        missing or short (fio would delete and remake it).
        """
        program = find_fio()
        reason = self.refuse(job)
        if reason is not None:
            raise EngineError("engine", f"fio cannot run this job: {reason}")
        _check_files(job)
        engine = fio_job.ioengine(job, uring_available())
        job_path = work_dir / "job.fio"
        extra = _extra_environment()
        job_path.write_text(fio_job.job_file(job, engine, huge_pages=bool(extra)))
        info = EngineInfo(
            name="fio",
            version=_version_of(program),
            backend=fio_job.BACKENDS[engine],
            features=[f"ioengine={engine}", *(["huge_pages"] if extra else [])],
            clock="fio",
        )
        launch = Launch(
            name="fio",
            command=fio_job.command(program, job_path, job),
            environment=extra,
            work_dir=work_dir,
            kill_after_s=KILL_AFTER_S,
            pass_fds=fio_job.held_fds(job),
            alone=True,
        )
        return FioRun(job, launch, info)


def _extra_environment() -> dict[str, str]:
    if os.environ.get("STORLAB_FIO_HUGE_PAGES") == "0":
        return {}
    given = os.environ.get("GLIBC_TUNABLES")
    tunables = fio_job.huge_page_tunables()
    return {"GLIBC_TUNABLES": f"{tunables}:{given}" if given else tunables}


def find_fio() -> Path:
    """The fio to run. Raises EngineError, with how to install it, when there is none."""
    asked = os.environ.get("STORLAB_FIO")
    found = shutil.which(asked or "fio")
    if found is None:
        where = f"STORLAB_FIO={asked}" if asked else "fio"
        raise EngineError(where, "is not an executable file" if asked else "is missing", _INSTALL)
    return Path(found)


def _version_of(program: Path) -> str:
    """``3.42-135`` from ``fio --version``. Raises EngineError for one too old or broken."""
    stamp = program.stat()
    return _ask_version(program, stamp.st_mtime_ns, stamp.st_size)


@cache
def _ask_version(program: Path, _modified_ns: int, _size: int) -> str:
    try:
        said = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(str(program), f"does not run: {error}", _INSTALL) from error
    text = said.stdout.strip()
    match = re.match(r"fio-((\d+)\.(\d+)\S*)", text)
    if match is None:
        raise EngineError(str(program), f"does not say its version but {text!r}", _INSTALL)
    if (int(match.group(2)), int(match.group(3))) < OLDEST:
        raise EngineError(str(program), f"is fio {match.group(1)}, which is too old", _INSTALL)
    return match.group(1)


@cache
def uring_available() -> bool:
    """Whether the kernel lets this process use io_uring."""
    from storlab._native import probe

    found: dict[str, dict[str, object]] = json.loads(probe())
    return bool(found["uring"]["available"])


def _check_files(job: BlockJob) -> None:
    for member, size in fio_job.short_files(job.members):
        what = "is missing" if size is None else f"has {size} bytes"
        raise EngineError(
            member.name,
            f"{what}, and the job needs {member.offset + member.size}",
            "lay out the data file first; fio would delete it and make a new one",
        )
