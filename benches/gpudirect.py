"""Measure loads into GPU memory (``make bench-gpudirect``).

Without a GPU, through the simulators of tests/simulators and from the page cache: the CPU time that
storlab's own code adds to one 4 KiB I/O, which is its total minus that of a bare loop of the same
calls (``gpudirect_bare.c``). For the overlapped bounce buffer, the bare loop reads by pread and
storlab by io_uring. Both hand work to the simulators' threads, whose CPU time is in both; a value
below 0 means that storlab wakes them less often.

With a GPU, on the real stack and files in ``--directory``, which should be on the drive under test:
the path taken; rate and CPU s/GB of each path; the overlapped bounce against the lower of fio's
O_DIRECT rate and the PCIe copy rate; the direct path against gdsio if installed. The tools run in
turns; medians are printed with the goals, and 1 is returned if a goal is missed.
``BENCH_ARGS="--gpu 0 --out DIR"`` adds the published study at small scale: doctor, runs with their
brief, and crosschecks against gdsio and fio if installed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from subprocess import CalledProcessError
from typing import Any

import gpudirect_tools as tools
from gpudirect_study import study_in_small
from gpudirect_tools import Load, Reading, Stack
from rich.console import Console
from rich.table import Table
from surroundings import machine

OWN_US_PER_IO = 1.5
OVERLAPPED_SHARE = 0.95  # least share of min(storage rate, PCIe rate)
NOISE = 1.02  # factor by which storlab may differ from gdsio
APIS = (("direct", "sync", 1), ("direct", "batch", 32), ("direct", "async", 4), ("host", "sync", 1))
PATHS = (*APIS, ("bounce", "sync", 1), ("bounce-overlapped", "sync", 2))
SIMULATED_SIZE = 64 << 20


@dataclass(frozen=True)
class Goal:
    """A value, its limit, and on which side of the limit it must be."""

    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the value is on the right side of the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def as_json(self) -> dict[str, Any]:
        """Return the goal as plain values."""
        side = "at_least" if self.at_least else "at_most"
        return {"goal": self.name, "value": self.value, side: self.limit, "met": self.met}


def main() -> int:
    options = arguments()
    report: dict[str, Any] = {"machine": machine(), "rounds": options.rounds}
    goals: list[Goal] = []
    if options.gpu is None:
        rows = report["simulated"] = own_code(options)
        goals += own_goals(rows)
    else:
        report["real"] = real(options)
        if options.out is not None:
            report["study"] = study_in_small(
                options.out, options.directory, Stack(),
                gpu=options.gpu, repeats=options.rounds, seconds=options.seconds,
            )  # fmt: skip
        goals += real_goals(report["real"])
    report["goals"] = [goal.as_json() for goal in goals]
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return int(not all(goal.met for goal in goals))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of every tool (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run (2)")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="to pin to")
    parser.add_argument("--gpu", type=int, help="its number: measure the real stack")
    parser.add_argument("--directory", type=Path, default=Path(), help="on the drive (here)")
    parser.add_argument("--out", type=Path, help="of a study in small, with its brief (not done)")
    parser.add_argument("--size-mib", type=int, default=4096, help="of each data file (4096)")
    parser.add_argument("--workers", type=int, default=8, help="with a file each (8)")
    parser.add_argument("--block-kib", type=int, default=1024, help="of one I/O (1024)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def own_code(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return CPU us per 4 KiB read by path and API: storlab, bare loop, and the difference."""
    stack = tools.simulated()
    rows = []
    with tools.data_files(options.directory, 1, SIMULATED_SIZE) as files:
        for path, api, depth in PATHS:
            size, cpu = SIMULATED_SIZE, options.cpu
            load = Load(path, api, 4096, depth, files, size, direct=False, cpu=cpu)
            turns = list(_turns(load, options, stack))
            rows.append(
                {
                    "path": path,
                    "api": api,
                    "depth": depth,
                    "ours_us": median(turn.native_us for turn in turns),
                    "bare_us": median(turn.bare_us for turn in turns),
                    "own_us": median(turn.native_us - turn.bare_us for turn in turns),
                    "own_user_us": median(turn.own_user_us for turn in turns),
                }
            )
    return rows


@dataclass(frozen=True)
class Turn:
    """CPU us per I/O: storlab, bare loop, and the difference in user mode."""

    native_us: float
    bare_us: float
    own_user_us: float


def _turns(load: Load, options: argparse.Namespace, stack: Stack) -> Iterator[Turn]:
    for _ in range(options.rounds):
        native = tools.native(load, options.seconds, stack)
        bare = tools.bare(load, options.seconds, stack)
        if None in (native.cpu_s, native.user_s):
            raise SystemExit("the engine told no CPU time")
        yield Turn(
            native_us=native.cpu_us_per_io or 0.0,
            bare_us=bare.cpu_us_per_io or 0.0,
            own_user_us=(native.user_us_per_io or 0.0) - (bare.user_us_per_io or 0.0),
        )


def own_goals(rows: list[dict[str, Any]]) -> list[Goal]:
    """Return the goal of each path."""
    name = "own CPU us per 4 KiB I/O"
    return [Goal(f"{r['path']} {r['api']}: {name}", r["own_us"], OWN_US_PER_IO) for r in rows]


def real(options: argparse.Namespace) -> dict[str, Any]:
    """Run every tool on the real stack in turns and return the medians."""
    size, block = options.size_mib << 20, options.block_kib << 10
    stack = Stack()
    readings_of: dict[str, list[Reading]] = {}
    failed: dict[str, str] = {}
    with tools.data_files(options.directory, options.workers, size) as files:
        load = Load("host", block=block, files=files, size=size, gpu=options.gpu)
        for _ in range(options.rounds):
            for name, run in runs(load, options.seconds, stack).items():
                try:
                    reading = run()
                except (tools.ToolError, CalledProcessError) as error:
                    failed[name] = str(error)
                    continue
                if reading is not None:
                    readings_of.setdefault(name, []).append(reading)
    told = readings_of["direct"][-1].details if "direct" in readings_of else {}
    return {
        "rows": {name: _row(readings) for name, readings in readings_of.items()},
        "failed": failed,
        "route": told.get("route"),
        "libraries": told.get("libraries"),
    }


def runs(load: Load, seconds: float, stack: Stack) -> dict[str, Callable[[], Reading | None]]:
    """Return the measurements by name."""
    deep = replace(load, path="bounce-overlapped", depth=2)
    direct = replace(load, path="direct")
    return {
        "fio O_DIRECT": lambda: tools.fio_direct(deep, seconds),
        "PCIe copies": lambda: tools.bare(deep, seconds, stack, "copy"),
        "host": lambda: tools.native(load, seconds, stack),
        "bounce": lambda: tools.native(replace(load, path="bounce"), seconds, stack),
        "bounce-overlapped": lambda: tools.native(deep, seconds, stack),
        "direct": lambda: tools.native(direct, seconds, stack),
        "gdsio direct": lambda: tools.gdsio(direct, max(1.0, seconds), stack),
    }


def _row(readings: list[Reading]) -> dict[str, float | None]:
    costs = [cost for r in readings if (cost := r.cpu_s_per_gb) is not None]
    return {
        "gb_s": median(r.bytes_s for r in readings) / 1e9,
        "cpu_s_per_gb": median(costs) if costs else None,
    }


def real_goals(report: dict[str, Any]) -> list[Goal]:
    """Return the goals of the overlapped bounce and, if gdsio ran, of the direct path."""
    rows = report["rows"]
    rate = {name: row["gb_s"] for name, row in rows.items()}
    limits = [rate[name] for name in ("fio O_DIRECT", "PCIe copies") if name in rate]
    share = rate.get("bounce-overlapped", 0.0) / min(limits) if limits else 0.0
    goals = [Goal("overlapped bounce over the smaller limit", share, OVERLAPPED_SHARE, True)]
    if "gdsio direct" in rows and "direct" in rows:
        direct, peer = rows["direct"], rows["gdsio direct"]
        goals.append(
            Goal("direct rate over gdsio's", direct["gb_s"] / peer["gb_s"], 1 / NOISE, True)
        )
        if direct["cpu_s_per_gb"] and peer["cpu_s_per_gb"]:
            cost = direct["cpu_s_per_gb"] / peer["cpu_s_per_gb"]
            goals.append(Goal("direct CPU over gdsio's", cost, NOISE))
    return goals


def show(report: dict[str, Any]) -> None:
    console = Console()
    console.print(report["machine"])
    if "simulated" in report:
        table = Table("path", "API", "depth", "ours us/IO", "bare loop", "own", "in user mode")
        for row in report["simulated"]:
            names = ("ours_us", "bare_us", "own_us", "own_user_us")
            figures = (f"{row[name]:.2f}" for name in names)
            table.add_row(row["path"], row["api"], str(row["depth"]), *figures)
        console.print(table)
    else:
        table = Table("tool or path", "GB/s", "CPU s/GB")
        for name, row in report["real"]["rows"].items():
            cost = row["cpu_s_per_gb"]
            table.add_row(name, f"{row['gb_s']:.3f}", "" if cost is None else f"{cost:.4f}")
        console.print(table)
        for name, why in report["real"]["failed"].items():
            console.print(f"{name} failed: {why}", style="red")
        console.print("the way of direct's bytes:", report["real"]["route"])
        console.print("libraries:", report["real"]["libraries"])
    for name, what in report.get("study", {}).items():
        console.print(f"study in small, {name}: {what}")
    for goal in report["goals"]:
        side = "at least" if "at_least" in goal else "at most"
        limit = goal.get("at_least", goal.get("at_most"))
        verdict = "met" if goal["met"] else "MISSED"
        console.print(f"{verdict}: {goal['goal']} {goal['value']:.3f}, {side} {limit:.3f}")


if __name__ == "__main__":
    raise SystemExit(main())
