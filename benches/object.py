"""Compare the object engine with warp and bare loops (``make bench-object``).

The clients run in turns on one store, versitygw on loopback. Each round gives one ratio; the
medians are printed with the goals, as "not measured" if a peer is not installed. CPU is that of the
client. storlab runs with histograms, samples, time to first byte and error accounting, warp with
its record of every request.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from cases import Goal, verdict
from object_tools import (
    Load,
    Place,
    Reading,
    Tool,
    bare,
    embedded,
    engine,
    fill,
    versitygw,
    versitygw_path,
    warp_path,
)
from rich.console import Console
from rich.table import Table
from surroundings import machine

MIB = 1 << 20
NATIVE, WARP, BARE = "storlab", "warp", "bare loop"
BARE_LARGE = "bare loop, 8 MiB"  # sends from as much memory as storlab, not from the CPU cache
GB, SMALL = "cpu_s_per_gb", "cpu_s_per_1000"
SERVER = "server_s_per_gb"


@dataclass(frozen=True)
class Case:
    """A load, the goals against peers, and the limit on storlab's own server."""

    name: str
    load: Load
    goals: tuple[Goal, ...] = ()
    server: str = "versitygw"
    server_goal: float | None = None  # CPU s/GB of storlab's own server


CASES = [
    Case("get-4m", Load("get", 4 * MIB), (Goal(WARP, GB, 0.50), Goal(BARE, GB, 1.25))),
    Case("get-64k", Load("get", 64 << 10, 256)),
    Case("get-4k", Load("get", 4 << 10, 256), (Goal(WARP, SMALL, 0.18),)),
    Case("put-4m", Load("put", 4 * MIB), (Goal(WARP, GB, 0.50), Goal(BARE, GB, 1.25))),
    Case("put-4k", Load("put", 4 << 10), (Goal(WARP, SMALL, 0.18),)),
    Case("mixed-4m", Load("mixed", 4 * MIB), (Goal(WARP, GB, 0.50),)),
    Case("tls-get-4m", Load("get", 4 * MIB), (Goal(WARP, GB, 0.60),), server="versitygw, TLS"),
    Case("tls-put-4m", Load("put", 4 * MIB), server="versitygw, TLS"),
    Case("own-get-4m", Load("get", 4 * MIB), server="embedded", server_goal=0.40),
    Case("own-put-4m", Load("put", 4 * MIB), server="embedded", server_goal=1.00),
]


def main() -> int:
    options = arguments()
    if options.warp:
        os.environ["STORLAB_WARP"] = options.warp
    chosen = [case for case in CASES if not options.only or case.name in options.only.split(",")]
    results = []
    with ExitStack() as stack:
        places: dict[str, Place] = {}
        for case in chosen:
            if case.server not in places:
                places[case.server] = stack.enter_context(serving(case.server, options.directory))
            results.append(measure(case, places[case.server], options))
    report = {"machine": tested(options), "rounds": options.rounds, "cases": results}
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return int(any(goal["met"] is False for result in results for goal in result["goals"]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="WARP=path and VERSITYGW=path name the programs; else they are taken from PATH.",
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of every client (5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one window (4)")
    parser.add_argument("--directory", type=Path, default=Path(), help="of the store (here)")
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(warp=warp_path())
    return parser.parse_args()


def serving(server: str, directory: Path) -> AbstractContextManager[Place]:
    """Return the store of a case."""
    if server == "embedded":
        return embedded(directory)
    return versitygw(directory, tls=server.endswith("TLS"))


def clients(case: Case, options: argparse.Namespace) -> list[Tool]:
    """Return storlab, then the installed peers that can run the load."""
    engines = [engine("native", NATIVE)]
    if case.server != "embedded":
        engines += [engine("warp", WARP)] if options.warp else []
    if case.server == "versitygw" and case.load.operation != "mixed":
        engines += [bare(BARE, 256 << 10)]
        engines += [bare(BARE_LARGE, 8 * MIB)] if case.load.operation == "put" else []
    return engines


def measure(case: Case, place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Run all clients in turns, rotating and reversing their order."""
    tools = clients(case, options)
    readings: dict[str, list[Reading]] = {tool.name: [] for tool in tools}
    fill(case.load, place)
    for turn in range(options.rounds):
        start = turn // 2 % len(tools)
        order = tools[start:] + tools[:start]
        for tool in order if turn % 2 == 0 else order[::-1]:
            print(f"{case.name} {turn + 1}/{options.rounds} {tool.name}", file=sys.stderr)
            readings[tool.name].append(tool.run(case.load, place, options.seconds))
    return {
        "case": case.name,
        "readings": {name: [asdict(r) for r in some] for name, some in readings.items()},
        "medians": {name: medians(some) for name, some in readings.items()},
        "goals": [*goals(case, readings), *server_goals(case, readings)],
    }


def medians(some: list[Reading]) -> dict[str, float | None]:
    """Return the median of each figure; None if the client does not report it."""
    medians = {name: median(asdict(r)[name] for r in some) for name in asdict(some[0])}
    return {name: None if value != value else value for name, value in medians.items()}


def goals(case: Case, readings: dict[str, list[Reading]]) -> list[dict[str, Any]]:
    """Return each goal with the median ratio of storlab to its peer, if the peer ran.

    ``floor`` is the ratio of the bare loop to the peer, the lower limit of any client on kernel
    TCP.
    """
    verdicts = []
    for goal in case.goals:
        text = f"{goal.quantity} <= {goal.limit:.2f} x {goal.peer}"
        reached = verdict(text, ratios(readings, NATIVE, goal), goal.met)
        bare_ratios = ratios(readings, BARE, goal) if goal.peer != BARE else []
        verdicts.append({**reached, "floor": median(bare_ratios) if bare_ratios else None})
    return verdicts


def ratios(readings: dict[str, list[Reading]], client: str, goal: Goal) -> list[float]:
    """Return the ratio of a client to the goal's peer per round, if both ran."""
    pairs = zip(readings.get(client, []), readings.get(goal.peer, []), strict=False)
    return [getattr(a, goal.quantity) / getattr(b, goal.quantity) for a, b in pairs]


def server_goals(case: Case, readings: dict[str, list[Reading]]) -> list[dict[str, Any]]:
    """Return the goal on the CPU time of storlab's own server."""
    if case.server_goal is None:
        return []
    values = [reading.server_s_per_gb for reading in readings[NATIVE]]
    limit = case.server_goal
    reached = verdict(f"{SERVER} <= {limit:.2f}", values, lambda value: value <= limit)
    return [{**reached, "floor": None}]


def tested(options: argparse.Namespace) -> dict[str, Any]:
    """Return the machine and tool versions."""
    versions = {"versitygw": [versitygw_path(), "--version"]}
    if options.warp:
        versions["warp"] = [options.warp, "--version"]
    facts = {
        name: subprocess.run(command, capture_output=True, text=True, check=False).stdout
        for name, command in versions.items()
    }
    return {
        **machine(),
        **{name: " ".join(text.split()[:6]) for name, text in facts.items()},
    }


def show(report: dict[str, Any]) -> None:
    """Print the table of readings and the table of goals."""
    console = Console()
    console.print(", ".join(f"{key} {value}" for key, value in report["machine"].items()))
    columns = {
        "mb_s": ("MB/s", ",.0f"),
        "requests_s": ("req/s", ",.0f"),
        GB: ("s/GB", ".3f"),
        SMALL: ("s/1,000", ".4f"),
        "system_share": ("kernel", ".0%"),
        "latency_p50_ms": ("p50 ms", ".3f"),
        SERVER: ("server s/GB", ".3f"),
    }
    figures = Table(
        title=f"Medians of {report['rounds']} interleaved runs, 16 in flight: client CPU"
    )
    for name in ("case", "client"):
        figures.add_column(name)
    for title, _ in columns.values():
        figures.add_column(title, justify="right")
    for result in report["cases"]:
        for tool, reading in result["medians"].items():
            cells = [
                "-" if reading[name] is None else format(reading[name], form)
                for name, (_, form) in columns.items()
            ]
            figures.add_row(result["case"], tool, *cells)
        figures.add_section()
    console.print(figures)
    verdicts = Table(title="Goals: ours over theirs, median (lowest to highest)")
    for name in ("case", "goal", "value", "bare loop", "verdict"):
        verdicts.add_column(name)
    for result in report["cases"]:
        for goal in result["goals"]:
            verdicts.add_row(result["case"], goal["goal"], *judged(goal))
    console.print(verdicts)


def judged(goal: dict[str, Any]) -> tuple[str, str, str]:
    """Return a goal's measured ratio, the bare loop's ratio, and the verdict as text."""
    floor = "-" if goal["floor"] is None else f"{goal['floor']:.3g}"
    if goal["met"] is None:
        return "-", floor, "not measured"
    spread = f"{goal['value']:.3g} ({goal['lowest']:.3g} to {goal['highest']:.3g})"
    return spread, floor, "met" if goal["met"] else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
