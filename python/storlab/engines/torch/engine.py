"""PyTorch engine: runs training reads and checkpoints with PyTorch's own I/O.

Training reads go through a real DataLoader, checkpoints through ``torch.save`` (engine ``torch``)
or ``torch.distributed.checkpoint`` (engine ``torch_dcp``). They run in a child process, so storlab
itself never imports PyTorch. ``STORLAB_TORCH_PYTHON`` names the Python of the child process; by
default it is storlab's own.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from storlab.base.errors import EngineError
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.engines.torch.run import TorchRun
from storlab.model.job import Job
from storlab.model.result import EngineInfo
from storlab.process.child import GRACE_NS, Launch
from storlab.process.host_memory import host_memory_bytes, host_memory_text
from storlab.process.program import executable, probe_python
from storlab.workloads.checkpoint.job import CheckpointJob
from storlab.workloads.training.job import TrainingJob

_INSTALL = (
    "`pip install 'storlab[torch]'`, or set STORLAB_TORCH_PYTHON to a Python that has torch 2.4 "
    "or newer and numpy"
)
_OLDEST = (2, 4)
_HOME = Path(__file__).resolve().parents[2]  # directory of the package storlab
_MEMORY_SHARE = 0.8  # share of this host's memory that all ranks' tensors may use
_SLOWEST_BYTES_S = 5_000_000  # slowest plausible speed: a run that takes longer counts as hung

# Create storlab's packages without running their __init__.py, which imports modules that the other
# Python may lack.
BOOT = """
import sys, types
home, order = sys.argv[1:]
parts = ("base", "engines", "engines.torch", "process")
for name in ("storlab", *(f"storlab.{part}" for part in parts)):
    package = types.ModuleType(name)
    package.__path__ = ["/".join([home, *name.split(".")[1:]])]
    sys.modules[name] = package
from storlab.engines.torch.child import main
sys.exit(main(order))
"""
_PROBE = """
import importlib.metadata as m, json, platform
found = {"python": platform.python_version()}
for name in ("torch", "numpy"):
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


class TorchEngine:
    """Engine that runs training jobs with DataLoader and checkpoint jobs with ``torch.save``."""

    name = "torch"
    kinds: tuple[str, ...] = ("training", "checkpoint")
    format = "save"

    def describe(self) -> EngineInfo:
        """Return the versions of PyTorch, NumPy and Python.

        Raises:
            EngineError: PyTorch is missing or too old; the fix says how to install it.
        """
        versions = _ask(_python())
        features = [f"numpy {versions['numpy']}", f"Python {versions['python']}"]
        return EngineInfo(
            name=self.name, version=versions["torch"], features=features, clock="monotonic"
        )

    def refuse(self, job: Job) -> str | None:
        """Return why PyTorch cannot run this job, or None if it can."""
        if not isinstance(job, (TrainingJob, CheckpointJob)) or job.kind not in self.kinds:
            return f"{self.name} runs {' and '.join(self.kinds)} jobs only"
        if job.task != "run":
            return f'its task is "{job.task}", which only the native engine does'
        if job.place.directory is None:
            return "PyTorch cannot use data in a bucket: use a directory, or engine native"
        return _refuse_checkpoint(job, self.format) if isinstance(job, CheckpointJob) else None

    def start(self, job: Job, work_dir: Path) -> TorchRun:
        """Start a run in ``work_dir``.

        Raises:
            EngineError: PyTorch is missing or cannot run this job.
        """
        info = self.describe()
        reason = self.refuse(job)
        if reason is not None or not isinstance(job, (TrainingJob, CheckpointJob)):
            raise EngineError("engine", f"{self.name} cannot run this job: {reason}")
        work_dir = work_dir.absolute()
        order = work_dir / "order.json"
        fields = {"kind": job.kind, "format": self.format, "job": job.model_dump(mode="json")}
        order.write_text(json.dumps(fields, indent=2) + "\n")
        training = isinstance(job, TrainingJob)
        backend = "DataLoader" if training else _WRITERS[self.format]
        launch = Launch(
            name="PyTorch",
            command=[_python(), "-c", BOOT, str(_HOME), str(order)],
            environment={"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
            work_dir=work_dir,
            limit_ns=_limit_ns(job),
        )
        notes = _training_notes(job) if isinstance(job, TrainingJob) else _checkpoint_notes(job)
        return TorchRun(job, launch, info.model_copy(update={"backend": backend}), notes)


_WRITERS = {"save": "torch.save", "dcp": "torch.distributed.checkpoint"}


def _refuse_checkpoint(job: CheckpointJob, kind: str) -> str | None:
    if job.format != "raw":
        return 'PyTorch writes its own format: set layout = "profile", or use native'
    if len({file.name for file in job.files}) < len(job.files):
        return "two files of the checkpoint have the same name: rename one in the profile"
    if job.restores and not job.writes:
        return "PyTorch restores only checkpoints of the same run: set writes to at least 1"
    if all(file.bytes == 0 for file in job.files):
        return "all files of the checkpoint are empty: correct the profile"
    needed = _memory_bytes(job, kind)
    if needed > _MEMORY_SHARE * host_memory_bytes():
        return (
            f"PyTorch holds the checkpoint in memory and needs {format_bytes_si(needed)}, too much "
            f"of the {host_memory_text()}; set a smaller scale or subset, or use native"
        )
    return None


def _memory_bytes(job: CheckpointJob, kind: str) -> int:
    """Return the peak memory of all ranks in bytes: their tensors and the data being restored."""
    total = sum(file.bytes for file in job.files)
    if not job.restores:
        return total
    if kind == "dcp":
        return 2 * total
    largest: dict[int, int] = {}
    for file in job.files:
        largest[file.rank] = max(largest.get(file.rank, 0), file.bytes)
    return total + sum(largest.values())


def _limit_ns(job: TrainingJob | CheckpointJob) -> int:
    if isinstance(job, TrainingJob):
        records = job.records
        samples = records.files * records.samples_per_file
        moved = job.epochs * samples * records.record_bytes
        waited_ns = job.epochs * (samples // job.batch + 1) * job.computation_ns * 3
    else:
        moved = (job.writes + job.restores) * sum(file.bytes for file in job.files)
        waited_ns = job.writes * job.pause_ns
    return moved * NS_PER_S // _SLOWEST_BYTES_S + waited_ns + GRACE_NS


def _training_notes(job: TrainingJob) -> list[str]:
    """Return notes on how DataLoader differs from the native engine."""
    notes = [
        "PyTorch: loader workers are processes, which pass batches through shared memory; the "
        "first step of the first epoch includes their start",
    ]
    if job.records.format == "npz":
        notes.append("PyTorch: numpy.load always verifies the checksums of NPZ files")
    elif job.check == "crc":
        notes.append("PyTorch: checksums of this format are not verified")
    if job.place.direct:
        notes.append("PyTorch: files are read with O_DIRECT into a buffer and parsed there")
    if job.shuffle != "none":
        notes.append(
            "PyTorch: files are shuffled as in the native engine, but into a different order"
        )
    return notes


def _checkpoint_notes(job: CheckpointJob) -> list[str]:
    """Return notes on how PyTorch's checkpoints differ from the native engine's."""
    total = format_bytes_si(sum(file.bytes for file in job.files))
    notes = [f"PyTorch: {job.ranks} ranks hold the whole checkpoint in memory, {total}"]
    if job.place.direct:
        notes.append("PyTorch: files are written and read through the page cache, and flushed")
    if job.restores and job.cold == "direct":
        notes.append("PyTorch: the files are dropped from the page cache before a restore")
    if job.restores and job.verify:
        notes.append("PyTorch: the time of a restore includes the comparison of the tensors")
    return notes


def _python() -> str:
    """Return the path of the Python to use. Raises EngineError if it is not executable."""
    asked = os.environ.get("STORLAB_TORCH_PYTHON")
    if not asked:
        return sys.executable
    program = executable(asked)
    if program is None:
        where = f"STORLAB_TORCH_PYTHON={asked}"
        raise EngineError(where, "is not an executable file", _INSTALL)
    return str(program)


@cache
def _ask(python: str) -> dict[str, Any]:
    """Return the versions of Python, PyTorch and NumPy in the given Python.

    Raises:
        EngineError: PyTorch or NumPy is missing, or PyTorch is too old.
    """
    answer = probe_python(python, _PROBE, _INSTALL)
    for name in ("torch", "numpy"):
        if answer[name] is None:
            raise EngineError("PyTorch", f"{python} has no package {name}", _INSTALL)
    version = tuple(int(part) for part in answer["torch"].split(".")[:2] if part.isdigit())
    if version < _OLDEST:
        what = f"of {python} is version {answer['torch']}, which is too old"
        raise EngineError("PyTorch", what, _INSTALL)
    return answer
