"""What the CUDA driver and libcufile find on this machine, asked in a child with a time-out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from storlab import _native
from storlab.base.units import NS_PER_S
from storlab.process.parent_death import start_child
from storlab.workloads.gpudirect import job

LIMIT_S = 20.0  # of the child; the first use of a GPU takes seconds
_OPEN_LIMIT_S = 10  # of cuFileDriverOpen in it
_LAST_LINES = 3
FAMILY = "gpudirect"
HANG_FIX = (
    "look whether /proc/modules is there (some containers hide it), and what cufile.log and dmesg "
    "say; path = bounce needs no cuFile"
)


@dataclass(frozen=True, slots=True)
class Libraries:
    """Places in which to look for them, in this order."""

    cuda: tuple[str, ...]
    cufile: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProbedGpu:
    """As the CUDA driver tells."""

    number: int
    name: str
    pci: str
    compute: str  # 9.0
    memory_bytes: int
    free_bytes: int

    @property
    def is_ampere_or_newer(self) -> bool:
        """Of compute capability 8.0 or more; also where it is not told."""
        major = self.compute.partition(".")[0]
        return not major.isdigit() or int(major) >= 8


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something cannot be had, and what to do."""

    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Probe:
    """All that was found; ``trouble`` is that of the whole."""

    gpus: tuple[ProbedGpu, ...] = ()
    cuda: Mapping[str, Any] = field(default_factory=dict)
    cufile: Mapping[str, Any] = field(default_factory=dict)
    abilities: Mapping[str, Any] = field(default_factory=dict)
    trouble: Trouble | None = None

    @property
    def cuda_trouble(self) -> Trouble | None:
        """Why no GPU can be used."""
        return self.trouble or _trouble(self.cuda)

    @property
    def cufile_trouble(self) -> Trouble | None:
        """Why cuFile cannot be used, beside that."""
        return self.trouble or _trouble(self.cufile)


class Probing(Protocol):
    """Asks the libraries."""

    def __call__(self, libraries: Libraries) -> Probe:
        """What they find. Never raises, and ends."""
        ...


def probe(libraries: Libraries) -> Probe:
    """Of this machine. One answer serves this process for as long as its environment is the same:
    the first use of a GPU takes seconds, and doctor asks for each target.
    """
    return _probe(libraries, frozenset(os.environ.items()))


@cache
def _probe(libraries: Libraries, environment: frozenset[tuple[str, str]]) -> Probe:
    del environment
    if FAMILY not in _native.family_names():
        return Probe(trouble=Trouble("this build of storlab has no GPU family", "build it anew"))
    places = job.Libraries(cuda=list(libraries.cuda), cufile=list(libraries.cufile))
    order = job.GpuDirectJob(do="probe", libraries=places)
    text = order.model_dump(mode="json") | {"open_timeout_ns": _OPEN_LIMIT_S * NS_PER_S}
    command = [sys.executable, "-m", "storlab.workloads.gpudirect.machine.probing"]
    return ask(command, json.dumps(text), LIMIT_S)


def ask(command: Sequence[str], order: str, limit_s: float) -> Probe:
    """Run a child with an order and the name of a file for its answer."""
    with tempfile.TemporaryDirectory(prefix="storlab-probe-") as name:
        directory = Path(name)
        answer, printed = directory / "answer.json", directory / "printed.txt"
        with printed.open("wb") as output:
            child = start_child(
                [*command, order, str(answer)],
                cwd=directory,  # where libcufile leaves its log
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            ended = _wait(child, limit_s)
        if not ended:
            what = f"no answer within {limit_s:.0f} s: cuFileDriverOpen can spin for ever"
            return Probe(trouble=Trouble(what, HANG_FIX))
        if not answer.exists():
            last = printed.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
            what = f"the probe ended with {child.returncode}: {' '.join(last) or 'it said nothing'}"
            return Probe(trouble=Trouble(what, "look at dmesg; a library may have crashed"))
        return read(json.loads(answer.read_text()))


def read(document: Mapping[str, Any]) -> Probe:
    """Of the answer of a probe job."""
    failure = document.get("failure")
    if failure:
        trouble = Trouble(str(failure.get("message")), str(failure.get("fix") or ""))
        return Probe(trouble=trouble)
    details = document.get("details") or {}
    libraries = details.get("libraries") or {}
    fields = ProbedGpu.__dataclass_fields__
    return Probe(
        gpus=tuple(
            ProbedGpu(**{key: value for key, value in gpu.items() if key in fields})
            for gpu in details.get("gpus") or ()
        ),
        cuda=libraries.get("cuda") or {},
        cufile=libraries.get("cufile") or {},
        abilities=details.get("p2p") or {},
    )


def _trouble(library: Mapping[str, Any]) -> Trouble | None:
    told = library.get("error")
    if not told:
        return None
    return Trouble(str(told.get("what", "")), str(told.get("fix") or ""))


def _wait(child: subprocess.Popen[Any], limit_s: float) -> bool:
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        with suppress(subprocess.TimeoutExpired):  # a driver may hold it in the kernel
            child.wait(limit_s)
        return False
    return True
