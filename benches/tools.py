"""Tools of the block bench: how each is run for a load, and how its output is read."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from programs import compiled


def best_flags(batch: int) -> tuple[str, ...]:
    """Return the fio flags that need the least CPU at this batch size."""
    return (
        "--registerfiles=1",
        "--fixedbufs=1",
        f"--iodepth_batch_submit={batch}",
        "--iodepth_batch_complete_min=1",
        f"--iodepth_batch_complete_max={batch}",
        "--norandommap",
    )


@dataclass(frozen=True)
class Load:
    """Load of every tool: one job; ``read_percent`` 100 or 0 is a pure load."""

    path: str  # "null:" does no I/O
    size: int  # bytes
    block: int = 4096
    read_percent: int = 100
    access: str = "random"  # or "sequential"
    direct: bool = False
    queue_depth: int = 64


@dataclass(frozen=True)
class Reading:
    """Result of one run of one tool. Latency is submission to completion; NaN if not reported.

    CPU time outside user mode is the kernel's, which no load generator can reduce.
    """

    iops: float
    cpu_us_per_io: float
    user_us_per_io: float
    latency_mean_us: float = float("nan")
    latency_p99_us: float = float("nan")


@dataclass(frozen=True)
class Tool:
    """A tool with its flags; ``run(load, seconds, cpu)`` returns one reading."""

    name: str
    run: Callable[[Load, float, int], Reading]


@dataclass(frozen=True)
class Cpu:
    """CPU time in seconds."""

    user_s: float
    system_s: float

    @property
    def both_s(self) -> float:
        """User plus system time."""
        return self.user_s + self.system_s

    def reading(self, operations: float, seconds: float) -> Reading:
        """Return a reading without latency, from the number of operations and their duration."""
        us_per_operation = 1e6 / operations
        return Reading(
            operations / seconds, self.both_s * us_per_operation, self.user_s * us_per_operation
        )


def pinned(command: list[str], cpu: int, tunables: str = "") -> tuple[str, Cpu]:
    """Run a command on one CPU; return its output and total CPU time."""
    kept = ["taskset", "--cpu-list", str(cpu), *command]
    environment = os.environ | ({"GLIBC_TUNABLES": tunables} if tunables else {})
    with subprocess.Popen(kept, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed with {process.returncode}:\n{output}")
    return output, Cpu(usage.ru_utime, usage.ru_stime)


def job_json(load: Load, seconds: float, batch: int, jobs: int = 1, cpu: int | None = None) -> str:
    """Return the load as a job of the native engine."""
    null = load.path == "null:"
    member = {"path": load.path, "name": load.path, "size": load.size}
    job = {
        "backend": "null" if null else "uring",
        "members": [member | {"kind": "null" if null else "file"}],
        "direct": load.direct,
        "jobs": jobs,
        "queue_depth": load.queue_depth,
        "batch": batch,
        "cpus": None if cpu is None else [cpu],
        "mix": {"read": load.read_percent, "write": 100 - load.read_percent},
        "block_sizes": [{"bytes": load.block}],
        "offsets": {"kind": "uniform" if load.access == "random" else "sequential"},
        "window_ns": round(seconds * 1e9),
    }
    from storlab.workloads.block.job import BlockJob

    return BlockJob.model_validate(job).model_dump_json()


def native(batch: int) -> Tool:
    """Return storlab's engine; histograms, one-second samples and unique payload are on."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        order = job_json(load, seconds, batch, cpu=cpu)
        script = str(Path(__file__).with_name("native_run.py"))
        outcome = json.loads(pinned([sys.executable, script, order], cpu)[0])["outcome"]
        if outcome["status"] != "finished":
            raise SystemExit(f"storlab failed: {outcome['failure']}")
        totals = [t for kind, t in outcome["totals"].items() if kind in ("read", "write")]
        totals = [total for total in totals if total["operations"]]
        latencies = [(total["operations"], total["latency"]["mean_ns"]) for total in totals]
        operations = sum(total["operations"] for total in totals)
        window_s = (outcome["window_end_ns"] - outcome["window_start_ns"]) / 1e9
        cpu_ns = outcome["cpu"]["user_ns"] + outcome["cpu"]["system_ns"]
        return Reading(
            iops=operations / window_s,
            cpu_us_per_io=cpu_ns / operations / 1e3,
            user_us_per_io=outcome["cpu"]["user_ns"] / operations / 1e3,
            latency_mean_us=_mean(latencies) / 1e3,
            latency_p99_us=max(t["latency"]["p99_ns"] for t in totals) / 1e3,
        )

    return Tool(f"storlab, batch {batch}", run)


def fio_path() -> str | None:
    """Return ``$FIO`` or fio from PATH."""
    return os.environ.get("FIO") or shutil.which("fio")


def fio(name: str, program: str, *flags: str, tunables: str = "") -> Tool:
    """Return fio with latency statistics (its default), further flags and glibc tunables."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        command = [program, *fio_arguments(load, seconds), *flags]
        output, process = pinned(command, cpu, tunables)
        job = fio_job(output)
        return read_fio(job, _whole_cpu(fio_cpu_s(job), process.both_s - startup_s(program, cpu)))

    return Tool(name, run)


def fio_arguments(load: Load, seconds: float) -> list[str]:
    """Return the load as fio options; fio never creates the file."""
    random = "rand" if load.access == "random" else ""
    kind = {100: "read", 0: "write"}.get(load.read_percent, "rw")
    null = load.path == "null:"
    return [
        "--name=bench",
        "--thread",
        "--output-format=json",
        f"--rw={random}{kind}",
        f"--rwmixread={load.read_percent}",
        f"--bs={load.block}",
        f"--iodepth={load.queue_depth}",
        f"--size={load.size}",
        "--time_based",
        f"--runtime={seconds:g}",
        f"--direct={int(load.direct)}",
        "--invalidate=0",
        "--lat_percentiles=1",
        *(["--ioengine=null"] if null else ["--ioengine=io_uring", f"--filename={load.path}"]),
        *([] if null else ["--allow_file_create=0"]),
    ]


def fio_job(output: str) -> dict[str, Any]:
    """Return the single job from fio's JSON, which may follow warnings."""
    start = re.search(r"^\{", output, re.MULTILINE)
    if start is None:
        raise SystemExit(f"fio printed no JSON:\n{output}")
    job: dict[str, Any] = json.loads(output[start.start() :])["jobs"][0]
    return job


def fio_cpu_s(job: dict[str, Any]) -> float:
    """Return the CPU time of fio's job thread in seconds."""
    return float((job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3)


@cache
def startup_s(program: str, cpu: int) -> float:
    """Return fio's CPU time outside the job: process time minus the job's time."""
    output, process = pinned([program, *fio_arguments(Load("null:", 1 << 20), 1)], cpu)
    return process.both_s - fio_cpu_s(fio_job(output))


def _whole_cpu(thread_s: float, process_s: float) -> float:
    """Return the process time if it is clearly larger.

    fio's thread time excludes the kernel's io_uring workers, which tmpfs uses.
    """
    return process_s if process_s > 1.05 * thread_s else thread_s


def read_fio(job: dict[str, Any], cpu_s: float) -> Reading:
    """Return rate and latency from fio's JSON, with the given CPU time."""
    sides = [job[kind] for kind in ("read", "write") if job[kind]["total_ios"]]
    operations = sum(side["total_ios"] for side in sides)
    latencies = [side["lat_ns"] for side in sides]
    return Reading(
        iops=sum(side["iops"] for side in sides),
        cpu_us_per_io=cpu_s * 1e6 / operations,
        user_us_per_io=job["usr_cpu"] / 100 * job["job_runtime"] * 1e3 / operations,
        latency_mean_us=_mean([(latency["N"], latency["mean"]) for latency in latencies]) / 1e3,
        latency_p99_us=max(latency["percentile"]["99.000000"] for latency in latencies) / 1e3,
    )


def t_io_uring(program: str, batch: int) -> Tool:
    """Return t/io_uring with its fastest flags: a lower bound of the CPU time per I/O."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        command = [
            program,
            f"-d{load.queue_depth}",
            f"-s{batch}",
            f"-c{batch}",
            "-p0",
            "-B1",
            "-F1",
        ]
        command += ["-X1"]
        command += [f"-b{load.block}", "-n1", "-R1", f"-O{int(load.direct)}"]
        command += [f"-r{max(2, round(seconds))}", f"-N{int(load.path == 'null:')}"]
        file = __file__ if load.path == "null:" else load.path
        output, used = pinned([*command, file], cpu)
        rates = [_si(rate) for rate in re.findall(r"^IOPS=([\d.]+[KM]?)", output, re.MULTILINE)]
        ran_s = max(2, round(seconds))
        return used.reading(sum(rates) / len(rates) * ran_s, ran_s)

    return Tool("t/io_uring", run)


def elbencho(program: str) -> Tool:
    """Return elbencho with libaio at the load's depth; pure reads or writes of a file only."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        command = [
            program,
            "--nolive",
            "--threads=1",
            f"--block={load.block}",
            f"--size={load.size}",
        ]
        command += [f"--iodepth={load.queue_depth}", f"--timelimit={max(1, round(seconds))}"]
        command += ["--rand", "--randamount=1t"] if load.access == "random" else ["--infloop"]
        command += ["--direct"] if load.direct else []
        command += ["--read"] if load.read_percent == 100 else ["--write"]
        with tempfile.TemporaryDirectory(prefix="storlab-bench-") as place:
            table = Path(place, "elbencho.csv")
            _, used = pinned([*command, f"--csvfile={table}", load.path], cpu)
            return read_elbencho(table.read_text().splitlines(), used)

    return Tool("elbencho", run)


def read_elbencho(table: Sequence[str], used: Cpu) -> Reading:
    """Return the reading of elbencho's CSV.

    elbencho checks its time limit only now and then, so the actual duration is used.
    """
    rows = [row for row in csv.DictReader(table) if row["operation"] in ("READ", "WRITE")]
    if len(rows) != 1:
        raise SystemExit(f"elbencho tells of {len(rows)} phases that read or write:\n{table}")
    ran_s = float(rows[0]["time ms [last]"]) / 1e3
    return used.reading(float(rows[0]["IOPS [last]"]) * ran_s, ran_s)


def bare(batch: int) -> Tool:
    """Return a bare io_uring loop that records nothing (``bare.c``): the kernel's own cost."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        words = [load.path, load.block, load.queue_depth, batch, seconds, load.size]
        switches = [load.read_percent == 100, load.access == "random", load.direct]
        program = compiled("bare", "-march=native")
        command = [program, *words, *(int(on) for on in switches)]
        output, used = pinned([str(word) for word in command], cpu)
        operations, ran_s = (float(word) for word in output.split())
        return used.reading(operations, ran_s)

    return Tool("bare probe", run)


def as_json(reading: Reading) -> dict[str, float | None]:
    """Return plain values; unreported ones are None."""
    return {name: None if value != value else value for name, value in asdict(reading).items()}


def _mean(weighted: list[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in weighted) / sum(weight for weight, _ in weighted)


def _si(text: str) -> float:
    factor = {"K": 1e3, "M": 1e6}.get(text[-1], 1.0)
    return float(text.rstrip("KM")) * factor
