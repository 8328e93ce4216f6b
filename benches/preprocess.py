"""Compare preprocessing with pandas, Polars and DuckDB (``make bench-preprocess``).

The tools run in turns on the same click logs, each with one worker on one processor. CPU, time and
memory cover the whole pipeline, from text to split binary. Each round gives one ratio; the medians
are printed with the goals. All outputs must be byte-identical: see ``digest``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from cases import Goal
from rich.console import Console
from rich.table import Table
from surroundings import machine, workplace

from storlab import _native
from storlab.contracts.registry import get_engine
from storlab.workloads.preprocess.job import STAGES, Clicks, PreprocessJob

NATIVE, PANDAS, POLARS = "native", "pandas", "polars"
PLAIN_PANDAS, DUCKDB = "plain-pandas", "duckdb"
PROGRAMS = {PLAIN_PANDAS: "preprocess_pandas.py", DUCKDB: "preprocess_duckdb.py"}
PEERS = (PLAIN_PANDAS, PANDAS, POLARS, DUCKDB)
CPU, TIME = "cpu_s_per_gb", "seconds"
FIGURES = {  # Title and format of each printed figure.
    CPU: ("CPU s/GB", ",.2f"),
    "rows_s_per_core": ("rows/s a core", ",.0f"),
    TIME: ("s", ",.2f"),
    "peak_mb": ("peak MB", ",.0f"),
    "largest_mb": ("its MB", ",.0f"),
    "process_cpu_s": ("its CPU s", ",.2f"),
    "parquet_mb": ("Parquet MB", ",.0f"),
}
CPU_GOAL = 4.0  # CPU s/GB of the first case
GOALS = (
    Goal(PLAIN_PANDAS, CPU, 17.0, at_least=True),
    Goal(PANDAS, CPU, 17.0, at_least=True),
    Goal(POLARS, CPU, 3.4, at_least=True),
)


@dataclass(frozen=True)
class Case:
    """Settings of a comparison and the participating tools."""

    name: str
    tools: tuple[str, ...] = (NATIVE,)
    compression: str = "snappy"
    threshold: int = 15
    workers: int = 1
    memory_mib: int = 4096


@dataclass(frozen=True)
class Reading:
    """Result of one run of one tool, without start-up and output check."""

    seconds: float
    cpu_s_per_gb: float
    rows_s_per_core: float  # per second of CPU time
    peak_mb: float  # largest of its stages, as the tool reports
    base_mb: float  # of these, Python and imported modules; native only
    largest_mb: float  # maximum resident set of one process, from the kernel
    process_cpu_s: float  # including start-up and check, from the kernel
    parquet_mb: float
    stages: dict[str, float]  # CPU s/GB
    version: str


Readings = dict[tuple[str, str], list[Reading]]  # by case and tool


def main() -> int:
    options = arguments()
    with workplace(options.directory) as place:
        report = measure(Bench(place, options), chosen(options), options.rounds)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return int(any(goal["met"] is False for goal in report["goals"]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of every tool (3)")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of 245 bytes each (2000000)")
    parser.add_argument("--workers", type=int, default=1, help="also native with so many (1: no)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="(all)")
    parser.add_argument("--cold", action="store_true", help="stages read from the device")
    parser.add_argument("--directory", type=Path, default=Path(), help="of all data (here)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Case]:
    """Return the comparison with peers, then variants of storlab's settings."""
    peers = [name for name in PEERS if name in options.peers]
    cases = [
        Case("snappy", (NATIVE, *peers)),
        Case("uncompressed", compression="none"),
        Case("zstd", compression="zstd"),
        Case("threshold 0", (NATIVE, *(name for name in peers if name == DUCKDB)), threshold=0),
    ]
    cases += [Case(f"{mib} MiB", memory_mib=mib) for mib in (512, 256)]
    if options.workers > 1:
        cases.append(Case(f"{options.workers} workers", workers=options.workers))
    return cases


class Bench:
    """Click logs and runs over them."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        """Generate the click logs."""
        self._home, self._logs = place / "run", place / "logs"
        self._cold = options.cold
        self.rows = options.rows
        self._cpus = sorted(os.sched_getaffinity(0))
        if options.workers > len(self._cpus):
            raise SystemExit(f"--workers {options.workers}: there are {len(self._cpus)} processors")
        clicks = Clicks(rows=options.rows, files=2)
        job = PreprocessJob(task="generate", directory=str(self._logs), clicks=clicks)
        outcome = get_engine(NATIVE).start(job, place).wait()
        if outcome is None or outcome.status != "finished":
            raise SystemExit(f"no click logs: {outcome and outcome.failure}")
        self._inputs = sorted(self._logs.glob("day_*"))
        self.bytes = sum(path.stat().st_size for path in self._inputs)

    def run(self, case: Case, tool: str) -> tuple[Reading, dict[str, str]]:
        """Run one tool; return its reading and digests of its output, which is then removed."""
        self._home.mkdir()
        job = PreprocessJob(
            inputs=[str(path) for path in self._inputs],
            directory=str(self._home),
            workers=case.workers,
            compression=case.compression,
            threshold=case.threshold,
            memory_bytes=case.memory_mib << 20,
            cold=self._cold,
        )
        try:
            report, usage = child(tool, job, self._cpus[: case.workers])
            return self._reading(report, usage), self._digests()
        finally:
            shutil.rmtree(self._home)

    def _reading(self, report: dict[str, Any], usage: Any) -> Reading:
        stages = {stage["name"]: stage for stage in report["stages"]}
        gigabytes = self.bytes / 1e9
        cpu_s = {name: stages[name]["cpu_ns"] / 1e9 for name in STAGES}
        span_ns = stages[STAGES[-1]]["end_ns"] - stages[STAGES[0]]["start_ns"]
        base_mb = report.get("base_bytes", 0) / 1e6
        parquet = sum(path.stat().st_size for path in self._home.rglob("*.parquet"))
        return Reading(
            seconds=span_ns / 1e9,
            cpu_s_per_gb=sum(cpu_s.values()) / gigabytes,
            rows_s_per_core=self.rows / sum(cpu_s.values()),
            peak_mb=base_mb + max(stage["peak_memory_bytes"] for stage in report["stages"]) / 1e6,
            base_mb=base_mb,
            largest_mb=usage.ru_maxrss * 1024 / 1e6,
            process_cpu_s=usage.ru_utime + usage.ru_stime,
            parquet_mb=parquet / 1e6,
            stages={name: seconds / gigabytes for name, seconds in cpu_s.items()},
            version=report["version"],
        )

    def _digests(self) -> dict[str, str]:
        checked = json.loads(_native.check_split_binary(str(self._home)))
        rows, dictionary = checked["rows_digest"], checked["dictionary_digest"]
        return {"files": digest(self._home), "rows": rows, "dictionary": dictionary}


def digest(home: Path) -> str:
    """Return a digest of the names and bytes of all files that every tool must produce alike."""
    binary = [path for path in (home / "binary").rglob("*") if path.is_file()]
    vocabulary = [
        path for path in (home / "vocabulary").iterdir() if path.suffix in (".values", ".counts")
    ]
    whole = hashlib.sha256()
    for path in sorted(binary + vocabulary):
        with path.open("rb") as file:
            own = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.relative_to(home)} {own}\n".encode())
    return whole.hexdigest()[:16]


def child(tool: str, job: PreprocessJob, cpus: list[int]) -> tuple[dict[str, Any], Any]:
    """Run a tool on these processors; return its report and the kernel's resource usage."""
    program = PROGRAMS.get(tool, "preprocess_run.py")
    command = [sys.executable, str(Path(__file__).with_name(program)), tool]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)  # inherited by the child
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        os.sched_setaffinity(0, before)
    with process.stdin, process.stdout:
        process.stdin.write(job.model_dump_json().encode())
        process.stdin.close()
        printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{tool} failed: see above")
    return json.loads(printed), usage


def measure(bench: Bench, cases: list[Case], rounds: int) -> dict[str, Any]:
    """Run all cases and tools in turns, rotating and reversing their order."""
    runs = [(case, tool) for case in cases for tool in case.tools]
    readings: Readings = {(case.name, tool): [] for case, tool in runs}
    digests: dict[int, dict[str, str]] = {}
    for turn in range(rounds):
        start = turn // 2 % len(runs)
        order = runs[start:] + runs[:start]
        for case, tool in order if turn % 2 == 0 else order[::-1]:
            print(f"{turn + 1}/{rounds} {case.name}: {tool}", file=sys.stderr)
            reading, digests_of = bench.run(case, tool)
            wanted = digests.setdefault(case.threshold, digests_of)
            if digests_of != wanted:
                raise SystemExit(f"{case.name}: {tool} made {digests_of}, others made {wanted}")
            readings[case.name, tool].append(reading)
    return {
        "machine": machine(),
        "rows": bench.rows,
        "bytes": bench.bytes,
        "rounds": rounds,
        "digests": {f"threshold {threshold}": digest for threshold, digest in digests.items()},
        "runs": [
            {
                "case": case,
                "tool": tool,
                "median": medians(some),
                "readings": list(map(asdict, some)),
            }
            for (case, tool), some in readings.items()
        ],
        "goals": [
            *against_peers(cases, readings),
            *within_memory(cases, readings),
            *scaling(cases, readings),
        ],
    }


def medians(some: list[Reading]) -> dict[str, Any]:
    """Return the median of each figure."""
    figures = {name: median(getattr(reading, name) for reading in some) for name in FIGURES}
    stages = {name: median(reading.stages[name] for reading in some) for name in STAGES}
    return {**figures, "stages": stages, "version": some[0].version}


def against_peers(cases: list[Case], readings: Readings) -> Iterator[dict[str, Any]]:
    """Yield storlab's CPU per GB and the peers' ratios to storlab."""
    name = cases[0].name
    own_readings = readings[name, NATIVE]
    used = [reading.cpu_s_per_gb for reading in own_readings]
    yield verdict(f"{name}: CPU s/GB", used, f"<= {CPU_GOAL:g}", median(used) <= CPU_GOAL)
    goals = {goal.peer: goal for goal in GOALS}
    for case in cases:
        for peer in case.tools[1:]:
            goal = goals.get(peer) if case is cases[0] else None
            for quantity, title in ((CPU, "CPU"), (TIME, "time")):
                pairs = zip(readings[case.name, NATIVE], readings[case.name, peer], strict=True)
                ratios = [getattr(b, quantity) / getattr(a, quantity) for a, b in pairs]
                text = f"{case.name}: {title}, {peer} over native"
                if goal is None or goal.quantity != quantity:
                    yield verdict(text, ratios)
                else:
                    yield verdict(text, ratios, f">= {goal.limit:g}", goal.met(median(ratios)))


def within_memory(cases: list[Case], readings: Readings) -> Iterator[dict[str, Any]]:
    """Yield storlab's peak memory in the cases with a memory limit."""
    for case in cases:
        if case.memory_mib < Case.memory_mib:
            held = [
                (reading.peak_mb - reading.base_mb) * 1e6 / (1 << 20)
                for reading in readings[case.name, NATIVE]
            ]
            met = max(held) <= case.memory_mib
            yield verdict(f"{case.name}: peak MiB", held, f"<= {case.memory_mib}", met)


def scaling(cases: list[Case], readings: Readings) -> Iterator[dict[str, Any]]:
    """Yield the speed-up with several workers."""
    for case in cases:
        if case.workers > 1:
            pairs = zip(readings[cases[0].name, NATIVE], readings[case.name, NATIVE], strict=True)
            yield verdict(
                f"{case.name}: time with 1 over it", [a.seconds / b.seconds for a, b in pairs]
            )


def verdict(
    text: str, values: list[float], goal: str = "", met: bool | None = None
) -> dict[str, Any]:
    """Return a figure's median and range, with the goal and whether it is met."""
    spread = {"value": median(values), "lowest": min(values), "highest": max(values)}
    return {"name": text, **spread, "goal": goal, "met": met}


def show(report: dict[str, Any]) -> None:
    """Print the table of readings and the table of goals."""
    console = Console(width=140)
    versions = {run["tool"]: run["median"]["version"] for run in report["runs"]}
    facts = {**report["machine"], **versions}
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()))
    figures = Table(
        title=f"{report['rows']:,} rows, {report['bytes'] / 1e6:,.0f} MB: "
        f"medians of {report['rounds']} interleaved runs"
    )
    for name in ("case", "tool"):
        figures.add_column(name)
    for title in [*(title for title, _ in FIGURES.values()), *STAGES]:
        figures.add_column(title, justify="right")
    for run in report["runs"]:
        medians = run["median"]
        cells = [format(medians[name], form) for name, (_, form) in FIGURES.items()]
        cells += [f"{medians['stages'][name]:.2f}" for name in STAGES]
        figures.add_row(run["case"], run["tool"], *cells)
    console.print(figures)
    console.print(
        "Stages: CPU s/GB. Its: of its processes, by the kernel, with start and check.", style="dim"
    )
    verdicts = Table(title="Goals: median (lowest to highest)")
    for name in ("figure", "value", "goal", "verdict"):
        verdicts.add_column(name)
    words = {True: "met", False: "MISSED", None: ""}
    for goal in report["goals"]:
        spread = f"{goal['value']:.3g} ({goal['lowest']:.3g} to {goal['highest']:.3g})"
        verdicts.add_row(goal["name"], spread, goal["goal"], words[goal["met"]])
    console.print(verdicts)
    for threshold, medians in report["digests"].items():
        console.print(f"all outputs are equal, {threshold}: {medians}")


if __name__ == "__main__":
    sys.exit(main())
