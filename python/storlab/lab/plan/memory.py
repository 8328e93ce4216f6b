"""Estimate of the memory that a run needs on the machine that generates its load."""

from __future__ import annotations

from dataclasses import dataclass

from storlab.analysis.offered_load import level_of
from storlab.contracts.family import Estimate
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import Header, StudyBase

# Size of one histogram: 3 digits up to an hour in ns, see crates/base/src/histogram.rs.
HISTOGRAM_BYTES = 33 * 1024 * 8
TABLES = 3  # histograms per worker and kind, used in rotation: crates/run/src/sampling.rs
THREAD_BYTES = 128 << 10  # touched part of the stack, the ring and the random state
ROW_BYTES = 4 << 10  # one sample: encoded histograms, held by the engine and again by Python


@dataclass(frozen=True)
class RunMemory:
    """Memory that one run needs on the machine that generates its load, in bytes."""

    buffers: int
    workers: int = 0  # histograms and threads of the workers
    samples: int = 0

    @property
    def total(self) -> int:
        """Return the memory for buffers, workers and samples together, in bytes."""
        return self.buffers + self.workers + self.samples


def run_memory(point: Point, estimate: Estimate, header: Header) -> RunMemory:
    """Estimate the memory that one run needs: buffers, histograms of its workers, and samples.

    For engines other than native only the buffers are included, since the rest is unknown.
    """
    if point.engine != "native":
        return RunMemory(estimate.buffer_bytes)
    family = FAMILIES[point.kind]
    page = family.page
    every = len((*page.operations.main, *page.operations.auxiliary, *page.operations.first_byte))
    closed = not point.params.get(page.load.open_loop) and level_of(point) is None
    kinds = estimate.histograms or every * (1 if closed else 2)
    workers = page.load.workers_of(point.params)
    # For a fixed amount of work, the duration is only an estimate, so samples are not included.
    intervals = 0 if family.fixed_work else 1 + estimate.duration_ns // header.interval
    return RunMemory(
        buffers=estimate.buffer_bytes,
        workers=workers * (TABLES * kinds * HISTOGRAM_BYTES + THREAD_BYTES),
        samples=intervals * kinds * ROW_BYTES,
    )


def memory_of(study: StudyBase, point: Point) -> int:
    """Estimate the memory that a run of a point needs, in bytes."""
    header = study.study
    estimate = FAMILIES[point.kind].estimate(point, header, study.target_named(point.target))
    return run_memory(point, estimate, header).total
