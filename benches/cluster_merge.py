"""Measure merging a cluster's results: time and memory for 1,000 clients, 60 s, two operations.

``python benches/cluster_merge.py`` creates client reports as ranks pack them in a separate process,
then passes them through the code that waits for a run: unpacking, merging, and writing each
client's samples. It prints seconds and memory and returns 1 if a goal is missed. Results of an
unoptimised build are marked as such and do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from storlab import _native
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.session import Gathered, Session
from storlab.cluster.task import ClientPlace
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.clients_site import ClientsRun
from storlab.model.latencies import latencies_of
from storlab.model.result import CpuUse, EngineInfo, OperationTotals, RunOutcome, Sample
from storlab.model.samples import summarise_latency

GOAL_S = 3.0
GOAL_MB = 1000.0
INTERVAL_NS = 1_000_000_000
START_NS = 3_600_000_000_000
OPERATIONS = ("read", "write")
SKEW_NS = 2_000_000
PARTS = 200  # each histogram is the sum of two of these, so that hardly any two are equal
PER_INTERVAL = 20_000


@dataclass
class Ended:
    """Session whose clients have all finished; reads their reports from files."""

    directory: Path
    clients: int

    def wait(self, timeout_s: float) -> Gathered:
        """Return the reports and clock offsets, like ``Session.wait`` at the end of a task."""
        del timeout_s
        ranks = range(1, self.clients + 1)
        outcomes = {rank: (self.directory / f"{rank}").read_bytes() for rank in ranks}
        told = json.loads((self.directory / "clocks").read_text())
        return Gathered(outcomes, [{n: ClockOffset(*pair) for n, pair in told.items()}] * 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60, help="of each client's window (60)")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make is not None:
        _make(asked.make, asked.clients, asked.seconds)
        return 0
    with tempfile.TemporaryDirectory() as place:
        words = [sys.executable, __file__, "--make", place]
        sizes = ["--clients", str(asked.clients), "--seconds", str(asked.seconds)]
        subprocess.run([*words, *sizes], check=True)
        report = _merge(Path(place), asked.clients, asked.seconds)
    print(json.dumps(report, indent=2))
    return 1 if report["missed"] else 0


def _merge(place: Path, clients: int, seconds: int) -> dict[str, Any]:
    places = [ClientPlace(name=_name(n), host=_name(n), rank=n) for n in range(1, clients + 1)]
    session = cast(Session, Ended(place, clients))
    run = ClientsRun(session, places, INTERVAL_NS, seconds * INTERVAL_NS, "block")
    before_mb = _peak_mb()
    begin = time.perf_counter()
    outcome = run.wait()
    total_s = time.perf_counter() - begin
    if outcome is None or outcome.cluster is None:
        raise SystemExit("nothing was merged")
    wanted = clients * seconds * PER_INTERVAL
    counted = [outcome.totals[kind].operations for kind in OPERATIONS]
    missed = [
        name
        for name, bad in (
            ("sum", counted != [wanted] * len(OPERATIONS)),
            ("seconds", total_s > GOAL_S),
            ("memory", _peak_mb() > GOAL_MB),
        )
        if bad
    ]
    return {
        "clients": clients,
        "window_s": seconds,
        "rows": len(outcome.samples),
        "reports_mb": round(sum(p.stat().st_size for p in place.iterdir()) / 1e6),
        "clients_parquet_mb": round(len(outcome.raw["clients.parquet"]) / 1e6, 1),
        "kept_share": round(outcome.cluster.window_kept, 6),
        "seconds": round(total_s, 2),
        "memory_mb": round(_peak_mb() - before_mb),
        "peak_of_the_process_mb": round(_peak_mb()),
        "goals": {"seconds": GOAL_S, "peak_of_the_process_mb": GOAL_MB},
        "missed": missed,
        "optimised": json.loads(_native.probe())["optimised"],
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def _name(rank: int) -> str:
    return f"c{rank:04}"


def _make(place: Path, clients: int, seconds: int) -> None:
    """Write the reports that ranks send to rank 0, and their clock offsets."""
    rng = random.Random(1)
    parts = [_histogram(rng) for _ in range(PARTS)]
    latency = summarise_latency(_both(parts[:2]))
    clocks = {}
    for rank in range(1, clients + 1):
        offset_ns = rng.randrange(-(10**12), 10**12)
        clocks[_name(rank)] = [offset_ns, 40_000]
        outcome = _outcome(rng, offset_ns, seconds, parts)
        done = seconds * PER_INTERVAL
        totals = OperationTotals(operations=done, bytes=done * 4096, latency=latency)
        outcome.totals = dict.fromkeys(OPERATIONS, totals)  # type: ignore[assignment]
        read = latencies_of(sample.latency for sample in outcome.samples)
        report = ClientReport(outcome=outcome, latencies=read, armed_ns=80_000_000)
        (place / f"{rank}").write_bytes(report.pack())
    (place / "clocks").write_text(json.dumps(clocks))


def _histogram(rng: random.Random) -> _native.Histogram:
    """Return latencies of half a second of a fast device: log-normal around 100 us with a tail."""
    histogram = _native.Histogram()
    for _ in range(PER_INTERVAL // 2):
        histogram.record(int(100_000 * rng.lognormvariate(0, 0.6)))
    return histogram


def _both(parts: Sequence[_native.Histogram]) -> bytes:
    whole = _native.Histogram()
    for part in parts:
        whole.add(part)
    return whole.to_v2()


def _outcome(
    rng: random.Random, offset_ns: int, seconds: int, parts: list[_native.Histogram]
) -> RunOutcome:
    start_ns = START_NS + offset_ns + rng.randrange(SKEW_NS)
    samples = [
        Sample(
            interval,
            start_ns + interval * INTERVAL_NS,
            start_ns + (interval + 1) * INTERVAL_NS,
            operation,  # type: ignore[arg-type]
            PER_INTERVAL,
            PER_INTERVAL * 4096,
            _both(rng.sample(parts, 2)),
            worker_cpu_ns=10_000_000,
        )
        for interval in range(seconds)
        for operation in OPERATIONS
    ]
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0", backend="uring"),
        window_start_ns=start_ns,
        window_end_ns=start_ns + seconds * INTERVAL_NS,
        samples=samples,
        totals={},
        cpu=CpuUse(user_ns=1, system_ns=1, cores=64, machine_busy_percent=1.0, machine_cores=64),
        first_io_late_ns=rng.randrange(10**6),
    )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    raise SystemExit(main())
