"""Conversion of single operations, recorded by an engine's child, to totals and samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from storlab.model.result import Operation, OperationTotals, Sample
from storlab.process.histograms import histogram, summary

Ints = npt.NDArray[np.int64]
NONE: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Events:
    """Completed operations of one kind as parallel arrays.

    ``latency_ns`` is empty if latency was not measured.
    """

    operation: Operation
    end_ns: Ints  # on the run's clock
    bytes: Ints
    latency_ns: Ints

    @classmethod
    def of_rows(cls, operation: Operation, rows: Ints) -> Events:
        """Create events from an array whose rows are end (ns), latency (ns) and bytes."""
        return cls(operation, rows[:, 0], rows[:, 2], rows[:, 1])

    def totals(self) -> OperationTotals:
        """Return the number of operations, their bytes and a latency summary."""
        return OperationTotals(
            operations=len(self.end_ns),
            bytes=int(self.bytes.sum()),
            latency=summary(self.latency_ns),
        )


def totals(events: Sequence[Events]) -> dict[Operation, OperationTotals]:
    """Return totals by kind of operation; kinds without events are left out."""
    return {kind.operation: kind.totals() for kind in events if len(kind.end_ns)}


def samples(
    events: Sequence[Events],
    window: tuple[int, int],
    interval_ns: int,
    cpu_ns: Callable[[int, int], int] | None = None,
) -> list[Sample]:
    """Return one sample for each interval of the window and kind of operation.

    An event exactly at the window's end counts in the last interval.

    Args:
        events: The events of each kind of operation.
        window: Start and end of the measure window, in ns on the run's clock.
        interval_ns: The length of a sample.
        cpu_ns: Returns the CPU time (ns) used between two times on the run's clock.
    """
    start_ns, end_ns = window
    edges = [*range(start_ns, end_ns, interval_ns), end_ns]
    places = [np.searchsorted(edges, kind.end_ns, side="right") - 1 for kind in events]
    last = len(edges) - 2
    samples: list[Sample] = []
    for interval, (begin, end) in enumerate(pairwise(edges)):
        used_ns = 0 if cpu_ns is None else cpu_ns(begin, end)
        for kind, at in zip(events, places, strict=True):
            chosen = np.minimum(at, last) == interval
            latency = kind.latency_ns[chosen] if len(kind.latency_ns) else NONE
            samples.append(
                Sample(
                    interval=interval,
                    start_ns=begin,
                    end_ns=end,
                    operation=kind.operation,
                    operations=int(chosen.sum()),
                    bytes=int(kind.bytes[chosen].sum()),
                    latency=histogram(latency).to_v2(),
                    worker_cpu_ns=used_ns,
                )
            )
            used_ns = 0
    return samples
