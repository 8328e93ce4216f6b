"""Figure of two distributions: how long steps wait for data, and how long files take to read."""

from __future__ import annotations

from storlab._native import Histogram
from storlab.figures.figure import Figure, Place
from storlab.figures.latency_cdf import cdf_line, cdf_panels, percentile_text
from storlab.figures.theme import configured, log_bounds
from storlab.words.text import latency_text

CURVES = (("step_wait", "all", "wait of a step"), ("latency", "read", "read of a file"))
LEAST_NS = 1_000  # start of the axis: smaller waits do not matter


def draw(far: Place) -> Figure | None:
    """Draw distributions of steps' waits and of read times at one point; None if none was timed."""
    curves: list[tuple[str, str, Histogram]] = [
        (target, words, merged)
        for target, cell in far.cells.items()
        for time, operation, words in CURVES
        if (merged := cell.merged(operation, time)) is not None and merged.count
    ]
    if not curves:
        return None
    data = [datum for curve in curves for datum in cdf_line(*curve)]
    for datum in data:
        datum["latency"] = max(datum["latency"], LEAST_NS)
    low, high = log_bounds([d["latency"] for d in data])
    top = max(d["nines"] for d in data)
    words = {name: "time" for _, _, name in CURVES}
    chart = cdf_panels(data, words, far.comparison, far.section, (max(low, LEAST_NS), high), top)
    return far.figure(
        kind="step_wait",
        name="waits",
        text=_title(curves),
        shows="Distributions of the waits of steps and of the reads of files, on a logarithmic "
        "scale",
        spec=configured(chart, {"curves": data}),
        columns=["target", "time of", "count", "p50", "p90", "p99", "p99.9"],
        rows=[
            [
                target,
                words,
                f"{histogram.count:,}",
                *(percentile_text(histogram, percent) for percent in (50.0, 90.0, 99.0, 99.9)),
            ]
            for target, words, histogram in curves
        ],
        latencies=True,
    )


def _title(curves: list[tuple[str, str, Histogram]]) -> str:
    first = curves[0][1]
    parts = [f"{latency_text(h.percentile(50.0))} on {t}" for t, w, h in curves if w == first]
    return f"half of the waits of steps are at most {', '.join(parts)}"
