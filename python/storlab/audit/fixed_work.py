"""Recomputation of times, rates and energies of fixed work from records of the engine.

Fixed work ends when it is done, such as an epoch or a checkpoint, rather than after a given time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.points import page_of
from storlab.base.units import NS_PER_S
from storlab.contracts.details import Details
from storlab.contracts.page import Counted, Quantity
from storlab.model.result import RunRecord


def counted_quantity(name: str, record: RunRecord) -> Quantity | None:
    """Return the family's metric ``name``; None if it cannot be recomputed from recorded counts."""
    own = page_of(record.kind).metrics.quantities
    return next((q for q in own if q.name == name and q.counted is not None), None)


def fixed_work(quantity: Quantity, operation: str, record: RunRecord) -> float | None:
    """Return the mean time in seconds or the rate in B/s of fixed work.

    It is computed from sums over the entries that the engine recorded, one per piece of work. None
    if there are no entries or one is incomplete.
    """
    counted = quantity.counted or Counted()
    if not counted.entries:
        return completion_time_s(operation, record)
    told: list[dict[str, Any]] = list(record.details.get(counted.entries) or ())
    if not told or any(entry.get(counted.end) is None for entry in told):
        return None
    took_ns: int = sum(entry[counted.end] - entry["start_ns"] for entry in told)
    if took_ns <= 0:
        return None
    if quantity.unit == "MB/s":
        return float(sum(entry["bytes"] for entry in told)) * NS_PER_S / took_ns
    return took_ns / NS_PER_S / len(told)


def completion_time_s(operation: str, record: RunRecord) -> float | None:
    """Return the time in seconds from the first span's start to the last span's end.

    ``operation`` is a kind of span, or "all". None if there is no such span, or if a resumed run
    did part of the work in an earlier process.
    """
    spans = [span for span in record.spans if operation in ("all", span.kind)]
    resumed = Details.of(record).resumed
    if not spans or any(span.kind in resumed for span in spans):
        return None
    return (max(span.end_ns for span in spans) - min(span.start_ns for span in spans)) / NS_PER_S


def mean_span_energy_j(
    kind: str, records: Sequence[RunRecord], boundary: str | None
) -> float | None:
    """Return the mean energy in joules of a span of a kind, such as the write of a checkpoint.

    It is the mean of the runs' means; None if the energy of any span is unknown.
    """
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
