"""Measure the CPU cost of the live page: ``storlab run`` without it, with it, with watchers.

Runs take turns, so that drift of the machine affects all alike. The load is paced and uses the null
backend, so only the page differs. The cost is the difference in CPU time (user and system) over the
wall time, with the interval of a paired t-test. A more exact figure is printed as well: the CPU
time of all Python threads except the main one, of which only the page's threads differ.

``python benches/live.py`` prints JSON and returns 1 if the goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from statistics import mean, stdev

GOAL_PERCENT = 0.5  # of one core

STUDY = """
[study]
name = "live"
repeats = {runs}
ramp = "500ms"
runtime = "{runtime}s"

[[target]]
name = "null"
path = "null:"

[[workload]]
kind = "block"
block_size = "4KiB"
rate_iops = 2000
queue_depth = 4
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="sessions of each kind (5)")
    parser.add_argument("--runs", type=int, default=2, help="runs of a session (2)")
    parser.add_argument("--runtime", type=int, default=15, help="seconds of a run (15)")
    given = parser.parse_args()
    kinds = {"without": (False, 0), "nobody": (True, 0), "one": (True, 1), "ten": (True, 10)}
    sessions: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as place:
        study = Path(place) / "study.toml"
        study.write_text(STUDY.format(runs=given.runs, runtime=given.runtime))
        for number in range(given.rounds):
            for name, (live, watchers) in kinds.items():
                out = Path(place) / f"{name}-{number}"
                sessions[name].append(_session(study, out, live, watchers))
    report = {
        name: _summary(sessions_of, sessions["without"]) for name, sessions_of in sessions.items()
    }
    ground = report["without"]["threads_percent"]
    missed = [
        name
        for name in ("nobody", "one")
        if report[name]["threads_percent"] - ground > GOAL_PERCENT
    ]
    surroundings = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    print(json.dumps({**report, "goal_percent": GOAL_PERCENT, "missed": missed, **surroundings}))
    return 1 if missed else 0


def _session(study: Path, out: Path, live: bool, watchers: int) -> dict[str, float]:
    """Run one session; return its CPU time, that of the page's threads, and its duration."""
    command = [sys.executable, "-m", "storlab", "run", str(study), "--out", str(out), "--no-report"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    process = subprocess.Popen(
        [*command, *["--live"] * live], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    own_ns: dict[int, int] = {}
    readers = [threading.Thread(target=_count, args=(process, own_ns))]
    readers[0].start()
    for line in process.stderr:
        told = re.match(r"live: (\S+)", line)
        if told:
            readers += [threading.Thread(target=_watch, args=(told[1],)) for _ in range(watchers)]
            for reader in readers[1:]:
                reader.start()
    process.wait()
    for reader in readers:
        reader.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    own_s = sum(own_ns.values()) / 1e9
    return {"cpu_s": cpu_s, "own_s": own_s, "wall_s": time.monotonic() - begin}


def _watch(url: str) -> None:
    with urllib.request.urlopen(f"{url}events", timeout=60) as events:
        while events.read1(1 << 16):
            pass


def _count(process: subprocess.Popen[str], own: dict[int, int]) -> None:
    """Poll the CPU time in ns of the program's Python threads, by thread id."""
    tasks = Path(f"/proc/{process.pid}/task")
    while process.poll() is None:
        for task in tasks.glob("*"):
            try:
                name = (task / "comm").read_text()
                if int(task.name) != process.pid and name == (tasks.parent / "comm").read_text():
                    own[int(task.name)] = int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue
        time.sleep(0.25)


def _summary(sessions: list[dict[str, float]], without: list[dict[str, float]]) -> dict[str, float]:
    """Return means in percent of a core, with the difference to sessions without the page."""
    wall_s = mean(session["wall_s"] for session in sessions)
    extra = [a["cpu_s"] - b["cpu_s"] for a, b in zip(sessions, without, strict=True)]
    half = 0.0
    if len(extra) > 1:
        from scipy.stats import t

        half = float(t.ppf(0.975, len(extra) - 1)) * stdev(extra) / len(extra) ** 0.5
    return {
        "cpu_s": round(mean(session["cpu_s"] for session in sessions), 3),
        "wall_s": round(wall_s, 2),
        "threads_percent": round(100 * mean(session["own_s"] for session in sessions) / wall_s, 3),
        "difference_percent": round(100 * mean(extra) / wall_s, 2),
        "half_interval_percent": round(100 * half / wall_s, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
