"""Compare training reads and checkpoints with fio (``make bench-fixed``).

The tools run in turns on one file system. Each round gives one ratio; the medians are printed with
the goals. fio transfers the same bytes at the same size and depth, with fixed buffers and files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from programs import compiled
from rich.console import Console
from rich.table import Table
from surroundings import workplace

from storlab import _native
from storlab.base.clock import monotonic_ns
from storlab.model.job import Job
from storlab.model.place import DataPlace
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from storlab.workloads.training.job import Records, TrainingJob

MIB = 1 << 20
SAMPLE = 146_600_628  # bytes of a unet3d sample
H100_STEP_MS = 323  # computation time of a batch of FED_BATCH samples
FED_BATCH = 7
FED_STEPS = 5  # steps per epoch at least, because utilisation excludes the first step
Reading = dict[str, float]


def main() -> int:
    options = arguments()
    with workplace(options.directory) as place:
        rows = [*checkpoints(place, options), *training(place, options)]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows)
    return int(any(row["met"] is False for row in rows))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog="FIO=path names the program.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every tool (5)")
    parser.add_argument("--directory", type=Path, default=Path(), help="on the disk (here)")
    parser.add_argument("--checkpoint-mib", type=int, default=2564, help="of one checkpoint (2564)")
    parser.add_argument("--files", type=int, default=70, help="of the training data (70)")
    parser.add_argument("--record-bytes", type=int, default=SAMPLE, help=f"of each ({SAMPLE})")
    parser.add_argument("--step-ms", type=int, default=H100_STEP_MS, help="of computation (323)")
    parser.add_argument("--small-files", type=int, default=2_000, help="of 128 KiB (2000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def native_outcome(job: Job) -> dict[str, Any]:
    """Return the outcome of one run of the native engine.

    Raises:
        RuntimeError: The run failed.
    """
    run = _native.Run(job.kind, job.model_dump_json())
    run.wait()
    outcome: dict[str, Any] = json.loads(run.outcome()[0])
    if outcome["status"] != "finished":
        raise RuntimeError(f"{job.kind}: {outcome['failure']}")
    return outcome


def fio(arguments: list[str], path: Path, size: int, flush: bool = False) -> Reading:
    """Return MB/s and CPU seconds per GB of one fio job over a file of ``size`` bytes."""
    program = os.environ.get("FIO") or shutil.which("fio") or "fio"
    command = [program, "--name=j", f"--filename={path}", f"--size={size}", "--output-format=json"]
    command += ["--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--registerfiles=1"]
    printed = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=True
    ).stdout
    job = json.loads(printed[printed.index("{") :])["jobs"][0]
    side = job["read"] if job["read"]["io_bytes"] else job["write"]
    seconds = job["job_runtime"] / 1000
    if flush:  # fsync here, because fio 3.42 fails to flush large files with fixed buffers
        begin = monotonic_ns()
        with path.open("rb+") as file:
            os.fsync(file)
        seconds += (monotonic_ns() - begin) / 1e9
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds
    return {"mb_s": side["io_bytes"] / seconds / 1e6, "cpu": cpu / side["io_bytes"] * 1e9}


def checkpoints(place: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare a checkpoint by one rank at 4 MiB and depth 8, flushed, and its direct restore."""
    size = options.checkpoint_mib * MIB
    home, home_of_small, beside = place / "checkpoints", place / "small-io", place / "fio.dat"
    home.mkdir()
    home_of_small.mkdir()
    job = CheckpointJob(
        place=DataPlace(directory=str(home)),
        files=[CheckpointFile(name="rank0.bin", rank=0, bytes=size)],
        ranks=1,
        writes=1,
        restores=1,
        keep_last=1,
    )
    flags = ["--bs=4M", "--iodepth=8"]

    def write() -> Reading:
        return _rate(native_outcome(job.model_copy(update={"restores": 0})), "writes", "durable_ns")

    def restore(verify: bool) -> Callable[[], Reading]:
        again = job.model_copy(update={"writes": 0, "verify": verify})
        return lambda: _rate(native_outcome(again), "restores", "end_ns")

    def fio_write() -> Reading:
        return fio([*flags, "--rw=write"], beside, size, flush=True)

    def fio_read() -> Reading:
        return fio([*flags, "--rw=read"], beside, size)

    small = ["--bs=64k", "--iodepth=32"]
    # In its own directory, because a restore refuses a checkpoint written by another order.
    elsewhere = DataPlace(directory=str(home_of_small))
    deep = job.model_copy(
        update={"place": elsewhere, "restores": 0, "io_bytes": 64 << 10, "queue_depth": 32}
    )

    def write_small() -> Reading:
        return _rate(native_outcome(deep), "writes", "durable_ns")

    def fio_small() -> Reading:
        return fio([*small, "--rw=write"], beside, size, flush=True)

    yield from _pair("checkpoint write + fsync", write, fio_write, options.rounds, 0.95, 0.06)
    name = "checkpoint write + fsync, 64 KiB, depth 32"
    yield from _pair(name, write_small, fio_small, options.rounds, 0.95)
    yield from _pair("restore", restore(verify=False), fio_read, options.rounds, 0.95, 0.06)
    yield from _pair("restore, every byte compared", restore(True), fio_read, options.rounds, None)
    shutil.rmtree(home)
    shutil.rmtree(home_of_small)
    beside.unlink(missing_ok=True)


def _rate(outcome: dict[str, Any], phase: str, end: str) -> Reading:
    (record,) = outcome["details"][phase]
    seconds = (record[end] - record["start_ns"]) / 1e9
    return {"mb_s": record["bytes"] / seconds / 1e6, "cpu": _cpu(outcome) / record["bytes"] * 1e9}


def _cpu(outcome: dict[str, Any]) -> float:
    return (outcome["cpu"]["user_ns"] + outcome["cpu"]["system_ns"]) / 1e9


def training(place: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure unet3d files: generation, direct and cached reads, and how many H100s they feed."""
    home = place / "training"
    home.mkdir()
    records = Records(format="npz", files=options.files, record_bytes=options.record_bytes)
    base = TrainingJob(
        place=DataPlace(directory=str(home)), records=records, reader_threads=1, epochs=2
    )
    size = options.files * options.record_bytes

    def make() -> Reading:
        shutil.rmtree(home)
        home.mkdir()
        return _moved(native_outcome(base.model_copy(update={"task": "generate"})), "write")

    def direct() -> Reading:
        return _moved(native_outcome(base), "read")

    def fio_write() -> Reading:
        beside = place / "fio.dat"
        beside.unlink(missing_ok=True)
        return fio(["--bs=1M", "--iodepth=16", "--rw=write"], beside, size, flush=True)

    def fio_read() -> Reading:
        return fio(["--bs=1M", "--iodepth=16", "--rw=read"], place / "fio.dat", size)

    yield from _pair("data set made", make, fio_write, min(3, options.rounds), 0.95)
    yield from _pair("training reads, direct", direct, fio_read, options.rounds, 0.97, 0.05)
    (place / "fio.dat").unlink(missing_ok=True)
    hot = base.model_copy(update={"place": DataPlace(directory=str(home), direct=False)})
    native_outcome(hot)
    for check, most in (("header", 0.15), ("crc", None)):
        job = hot.model_copy(update={"check": check, "epochs": 3})
        readings = [_moved(native_outcome(job), "read") for _ in range(options.rounds)]
        cpu = median(r["cpu"] for r in readings)
        yield _row(f"training reads, hot, {check}", readings, None, "CPU s/GB", cpu, most)
    for check, goal in (("header", 6), ("crc", 4)):
        yield _fed(hot, check, goal, options)
    shutil.rmtree(home)
    yield small_files(place / "small", options.rounds, options.small_files)


def _linked(job: TrainingJob, files: int) -> TrainingJob:
    """Extend the data set of a job to ``files`` files by hard links, which take no memory."""
    old, new = job.records, job.records.model_copy(update={"files": files, "folder": "linked"})
    home = Path(str(job.place.directory))
    shutil.rmtree(home / new.folder, ignore_errors=True)
    (home / new.folder).mkdir()
    present = sorted((home / old.folder).iterdir())
    digits = len(str(files))
    for number in range(files):
        name = f"{new.prefix}_{number:0{digits}}_of_{files}.{new.format}"
        (home / new.folder / name).hardlink_to(present[number % len(present)])
    return job.model_copy(update={"records": new})


def small_files(home: Path, rounds: int, files: int) -> dict[str, Any]:
    """Compare eight readers of cached 128 KiB files with a loop of open, read and close."""
    home.mkdir()
    records = Records(format="jpeg", files=files, record_bytes=128 << 10)
    job = TrainingJob(
        place=DataPlace(directory=str(home), direct=False),
        records=records,
        batch=32,
        reader_threads=8,
        epochs=6,
        check="header",
    )
    native_outcome(job.model_copy(update={"task": "generate"}))
    native_outcome(job.model_copy(update={"epochs": 1}))

    def bare() -> Reading:
        numbers = [records.record_bytes, job.reader_threads, job.epochs]
        command = [compiled("files", "-pthread"), str(home / records.folder), *map(str, numbers)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        moved, took_us, *cpu_us = (int(word) for word in printed.split())
        return {"mb_s": moved / took_us, "cpu": sum(cpu_us) / 1e6 / (moved / 1e9)}

    own, loops = [], []
    for _ in range(rounds):
        own.append(_moved(native_outcome(job), "read"))
        loops.append(bare())
    cpu = median(reading["cpu"] for reading in own)
    row = _row("eight readers, hot files of 128 KiB", own, loops, "CPU s/GB", cpu, 0.15)
    row["theirs"] += " (bare loop)"
    row["ratio"] = median(a["cpu"] / b["cpu"] for a, b in zip(own, loops, strict=True))
    return row


def _moved(outcome: dict[str, Any], operation: str) -> Reading:
    moved = outcome["totals"][operation]["bytes"]
    spans = outcome["spans"]
    seconds = sum(span["end_ns"] - span["start_ns"] for span in spans) / 1e9
    return {"mb_s": moved / seconds / 1e6, "cpu": _cpu(outcome) / moved * 1e9}


def _fed(hot: TrainingJob, check: str, goal: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the most emulated H100s at utilisation >= 90 %, with unet3d's batch and step time.

    The first step is excluded.
    """
    best, seen = 0, 0.0
    for accelerators in range(1, goal + 3):
        change = {"accelerators": accelerators, "computation_ns": options.step_ms * 1_000_000}
        change |= {"batch": FED_BATCH, "check": check, "epochs": 4, "reader_threads": 4}
        job = _linked(hot, FED_STEPS * FED_BATCH * accelerators).model_copy(update=change)
        values = [_au(native_outcome(job)) for _ in range(min(3, options.rounds))]
        if median(values) < 90:
            break
        best, seen = accelerators, median(values)
    name = f"emulated H100s at AU >= 90 %, hot, {check}"
    return {
        "name": name,
        "ours": f"{best} (AU {seen:.1f} %)",
        "theirs": "",
        "ratio": None,
        "goal": f">= {goal}",
        "met": best >= goal,
    }


def _au(outcome: dict[str, Any]) -> float:
    values = [
        (accelerator["compute_ns"] - accelerator["first_compute_ns"])
        / (accelerator["end_ns"] - accelerator["first_end_ns"])
        for epoch in outcome["details"]["epochs"]
        for accelerator in epoch["accelerators"]
    ]
    return 100 * sum(values) / len(values)


def _pair(
    name: str,
    native: Callable[[], Reading],
    peer: Callable[[], Reading],
    rounds: int,
    rate_goal: float | None,
    cpu_goal: float | None = None,
) -> Iterator[dict[str, Any]]:
    """Run both tools in turns, alternating which one is first."""
    pairs: list[tuple[Reading, Reading]] = []
    for turn in range(rounds):
        print(f"{name} {turn + 1}/{rounds}", file=sys.stderr)
        if turn % 2:
            other = peer()
            pairs.append((native(), other))
        else:
            own = native()
            pairs.append((own, peer()))
    ratio = median(a["mb_s"] / b["mb_s"] for a, b in pairs)
    own, other = [a for a, _ in pairs], [b for _, b in pairs]
    goal = "" if rate_goal is None else f">= {rate_goal:g} x fio"
    met = None if rate_goal is None else ratio >= rate_goal
    yield {
        "name": f"{name}: rate",
        "ours": f"{median(r['mb_s'] for r in own):,.0f} MB/s",
        "theirs": f"{median(r['mb_s'] for r in other):,.0f} MB/s",
        "ratio": round(ratio, 3),
        "goal": goal,
        "met": met,
    }
    cpu = median(r["cpu"] for r in own)
    yield _row(f"{name}: CPU", own, other, "CPU s/GB", cpu, cpu_goal)


def _row(
    name: str,
    own: list[Reading],
    other: list[Reading] | None,
    unit: str,
    value: float,
    most: float | None,
) -> dict[str, Any]:
    rate = median(r["mb_s"] for r in own)
    return {
        "name": name,
        "ours": f"{value:.3f} {unit} at {rate:,.0f} MB/s",
        "theirs": "" if other is None else f"{median(r['cpu'] for r in other):.3f} {unit}",
        "ratio": None,
        "goal": "" if most is None else f"<= {most:g} {unit}",
        "met": None if most is None else value <= most,
    }


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="training and checkpoints beside fio")
    for column in ("case", "storlab", "fio", "ratio", "goal", "met"):
        table.add_column(column)
    words = {True: "yes", False: "NO", None: ""}
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        table.add_row(
            row["name"], row["ours"], row["theirs"], ratio, row["goal"], words[row["met"]]
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
