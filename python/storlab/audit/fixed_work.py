"""Times, rates and energies of fixed work, computed once more from what the engine told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.points import page_of
from storlab.model.result import RunRecord

FIXED: dict[str, tuple[str, str, bool]] = {
    "write_time_s": ("writes", "written_ns", False),
    "durable_time_s": ("writes", "durable_ns", False),
    "restore_time_s": ("restores", "end_ns", False),
    "write_mb_s": ("writes", "written_ns", True),
    "durable_mb_s": ("writes", "durable_ns", True),
    "restore_mb_s": ("restores", "end_ns", True),
}
"""Metrics: where the engine lists what they are of, when that ended, and whether it is a rate."""
COMPLETION = "completion_time_s"  # of spans


def fixed_work(name: str, record: RunRecord) -> float | None:
    """A mean time in s, or a rate in B/s, sums over sums; None where the engine told nothing."""
    entries, end, is_rate = FIXED[name]
    said: list[dict[str, Any]] = list(record.details.get(entries) or ())
    if not said or any(one.get(end) is None for one in said):
        return None
    took_ns: int = sum(one[end] - one["start_ns"] for one in said)
    if took_ns <= 0:
        return None
    if is_rate:
        return float(sum(one["bytes"] for one in said)) * 1e9 / took_ns
    return took_ns / 1e9 / len(said)


def completion_time_s(operation: str, record: RunRecord) -> float | None:
    """From the start of a span of that kind to its end, or of the first to that of the last.

    ``operation`` is a kind of spans, or ``all``. None where there is no such span, or an earlier
    process did a part of it.
    """
    spans = [span for span in record.spans if operation in ("all", span.kind)]
    resumed = page_of(record.kind).resumed(record.details)
    if not spans or any(span.kind in resumed for span in spans):
        return None
    return (max(span.end_ns for span in spans) - min(span.start_ns for span in spans)) / 1e9


def mean_span_energy_j(
    kind: str, records: Sequence[RunRecord], boundary: str | None
) -> float | None:
    """J of a span of that kind, mean of the runs' own means; None where a span has no energy."""
    means = []
    for record in records:
        places = {n for n, span in enumerate(record.spans) if span.kind == kind}
        known = [
            power.energy_j
            for power in record.span_power
            if power.span in places and boundary in (None, power.boundary)
        ]
        if not places or len(known) != len(places):
            return None
        means.append(sum(known) / len(known))
    return sum(means) / len(means)
