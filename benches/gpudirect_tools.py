"""Loads into GPU memory by storlab's engine, a bare loop of the same calls, and other tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import programs
from tools import fio_path, pinned

from storlab.base.errors import EngineError
from storlab.engines.gdsio.engine import GdsioEngine
from storlab.workloads.gpudirect.job import GpuDirectJob
from storlab.workloads.gpudirect.libraries import CUDA, cuda_places, cufile_places

HERE = Path(__file__).resolve().parent
KIND = GpuDirectJob.kind


class ToolError(Exception):
    """A tool failed; the message is its output."""


@dataclass(frozen=True)
class Stack:
    """Libraries that a load uses; None means the machine's own."""

    cuda: Path | None = None
    cufile: Path | None = None

    def places(self) -> dict[str, list[str]]:
        """Return the library paths as a job names them."""
        return {
            "cuda": cuda_places(None if self.cuda is None else str(self.cuda)),
            "cufile": cufile_places(None if self.cufile is None else str(self.cufile)),
        }


@dataclass(frozen=True)
class Load:
    """A load of random reads from equal files, one per worker."""

    path: str  # direct, bounce, bounce-overlapped, host
    api: str = "sync"
    block: int = 4096
    depth: int = 1
    files: tuple[str, ...] = ()
    size: int = 0  # of each file, in bytes
    direct: bool = True  # O_DIRECT
    gpu: int = 0
    cpu: int | None = None  # to pin to

    @property
    def bare(self) -> str:
        """Name of the path in the bare loop."""
        if self.path == "direct":
            return "cufile" if self.api == "sync" else self.api
        return "overlapped" if self.path == "bounce-overlapped" else self.path


@dataclass(frozen=True)
class Reading:
    """Result of one run of one tool; None for what the tool does not report."""

    operations: int
    seconds: float
    bytes: int
    cpu_s: float | None
    details: dict[str, Any]
    user_s: float | None = None  # the user-mode part of the CPU time

    @property
    def bytes_s(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds

    @property
    def cpu_us_per_io(self) -> float | None:
        """CPU time of one I/O in us."""
        return None if self.cpu_s is None else 1e6 * self.cpu_s / self.operations

    @property
    def user_us_per_io(self) -> float | None:
        """User-mode CPU time of one I/O in us."""
        return None if self.user_s is None else 1e6 * self.user_s / self.operations

    @property
    def cpu_s_per_gb(self) -> float | None:
        """CPU seconds per 10^9 bytes."""
        return None if self.cpu_s is None else 1e9 * self.cpu_s / self.bytes


def job(load: Load, seconds: float, stack: Stack) -> GpuDirectJob:
    """Return the load as an engine job."""
    members = [{"path": f, "name": f, "kind": "file", "size": load.size} for f in load.files]
    return GpuDirectJob.model_validate(
        {
            "members": members,
            "path": load.path,
            "api": load.api,
            "block_sizes": [{"bytes": load.block}],
            "workers": len(load.files),
            "queue_depth": load.depth,
            "gpus": [load.gpu],
            "direct": load.direct,
            "cpus": None if load.cpu is None else [load.cpu],
            "libraries": stack.places(),
            "window_ns": round(seconds * 1e9),
        }
    )


def native(load: Load, seconds: float, stack: Stack) -> Reading:
    """Run the load with storlab's engine, including histograms and samples."""
    command = [sys.executable, str(HERE / "native_run.py")]
    command += [job(load, seconds, stack).model_dump_json(), KIND]
    if load.cpu is None:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    else:
        output = pinned(command, load.cpu)[0]
    outcome = json.loads(output)["outcome"]
    if outcome["status"] != "finished":
        raise ToolError(f"storlab on {load.path}: {outcome['failure']}")
    totals = outcome["totals"]["read"]
    cpu = outcome["cpu"]
    return Reading(
        operations=totals["operations"],
        seconds=(outcome["window_end_ns"] - outcome["window_start_ns"]) / 1e9,
        bytes=totals["bytes"],
        cpu_s=None if cpu is None else (cpu["user_ns"] + cpu["system_ns"]) / 1e9,
        details=outcome.get("details") or {},
        user_s=None if cpu is None else cpu["user_ns"] / 1e9,
    )


def bare(load: Load, seconds: float, stack: Stack, what: str | None = None) -> Reading:
    """Run the same calls from one thread on the first file; ``what`` = "copy" only copies."""
    what = what or load.bare
    cufile = "-"
    if load.path == "direct":
        cufile = stack.places()["cufile"][0]
    words: list[object] = [
        programs.compiled("gpudirect_bare", "-ldl"),
        what,
        stack.cuda or CUDA,
        cufile,
        load.files[0],
    ]
    words += [load.block, load.depth, seconds, load.size, int(load.direct), load.gpu]
    command = [str(word) for word in words]
    if load.cpu is None:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    else:
        output = pinned(command, load.cpu)[0]
    operations, ran_s, user_s, system_s = (float(word) for word in output.split())
    moved = round(operations) * load.block
    return Reading(round(operations), ran_s, moved, user_s + system_s, {}, user_s)


def fio_direct(load: Load, seconds: float) -> Reading | None:
    """Return fio's O_DIRECT rate into host memory at the same depth, or None without fio."""
    program = fio_path()
    if program is None:
        return None
    command = [program, "--output-format=json", "--thread", "--group_reporting", "--rw=randread"]
    command += [f"--bs={load.block}", f"--size={load.size}", "--norandommap", "--time_based"]
    command += [f"--runtime={seconds:g}", f"--direct={int(load.direct)}", "--invalidate=0"]
    command += ["--ioengine=io_uring", f"--iodepth={load.depth}", "--allow_file_create=0"]
    for number, path in enumerate(load.files):
        command += [f"--name=file{number}", f"--filename={path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    read = job["read"]
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    return Reading(read["total_ios"], read["runtime"] / 1e3, read["io_bytes"], cpu_s, {})


def gdsio(load: Load, seconds: float, stack: Stack) -> Reading | None:
    """Run gdsio through its engine; None if it is missing or cannot run the load."""
    engine, order = GdsioEngine(), job(load, seconds, stack)
    try:
        engine.describe()
    except EngineError:
        return None
    if engine.refuse(order) is not None:
        return None
    with tempfile.TemporaryDirectory(prefix="storlab-bench-") as place:
        outcome = engine.start(order, Path(place)).wait()
    if outcome is None or outcome.failure is not None:
        raise ToolError(f"gdsio: {outcome and outcome.failure}")
    totals, cpu = outcome.totals["read"], outcome.cpu
    return Reading(
        operations=totals.operations,
        seconds=(outcome.window_end_ns - outcome.window_start_ns) / 1e9,
        bytes=totals.bytes,
        cpu_s=None if cpu is None else (cpu.user_ns + cpu.system_ns) / 1e9,
        details={},
    )


def remove_programs() -> None:
    """Remove the built programs before the process ends."""
    programs.remove()
    simulated.cache_clear()


@cache
def simulated() -> Stack:
    """Build the tests' GPU simulators, in which device memory is host memory."""
    place = Path(programs.place().name, "simulators")
    script = HERE.parent / "tests" / "simulators" / "gpu.sh"
    subprocess.run(["sh", str(script), str(place)], check=True)
    return Stack(place / "libcuda.so.1", place / "libcufile.so.0")


@contextmanager
def data_files(place: Path, count: int, size: int) -> Iterator[tuple[str, ...]]:
    """Provide files of incompressible data, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="storlab-bench-", dir=place.absolute()) as name:
        paths = [Path(name, f"data.{number}") for number in range(count)]
        for path in paths:
            _fill(path, size)
        os.sync()
        yield tuple(str(path) for path in paths)


def _fill(path: Path, size: int) -> None:
    with path.open("wb", buffering=0) as file:
        left = size
        while left:
            piece = os.urandom(min(left, 64 << 20))
            view = memoryview(piece)
            while view:
                view = view[file.write(view) :]
            left -= len(piece)
