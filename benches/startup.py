"""Measure the start-up CPU time of light commands, as a multiple of importing Typer.

``python benches/startup.py`` prints medians and returns 1 if the goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
GOAL = 3.0
YARDSTICK = "import typer"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="starts of each command (15)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as place:
        commands = _commands(Path(place))
        cpu_s: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                cpu_s[name].append(_cpu_s(command))
    medians = {name: median(values) for name, values in cpu_s.items()}
    ratios = {name: value / medians[YARDSTICK] for name, value in medians.items()}
    missed = [name for name, ratio in ratios.items() if ratio > GOAL]
    report = {
        "cpu_ms": {name: round(value * 1e3, 1) for name, value in medians.items()},
        f"over '{YARDSTICK}'": {name: round(ratio, 2) for name, ratio in ratios.items()},
        "goal": GOAL,
        "missed": missed,
        "cores": os.cpu_count(),
    }
    print(json.dumps(report, indent=2))
    return 1 if missed else 0


def _commands(place: Path) -> dict[str, list[str]]:
    """Return the timed commands; ``status`` reads a campaign of one imported fio run."""
    storlab = [sys.executable, "-m", "storlab"]
    results = str(place / "results")
    recorded = ROOT / "tests" / "golden" / "fio" / "plain-3.33.json"
    imported = [*storlab, "import", str(recorded), "--out", results]
    subprocess.run(imported, check=True, stdout=subprocess.DEVNULL)
    return {
        YARDSTICK: [sys.executable, "-c", YARDSTICK],
        "--help": [*storlab, "--help"],
        "--version": [*storlab, "--version"],
        "unknown verb": [*storlab, "frob"],
        "missing argument": [*storlab, "run"],
        "unknown option": [*storlab, "compare", results, "--frob"],
        "status": [*storlab, "status", results],
    }


def _cpu_s(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
