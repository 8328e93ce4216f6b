"""Probe the CUDA driver and libcufile in a child process with a time-out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from storlab import _native
from storlab.base.units import NS_PER_S
from storlab.contracts.details import DetailsTable
from storlab.model.result import Failure
from storlab.process.parent_death import start_child
from storlab.workloads.gpudirect import job
from storlab.workloads.gpudirect.details import (
    CuFileTold,
    DirectStorage,
    GpuDirectDetails,
    GpuReport,
    LibraryTold,
    Trouble,
)

LIMIT_S = 20.0  # time-out of the child; the first use of a GPU takes seconds
_OPEN_LIMIT_S = 10  # time-out of cuFileDriverOpen in the child
_LAST_LINES = 3
FAMILY = "gpudirect"
HANG_FIX = (
    "check whether /proc/modules exists (some containers hide it), and see cufile.log and dmesg; "
    "path = bounce needs no cuFile"
)


@dataclass(frozen=True, slots=True)
class Libraries:
    """Places to search for the CUDA driver and for cuFile, in order."""

    cuda: tuple[str, ...]
    cufile: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """GPUs and libraries that a probe found; ``trouble`` is set if the probe itself failed."""

    gpus: tuple[GpuReport, ...] = ()
    cuda: LibraryTold | None = None
    cufile: CuFileTold | None = None
    direct: DirectStorage | None = None  # None: not reported
    trouble: Trouble | None = None

    @property
    def cuda_trouble(self) -> Trouble | None:
        """Reason why no GPU can be used; None if one can."""
        return self.trouble or (None if self.cuda is None else self.cuda.error)

    @property
    def cufile_trouble(self) -> Trouble | None:
        """Reason why cuFile cannot be used; None if it can."""
        return self.trouble or (None if self.cufile is None else self.cufile.error)


class _Answer(DetailsTable):
    """Result that the child process writes to its file."""

    details: GpuDirectDetails | None = None
    failure: Failure | None = None


class Probing(Protocol):
    """Function that probes GPU libraries."""

    def __call__(self, libraries: Libraries) -> Probe:
        """Probe the libraries; never raise or hang."""
        ...


def probe(libraries: Libraries) -> Probe:
    """Probe the GPU libraries of this machine.

    The result is cached as long as environment variables do not change, because the first use of a
    GPU takes seconds and ``storlab doctor`` probes for each target.
    """
    return _probe(libraries, frozenset(os.environ.items()))


@cache
def _probe(libraries: Libraries, environment: frozenset[tuple[str, str]]) -> Probe:
    del environment
    if FAMILY not in _native.family_names():
        return Probe(
            trouble=Trouble(what="this build of storlab does not support GPUs", fix="rebuild it")
        )
    places = job.Libraries(cuda=list(libraries.cuda), cufile=list(libraries.cufile))
    order = job.GpuDirectJob(do="probe", libraries=places)
    text = order.model_dump(mode="json") | {"open_timeout_ns": _OPEN_LIMIT_S * NS_PER_S}
    command = [sys.executable, "-m", "storlab.workloads.gpudirect.machine.probing"]
    return ask(command, json.dumps(text), LIMIT_S)


def ask(command: Sequence[str], order: str, limit_s: float) -> Probe:
    """Run a child process that probes the libraries, and return the result from its file."""
    with tempfile.TemporaryDirectory(prefix="storlab-probe-") as name:
        directory = Path(name)
        answer, printed = directory / "answer.json", directory / "printed.txt"
        with printed.open("wb") as output:
            child = start_child(
                [*command, order, str(answer)],
                cwd=directory,  # libcufile writes its log there
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # so that Ctrl-C does not reach the child, which would print a traceback
                start_new_session=True,
            )
            ended = _wait(child, limit_s)
        if not ended:
            what = f"no answer within {limit_s:.0f} s: cuFileDriverOpen may not return"
            return Probe(trouble=Trouble(what=what, fix=HANG_FIX))
        if not answer.exists():
            last = printed.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
            what = f"the probe ended with {child.returncode}: {' '.join(last) or 'without output'}"
            return Probe(trouble=Trouble(what=what, fix="see dmesg, as a library may have crashed"))
        return read(json.loads(answer.read_text()))


def read(document: Mapping[str, Any]) -> Probe:
    """Convert the JSON of the child process to a record."""
    answer = _Answer.model_validate(document)
    if answer.failure is not None:
        failure = answer.failure
        return Probe(trouble=Trouble(what=failure.message, fix=failure.fix))
    details = answer.details or GpuDirectDetails()
    return Probe(details.gpus, details.libraries.cuda, details.libraries.cufile, details.p2p)


def _wait(child: subprocess.Popen[Any], limit_s: float) -> bool:
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        with suppress(subprocess.TimeoutExpired):  # a driver may block it in the kernel
            child.wait(limit_s)
        return False
    return True
