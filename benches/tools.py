"""The tools side by side: how each is called for a load, and how its figures are read."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

BEST_FLAGS = (
    "--registerfiles=1",
    "--fixedbufs=1",
    "--iodepth_batch_submit=32",
    "--iodepth_batch_complete_min=1",
    "--iodepth_batch_complete_max=32",
    "--norandommap",
)


@dataclass(frozen=True)
class Load:
    """What every tool is asked to do. One job, depth 64; ``read_percent`` 100 or 0 is pure."""

    path: str  # "null:" does no I/O at all
    size: int  # bytes
    block: int = 4096
    read_percent: int = 100
    access: str = "random"  # or "sequential"
    direct: bool = False
    queue_depth: int = 64


@dataclass(frozen=True)
class Reading:
    """One run of one tool. Latency is from submission to completion; NaN where it is not told."""

    iops: float
    cpu_us_per_io: float
    latency_mean_us: float = float("nan")
    latency_p99_us: float = float("nan")


@dataclass(frozen=True)
class Tool:
    """A tool with its flags. ``run(load, seconds, cpu)`` gives one reading."""

    name: str
    run: Callable[[Load, float, int], Reading]


def pinned(command: list[str], cpu: int, tunables: str = "") -> tuple[str, float]:
    """Output of a command kept on one CPU, and its user + system time in seconds."""
    kept = ["taskset", "--cpu-list", str(cpu), *command]
    environment = os.environ | ({"GLIBC_TUNABLES": tunables} if tunables else {})
    with subprocess.Popen(kept, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed with {process.returncode}:\n{output}")
    return output, usage.ru_utime + usage.ru_stime


def job_json(load: Load, seconds: float, batch: int, jobs: int = 1, cpu: int | None = None) -> str:
    """The same load as an order for the native engine."""
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
    from storlab.model.job import BlockJob

    return BlockJob.model_validate(job).model_dump_json()


def native(batch: int) -> Tool:
    """storlab's engine: histograms, one-second samples and unique payload are always on."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        order = job_json(load, seconds, batch, cpu=cpu)
        ours = str(Path(__file__).with_name("ours.py"))
        outcome = json.loads(pinned([sys.executable, ours, order], cpu)[0])["outcome"]
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
            latency_mean_us=_mean(latencies) / 1e3,
            latency_p99_us=max(t["latency"]["p99_ns"] for t in totals) / 1e3,
        )

    return Tool(f"storlab, batch {batch}", run)


def fio_path() -> str | None:
    """``$FIO``, or fio on the PATH."""
    return os.environ.get("FIO") or shutil.which("fio")


def fio(name: str, program: str, *flags: str, tunables: str = "") -> Tool:
    """fio with latency statistics on (its default), these further flags, and settings of glibc."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        command = [program, *fio_arguments(load, seconds), *flags]
        output, process_s = pinned(command, cpu, tunables)
        job = fio_job(output)
        return read_fio(job, _whole_cpu(fio_cpu_s(job), process_s - startup_s(program, cpu)))

    return Tool(name, run)


def fio_arguments(load: Load, seconds: float) -> list[str]:
    """The load in fio's words. Nothing is ever created: the file is there, or it is a device."""
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
    """The one job in fio's JSON, which may follow warnings."""
    start = re.search(r"^\{", output, re.MULTILINE)
    if start is None:
        raise SystemExit(f"fio printed no JSON:\n{output}")
    job: dict[str, Any] = json.loads(output[start.start() :])["jobs"][0]
    return job


def fio_cpu_s(job: dict[str, Any]) -> float:
    """CPU of fio's own thread, in s."""
    return float((job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3)


@cache
def startup_s(program: str, cpu: int) -> float:
    """CPU that fio spends outside its job: what the process used, less what the job says."""
    output, process_s = pinned([program, *fio_arguments(Load("null:", 1 << 20), 1)], cpu)
    return process_s - fio_cpu_s(fio_job(output))


def _whole_cpu(thread_s: float, process_s: float) -> float:
    """fio's figure for its thread misses the kernel's io_uring workers, which tmpfs needs."""
    return process_s if process_s > 1.05 * thread_s else thread_s


def read_fio(job: dict[str, Any], cpu_s: float) -> Reading:
    """Rate and latency from fio's JSON, with the CPU time given."""
    sides = [job[kind] for kind in ("read", "write") if job[kind]["total_ios"]]
    operations = sum(side["total_ios"] for side in sides)
    latencies = [side["lat_ns"] for side in sides]
    return Reading(
        iops=sum(side["iops"] for side in sides),
        cpu_us_per_io=cpu_s * 1e6 / operations,
        latency_mean_us=_mean([(one["N"], one["mean"]) for one in latencies]) / 1e3,
        latency_p99_us=max(one["percentile"]["99.000000"] for one in latencies) / 1e3,
    )


def t_io_uring(program: str) -> Tool:
    """fio's t/io_uring with its best flags: no statistics, reads only, the floor for io_uring."""

    def run(load: Load, seconds: float, cpu: int) -> Reading:
        command = [program, f"-d{load.queue_depth}", "-s32", "-c32", "-p0", "-B1", "-F1", "-X1"]
        command += [f"-b{load.block}", "-n1", "-R1", f"-O{int(load.direct)}"]
        command += [f"-r{max(2, round(seconds))}", f"-N{int(load.path == 'null:')}"]
        file = __file__ if load.path == "null:" else load.path
        output, cpu_s = pinned([*command, file], cpu)
        rates = [_si(rate) for rate in re.findall(r"^IOPS=([\d.]+[KM]?)", output, re.MULTILINE)]
        iops = sum(rates) / len(rates)
        return Reading(iops=iops, cpu_us_per_io=cpu_s * 1e6 / (iops * max(2, round(seconds))))

    return Tool("t/io_uring", run)


def elbencho(program: str) -> Tool:
    """elbencho with libaio at the load's depth; reads and writes of a file only."""

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
        output, cpu_s = pinned([*command, load.path], cpu)
        found = re.search(r"^.*IOPS\s*:\s*\d+\s+(\d+)", output, re.MULTILINE)
        if found is None:
            raise SystemExit(f"elbencho printed no IOPS:\n{output}")
        iops = float(found.group(1))
        return Reading(iops=iops, cpu_us_per_io=cpu_s * 1e6 / (iops * seconds))

    return Tool("elbencho", run)


def as_json(reading: Reading) -> dict[str, float | None]:
    """Plain values; what a tool does not tell is null."""
    return {name: None if value != value else value for name, value in asdict(reading).items()}


def _mean(weighted: list[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in weighted) / sum(weight for weight, _ in weighted)


def _si(text: str) -> float:
    factor = {"K": 1e3, "M": 1e6}.get(text[-1], 1.0)
    return float(text.rstrip("KM")) * factor
