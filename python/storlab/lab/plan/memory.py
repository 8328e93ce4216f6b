"""How much memory a run takes on the machine that makes its load."""

from __future__ import annotations

from dataclasses import dataclass

from storlab.contracts.family import Estimate
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import Header, StudyBase

HISTOGRAM_BYTES = 33 * 1024 * 8  # 3 digits up to an hour, in ns: crates/base/src/histogram.rs
TABLES = 3  # of each worker, used in turn: crates/run/src/sampling.rs
THREAD_BYTES = 128 << 10  # stack, ring and random state, as far as they are touched
ROW_BYTES = 4 << 10  # of a sample: its histograms encoded, in the engine and once more in Python


@dataclass(frozen=True)
class RunMemory:
    """Memory that one run needs on the machine that makes its load, in bytes."""

    buffers: int
    workers: int = 0  # their histograms and threads
    samples: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.buffers + self.workers + self.samples


def run_memory(point: Point, estimate: Estimate, header: Header) -> RunMemory:
    """Return the memory that one run needs: buffers, histograms of its workers, and samples.

    Other engines than storlab's own keep histograms in their own way, and only their buffers count.
    """
    if point.engine != "native":
        return RunMemory(estimate.buffer_bytes)
    family = FAMILIES[point.kind]
    page = family.page
    every = len((*page.operations, *page.beside, *page.first_byte))
    kinds = estimate.histograms or every * (2 if point.params.get(page.paced or "") else 1)
    workers = page.workers_of(point.params)
    # How long fixed work takes is no more than an estimate.
    intervals = 0 if family.fixed_work else 1 + estimate.duration_ns // header.interval
    return RunMemory(
        buffers=estimate.buffer_bytes,
        workers=workers * (TABLES * kinds * HISTOGRAM_BYTES + THREAD_BYTES),
        samples=intervals * kinds * ROW_BYTES,
    )


def memory_of(study: StudyBase, point: Point) -> int:
    """Return the memory that a run of a point needs, in bytes."""
    header = study.study
    estimate = FAMILIES[point.kind].estimate(point, header, study.target_named(point.target))
    return run_memory(point, estimate, header).total
