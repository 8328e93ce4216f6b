"""Compare the block engine with fio, t/io_uring and elbencho (``make bench``).

The tools run in turns on one CPU. Each round gives one ratio; the medians are printed with the
goals, as "not measured" if a peer is not installed. storlab runs with histograms, one-second
samples and unique payload, fio with latency statistics. A bare probe of a hundred lines
(``bare.c``) shows the cost of the kernel alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from cases import Case, data_files, tools_for, verdict, warm
from cases import cases as all_cases
from native_run import run_job
from rich.console import Console
from rich.table import Table
from surroundings import machine
from tools import Load, Reading, as_json, fio_path, job_json

START_LIMIT_MS = 100.0
STOP_LIMIT_MS = 200.0


def main() -> int:
    options = arguments()
    with data_files(options.directory, options.memory, options.size_mib << 20) as files:
        chosen = [c for c in all_cases(*files, options.size_mib << 20) if _wanted(c.name, options)]
        results = [measure(case, options) for case in chosen]
        if _wanted("start-stop", options):
            results.append(start_stop(files[0], options))
    report = {"machine": tested(), "rounds": options.rounds, "cases": results}
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return int(any(goal["met"] is False for result in results for goal in result["goals"]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="FIO=path and T_IO_URING=path name the programs; elbencho is taken from PATH.",
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of every tool (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run (3)")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="to pin to")
    parser.add_argument("--size-mib", type=int, default=1024, help="of the data files (1024)")
    parser.add_argument("--directory", type=Path, default=Path(), help="on the disk (here)")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="on tmpfs (/dev/shm)")
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def _wanted(name: str, options: argparse.Namespace) -> bool:
    return not options.only or name in options.only.split(",")


def measure(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Run all tools of a case in turns, rotating and reversing their order.

    On a throttled disk a tool is slower right after a fast one, so none may always follow another.
    """
    tools = tools_for(case)
    readings: dict[str, list[Reading]] = {tool.name: [] for tool in tools}
    for turn in range(options.rounds):
        start = turn // 2 % len(tools)
        order = tools[start:] + tools[:start]
        for tool in order if turn % 2 == 0 else order[::-1]:
            if case.filesystem and not case.load.direct and case.load.read_percent == 100:
                warm(Path(case.load.path))
            print(f"{case.name} {turn + 1}/{options.rounds} {tool.name}", file=sys.stderr)
            readings[tool.name].append(tool.run(case.load, options.seconds, options.cpu))
    return {
        "case": case.name,
        "ours": case.native_tool.name,
        "readings": {name: [as_json(r) for r in some] for name, some in readings.items()},
        "medians": {name: as_json(_median(some)) for name, some in readings.items()},
        "goals": goals(case, readings),
    }


def _median(some: list[Reading]) -> Reading:
    names = Reading.__dataclass_fields__
    return Reading(**{name: median(getattr(reading, name) for reading in some) for name in names})


def goals(case: Case, readings: dict[str, list[Reading]]) -> list[dict[str, Any]]:
    """Return each goal with the median ratio of storlab to its peer, if the peer ran."""
    verdicts = []
    for goal in case.goals:
        text = f"{goal.quantity} {'>=' if goal.at_least else '<='} {goal.limit:.2f} x {goal.peer}"
        native, peer = readings[case.native_tool.name], readings.get(goal.peer)
        pairs = zip(native, peer, strict=True) if peer else ()
        values = [(getattr(a, goal.quantity), getattr(b, goal.quantity)) for a, b in pairs]
        # A short run may take less CPU time than the kernel's clock can resolve.
        ratios = [ours / theirs if theirs else math.inf for ours, theirs in values]
        verdicts.append(verdict(text, ratios, goal.met))
    return verdicts


def start_stop(file: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the time to open the window and from cancel to end, with 64 jobs at depth 64.

    The file is in the page cache.
    """
    warm(file)
    load = Load(str(file), options.size_mib << 20)
    order = job_json(load, 60, batch=1, jobs=64)
    runs = [run_job(order, cancel_after_s=1.0) for _ in range(options.rounds)]
    goals = []
    for name, limit in (("start", START_LIMIT_MS), ("stop", STOP_LIMIT_MS)):
        values = [run[f"{name}_ns"] / 1e6 for run in runs]
        text = f"64 jobs {name} within {limit:.0f} ms"
        goals.append(verdict(text, values, lambda value, limit=limit: value <= limit))
    return {"case": "start-stop", "ours": "storlab", "medians": {}, "goals": goals}


def tested() -> dict[str, Any]:
    """Return the machine and tool versions."""
    program = fio_path()
    version = "none"
    if program is not None:
        version = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
    return {**machine(), "fio": version}


def show(report: dict[str, Any]) -> None:
    """Print the table of readings and the table of goals."""
    console = Console()
    console.print(", ".join(f"{key} {value}" for key, value in report["machine"].items()))
    figures = Table(title=f"Medians of {report['rounds']} interleaved runs, one core")
    for column in ("case", "tool", "IOPS", "CPU us/IO", "user us/IO", "mean us", "p99 us"):
        figures.add_column(column, justify="left" if column in ("case", "tool") else "right")
    for result in report["cases"]:
        for tool, reading in result["medians"].items():
            figures.add_row(result["case"], tool, *_cells(reading))
        figures.add_section()
    console.print(figures)
    verdicts = Table(title="Goals: ours over theirs, median (lowest to highest)")
    for column in ("case", "goal", "value", "verdict"):
        verdicts.add_column(column)
    for result in report["cases"]:
        for goal in result["goals"]:
            verdicts.add_row(result["case"], goal["goal"], *judged(goal))
    console.print(verdicts)


def judged(goal: dict[str, Any]) -> tuple[str, str]:
    """Return a goal's measured ratio and verdict as text."""
    if goal["met"] is None:
        return "-", "not measured"
    spread = f"{goal['value']:.3g} ({goal['lowest']:.3g} to {goal['highest']:.3g})"
    return spread, "met" if goal["met"] else "MISSED"


def _cells(reading: dict[str, float | None]) -> list[str]:
    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return [
        cell(reading["iops"], ",.0f"),
        cell(reading["cpu_us_per_io"], ".3f"),
        cell(reading["user_us_per_io"], ".3f"),
        cell(reading["latency_mean_us"], ",.1f"),
        cell(reading["latency_p99_us"], ",.1f"),
    ]


if __name__ == "__main__":
    sys.exit(main())
