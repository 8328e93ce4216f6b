"""Measure CPU time and peak memory of the commands that read a large campaign.

Creates a result directory of many runs through the store's own writer (synthetic numbers that obey
Little's law), then runs ``status``, ``compare``, ``audit`` and ``report`` on it, each in its own
process. ``python benches/scale.py`` prints JSON and returns 1 if a goal is missed: 10 s of CPU and
1 GB each for 10,000 runs, and a brief below 10 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from surroundings import machine, workplace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.large_campaign import large_campaign

GOAL_S = 10.0
GOAL_BYTES = 1_000_000_000
GOAL_BRIEF_BYTES = 10_000_000
VERBS = {
    "status": ["status", "--json"],
    "compare": ["compare", "--json"],
    "compare as text": ["compare"],
    "audit": ["audit", "--json"],
    "report": ["report", "--json"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--repeats", type=int, default=1, help="runs of a point (1)")
    parser.add_argument("--verbs", nargs="+", default=list(VERBS), choices=list(VERBS))
    parser.add_argument("--keep", type=Path, help="make the directories here, and use those there")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    with workplace(Path.cwd()) as place:
        for runs in options.runs:
            directory = (options.keep or place) / f"{runs}x{options.repeats}"
            if not directory.exists():
                large_campaign(directory, runs=runs, repeats=options.repeats, draw=random.Random(5))
            records += [measured(directory, runs, verb) for verb in options.verbs]
    missed = [row for row in records if row["runs"] <= 10_000 and not row["within"]]
    print(json.dumps({"machine": machine(), "goal_s": GOAL_S, "verbs": records}, indent=2))
    return 1 if missed else 0


def measured(directory: Path, runs: int, verb: str) -> dict[str, Any]:
    """Return CPU seconds and peak memory of one command in its own process."""
    program = Path(sys.executable).with_name("storlab")
    name, *options = VERBS[verb]
    with Path(os.devnull).open("wb") as nothing:
        child = subprocess.Popen([program, name, directory, *options], stdout=nothing)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = used.ru_utime + used.ru_stime
    row: dict[str, Any] = {
        "verb": verb,
        "runs": runs,
        "exit": child.returncode,
        "cpu_s": round(cpu_s, 2),
        "peak_bytes": used.ru_maxrss * 1024,
    }
    within = cpu_s <= GOAL_S and row["peak_bytes"] <= GOAL_BYTES
    if verb == "report":
        row["brief_bytes"] = (directory / "brief.html").stat().st_size
        within = within and row["brief_bytes"] <= GOAL_BRIEF_BYTES
    return {**row, "within": within}


if __name__ == "__main__":
    sys.exit(main())
