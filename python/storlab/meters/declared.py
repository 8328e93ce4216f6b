"""Declared: power that nobody measured here, computed from what the study says of the target.

Idle power plus energy per byte read and written, from a data sheet or from an earlier measurement.
Everything that rests on it has provenance ``declared``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pydantic import Field, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.base.units import GB, NS_PER_S
from storlab.contracts.details import Details, StageTimes
from storlab.contracts.meter import Discovered
from storlab.meters.options import MeterOptions, read_options
from storlab.model.power import Reading, SensorInfo
from storlab.model.result import READS, WRITES, RunOutcome, Sample
from storlab.model.study import MeterSpec, Target

_HOW = (
    'meters = [{ kind = "declared", boundary = "device", idle_watts = 5.0, '
    'joules_per_gb_read = 0.5, joules_per_gb_written = 1.2, source = "data sheet" }]'
)


class DeclaredOptions(MeterOptions):
    """Fields of ``kind = "declared"``."""

    idle_watts: float = Field(ge=0)
    joules_per_byte: float | None = Field(default=None, ge=0)  # of every byte, read or written
    joules_per_gb_read: float | None = Field(default=None, ge=0)
    joules_per_gb_written: float | None = Field(default=None, ge=0)
    source: str = ""  # where the numbers come from

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> DeclaredOptions:
        split = [n for n in ("joules_per_gb_read", "joules_per_gb_written") if n in self.given]
        if "joules_per_byte" in self.given and split:
            raise FieldProblems(
                [Problem((split[0],), "joules_per_byte says it already", "give one of the two")]
            )
        if "joules_per_byte" not in self.given and len(split) != 2:
            raise FieldProblems(
                [
                    Problem(
                        (),
                        "the energy of the bytes is missing",
                        "give joules_per_byte, or both joules_per_gb_read and "
                        "joules_per_gb_written (0 where it costs nothing)",
                    )
                ]
            )
        return self

    @property
    def given(self) -> set[str]:
        """Fields that have a value."""
        return {name for name in type(self).model_fields if getattr(self, name) is not None}

    def joules(self, operation: str, size: int) -> float:
        """Energy of so many bytes of one kind of operation."""
        if operation not in READS + WRITES:
            return 0.0
        if self.joules_per_byte is not None:
            return size * self.joules_per_byte
        per_gb = self.joules_per_gb_read if operation in READS else self.joules_per_gb_written
        return size / GB * (per_gb or 0.0)


class DeclaredMeter:
    """A counter of declared energy, known when the run is over."""

    periodic = False  # nothing to read while the load runs

    def __init__(self, options: DeclaredOptions) -> None:
        self._options = options

    def describe(self) -> list[SensorInfo]:
        """One counter with provenance ``declared``."""
        source = self._options.source.strip()
        return [
            self._options.info(
                sensor="declared",
                description="declared in the study: idle power and energy per byte"
                + (f" ({source})" if source else ""),
                sampling="counter",
                unit="J",
                provenance="declared",
            )
        ]

    def sample(self) -> list[Reading]:
        """Nothing: it depends on what the run will have done."""
        return []

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """The counter at the window's start and at the end of every interval."""
        return list(self._count(outcome))

    def idle_w(self) -> float:
        """As declared."""
        return self._options.idle_watts

    def close(self) -> None:
        """Nothing is held."""

    def _count(self, outcome: RunOutcome) -> Iterator[Reading]:
        start, end = outcome.window_start_ns, outcome.window_end_ns
        if end <= start:
            return
        costs = _costs(outcome, self._options)
        idle_w = self._options.idle_watts
        moved_j = 0.0
        yield Reading("declared", start, 0.0)
        for time_ns in sorted(costs):
            moved_j += costs[time_ns]
            if start < time_ns < end:
                counted = idle_w * (time_ns - start) / NS_PER_S + moved_j
                yield Reading("declared", time_ns, counted)
        yield Reading("declared", end, idle_w * (end - start) / NS_PER_S + moved_j)


def _costs(outcome: RunOutcome, options: DeclaredOptions) -> dict[int, float]:
    """Energy of the bytes by the end of their interval; of all bytes where there are no samples."""
    costs: dict[int, float] = {}
    stages = Details.of(outcome).stages
    if stages:
        return _costs_of_stages(outcome, stages, options)
    for end_ns, operation, size in _moved(outcome, outcome.samples):
        costs[end_ns] = costs.get(end_ns, 0.0) + options.joules(operation, size)
    return costs


def _costs_of_stages(
    outcome: RunOutcome, stages: Sequence[StageTimes], options: DeclaredOptions
) -> dict[int, float]:
    """Energy of what stages move, spread evenly over their time.

    Their operations are no reads and writes. What counts is what the device moved; where nobody
    counts that, what the stage read and wrote.
    """
    edges = {sample.end_ns for sample in outcome.samples}
    edges.update(edge for stage in stages for edge in (stage.start_ns, stage.end_ns))
    costs: dict[int, float] = {}
    for since, until in pairwise(sorted(edges)):
        costs[until] = math.fsum(
            _stage_j(stage, options) * share
            for stage in stages
            if (share := _share(stage.start_ns, stage.end_ns, since, until))
        )
    return costs


def _share(start_ns: int, end_ns: int, since_ns: int, until_ns: int) -> float:
    """Of the time from start to end, what lies in an interval."""
    return max(0, min(end_ns, until_ns) - max(start_ns, since_ns)) / max(1, end_ns - start_ns)


def _stage_j(stage: StageTimes, options: DeclaredOptions) -> float:
    read, written = stage.device_read_bytes, stage.device_written_bytes
    if read is None or written is None:
        read, written = stage.input_bytes, stage.output_bytes
    return options.joules("read", read) + options.joules("write", written)


def _moved(outcome: RunOutcome, samples: list[Sample]) -> Iterator[tuple[int, str, int]]:
    """What the totals say, spread over the samples; the rest at the end (engines round)."""
    rest = {operation: totals.bytes for operation, totals in outcome.totals.items()}
    for sample in samples:
        taken = min(sample.bytes, rest.get(sample.operation, 0))
        rest[sample.operation] = rest.get(sample.operation, 0) - taken
        yield sample.end_ns, sample.operation, taken
    for operation, size in rest.items():
        yield outcome.window_end_ns, operation, size


def discover() -> list[Discovered]:
    """Always there: it measures nothing."""
    return [
        Discovered(
            kind="declared",
            sensor="declared",
            available=True,
            rate="one value per interval",
            accuracy="as good as the declaration; never counts as measured",
            privilege="none",
            how=_HOW,
        )
    ]


def open_meter(spec: MeterSpec, target: Target) -> DeclaredMeter:
    """For a study. Raises StudyError for bad fields."""
    return DeclaredMeter(read_options(DeclaredOptions, spec, target))
