"""Measure the clients of a cluster as a study starts them: bring-up, start skew, idle CPU.

``python benches/cluster_rank.py`` runs a study on 12 clients of this machine (``--clients``) on a
target that completes every I/O at once, at a rate that leaves the cores idle. It prints medians:
seconds from the order until every client has reported itself; start skew and lateness of the first
I/O, from the results; and the CPU time per second of load of each client's main thread, which waits
for the engine and exchanges messages with rank 0. That is the whole cost of a cluster besides the
load. Returns 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from cluster_tools import loading, ranks_of

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.results.store import ResultStore

GOALS = {"bring_up_s": 3.0, "skew_ms": 2.0, "first_io_late_ms": 10.0, "beside_cpu_ms": 1.0}
LOOK_S = 0.002
STUDY = """
[study]
name = "clients that hardly do anything"
repeats = {repeats}
ramp = "500ms"
runtime = "{seconds}s"
[cluster]
hosts = ["localhost"]
clients = {clients}
{mpi}
[[target]]
name = "nothing"
path = "null:"
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = 100
rate_iops = 100
"""


@dataclass
class Watched:
    """Observations of a campaign from outside."""

    begun_ns: dict[Path, int] = field(default_factory=dict)  # by task
    up_ns: dict[Path, int] = field(default_factory=dict)
    cpu_ms: list[float] = field(default_factory=list)  # per client and second
    controller_ms: list[float] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5, help="runs (5)")
    parser.add_argument("--seconds", type=int, default=6, help="of each (6)")
    parser.add_argument("--mpiexec", help="the one to measure")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        report = _measured(asked, Path(place))
    missed = [name for name, goal in GOALS.items() if report[name] > goal]
    print(json.dumps({**report, "goals": GOALS, "missed": missed}, indent=2))
    return 1 if missed else 0


def _measured(asked: argparse.Namespace, place: Path) -> dict[str, Any]:
    study, results = place / "study.toml", place / "results"
    mpi = f'mpiexec = "{asked.mpiexec}"' if asked.mpiexec else ""
    study.write_text(
        STUDY.format(repeats=asked.repeats, seconds=asked.seconds, clients=asked.clients, mpi=mpi)
    )
    words = [sys.executable, "-m", "storlab", "run", str(study), "--out", str(results)]
    watched = Watched()
    with (place / "log").open("wb") as log:
        lab = subprocess.Popen([*words, "--no-report", "--quiet"], stdout=log, stderr=log)
        while lab.poll() is None:
            _look(watched, results, lab.pid, asked.seconds)
            sleep_s(LOOK_S)
    if lab.returncode:
        raise SystemExit((place / "log").read_text())
    together = [r.cluster for r in ResultStore.open(results).records() if r.cluster is not None]
    late = [c.first_io_late_ns for run in together for c in run.clients]
    ups = [
        watched.up_ns[task] - begun
        for task, begun in watched.begun_ns.items()
        if task in watched.up_ns
    ]
    return {
        "clients": asked.clients,
        "runs": len(together),
        "bring_up_s": round(median(ups) / 1e9, 3),
        "bring_up_worst_s": round(max(ups) / 1e9, 3),
        "skew_ms": round(median(run.start_skew_ns or 0 for run in together) / 1e6, 3),
        "first_io_late_ms": round(median(ns or 0 for ns in late) / 1e6, 3),
        "first_io_late_worst_ms": round(max(ns or 0 for ns in late) / 1e6, 3),
        "lateness_in_every_result": None not in late,
        "beside_cpu_ms": round(median(watched.cpu_ms), 3),
        "controller_cpu_ms": round(median(watched.controller_ms), 3),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def _look(watched: Watched, results: Path, lab: int, seconds: int) -> None:
    for task in results.glob("work/*/cluster"):
        watched.begun_ns.setdefault(task, monotonic_ns())
        if task not in watched.up_ns and (task / "pids.json").exists():
            watched.up_ns[task] = monotonic_ns()
        if task not in watched.up_ns or not loading(task):
            continue
        controller, *clients = ranks_of(lab)
        before, began_ns = {pid: _main_ns(pid) for pid in (controller, *clients)}, monotonic_ns()
        sleep_s(seconds / 2)
        taken_s = (monotonic_ns() - began_ns) / 1e9
        used = {pid: (_main_ns(pid) - ns) / 1e6 / taken_s for pid, ns in before.items()}
        watched.controller_ms.append(used[controller])
        watched.cpu_ms += [used[pid] for pid in clients]
        while loading(task):
            sleep_s(LOOK_S)


def _main_ns(pid: int) -> int:
    """Return the CPU time in ns of a process's main thread, whose id is the process id."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])
    raise SystemExit(f"rank {pid} has ended")


if __name__ == "__main__":
    sys.exit(main())
