"""What it costs to merge a cluster: seconds and memory for 1,000 clients of 60 s and two kinds.

``python benches/cluster_merge.py`` prints both, and returns 1 where a goal was missed. Figures of
an unoptimised build are no figures: it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import time
from typing import Any

from storlab import _native

GOAL_S = 3.0
GOAL_MB = 1000.0
INTERVAL_NS = 1_000_000_000
START_NS = 3_600_000_000_000
OPERATIONS = ("read", "write")
SKEW_NS = 2_000_000
KINDS_OF_ROWS = 50  # histograms are told apart; so many in all are enough
PER_INTERVAL = 20_000


def main() -> int:
    """Measure, print, and return 1 where a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60, help="of each client's window (60)")
    arguments = parser.parse_args()
    rng = random.Random(1)
    encoded = [_histogram(rng) for _ in range(KINDS_OF_ROWS)]
    merger = _native.Merger(INTERVAL_NS)
    before_mb = _peak_mb()
    spent_s = 0.0
    for number in range(arguments.clients):
        # Made outside of the time: here rows come from the network, a client at a time.
        client = _client(rng, arguments.seconds, encoded)
        begin = time.perf_counter()
        merger.add(f"c{number}", *client)
        spent_s += time.perf_counter() - begin
    begin = time.perf_counter()
    text, rows = merger.finish()
    finish_s = time.perf_counter() - begin
    merged = json.loads(text)
    wanted = arguments.clients * arguments.seconds * PER_INTERVAL
    counted = [merged["totals"][kind]["operations"] for kind in OPERATIONS]
    total_s, memory_mb = spent_s + finish_s, _peak_mb() - before_mb
    optimised = json.loads(_native.probe())["optimised"]
    missed = [
        name
        for name, bad in (
            ("sum", counted != [wanted] * len(OPERATIONS)),
            ("seconds", total_s > GOAL_S),
            ("memory", _peak_mb() > GOAL_MB),
        )
        if bad
    ]
    report = {
        "clients": arguments.clients,
        "window_s": arguments.seconds,
        "rows": len(rows),
        "histogram_bytes": sum(map(len, encoded)) // len(encoded),
        "kept_share": round(merged["kept_share"], 6),
        "seconds": round(total_s, 2),
        "of it finish": round(finish_s, 2),
        "memory_mb": round(memory_mb),
        "peak_of_the_process_mb": round(_peak_mb()),
        "goals": {"seconds": GOAL_S, "peak_of_the_process_mb": GOAL_MB},
        "missed": missed,
        "optimised": optimised,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(report, indent=2))
    return 1 if missed else 0


def _histogram(rng: random.Random) -> bytes:
    """Latencies of a second of a fast device: log-normal around 100 us, with a tail."""
    histogram = _native.Histogram()
    for _ in range(PER_INTERVAL):
        histogram.record(int(100_000 * rng.lognormvariate(0, 0.6)))
    return histogram.to_v2()


def _client(
    rng: random.Random, seconds: int, encoded: list[bytes]
) -> tuple[int, int, int, list[tuple[Any, ...]]]:
    offset_ns = rng.randrange(-(10**12), 10**12)
    start_ns = START_NS + offset_ns + rng.randrange(SKEW_NS)
    rows = [
        (
            interval,
            start_ns + interval * INTERVAL_NS,
            start_ns + (interval + 1) * INTERVAL_NS,
            operation,
            PER_INTERVAL,
            PER_INTERVAL * 4096,
            rng.choice(encoded),
            None,
            10_000_000,
            None,
            0,
        )
        for interval in range(seconds)
        for operation in OPERATIONS
    ]
    return offset_ns, start_ns, start_ns + seconds * INTERVAL_NS, rows


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    raise SystemExit(main())
