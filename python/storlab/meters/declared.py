"""Meter ``declared``: power that is not measured but computed from values in the study.

Energy is idle power plus energy per byte read and written, from a data sheet or an earlier
measurement. Results based on it have the provenance ``declared``.
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
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import READS, WRITES, RunOutcome, Sample
from storlab.model.study import MeterSpec, Target

BOUNDARY: Boundary = "device"  # unless the study states another
_HOW = (
    'meters = [{ kind = "declared", boundary = "device", idle_watts = 5.0, '
    'joules_per_gb_read = 0.5, joules_per_gb_written = 1.2, source = "data sheet" }]'
)


class DeclaredOptions(MeterOptions):
    """Fields of a meter with ``kind = "declared"``."""

    idle_watts: float = Field(ge=0)
    joules_per_byte: float | None = Field(default=None, ge=0)  # per byte read or written
    joules_per_gb_read: float | None = Field(default=None, ge=0)
    joules_per_gb_written: float | None = Field(default=None, ge=0)
    source: str = ""  # source of the values

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> DeclaredOptions:
        split = [n for n in ("joules_per_gb_read", "joules_per_gb_written") if n in self.given]
        if "joules_per_byte" in self.given and split:
            raise FieldProblems(
                [
                    Problem(
                        (split[0],),
                        f"{split[0]} and joules_per_byte both state the energy of a byte",
                        "set either joules_per_byte, or both joules_per_gb_read and "
                        "joules_per_gb_written",
                    )
                ]
            )
        if "joules_per_byte" not in self.given and len(split) != 2:
            raise FieldProblems(
                [
                    Problem(
                        (),
                        "the energy of the bytes is missing",
                        "set joules_per_byte, or both joules_per_gb_read and "
                        "joules_per_gb_written (0 if it costs no energy)",
                    )
                ]
            )
        return self

    @property
    def given(self) -> set[str]:
        """Names of the fields of this meter that have a value."""
        return {name for name in type(self).model_fields if getattr(self, name) is not None}

    def joules(self, operation: str, size: int) -> float:
        """Return the declared energy, in J, of ``size`` bytes of an operation such as ``read``."""
        if operation not in READS + WRITES:
            return 0.0
        if self.joules_per_byte is not None:
            return size * self.joules_per_byte
        per_gb = self.joules_per_gb_read if operation in READS else self.joules_per_gb_written
        return size / GB * (per_gb or 0.0)


class DeclaredMeter:
    """Meter that computes an energy counter from declared values after the run."""

    periodic = False  # not read during the run

    def __init__(self, options: DeclaredOptions) -> None:
        self._options = options

    def describe(self) -> list[SensorInfo]:
        """Return one sensor: an energy counter with provenance ``declared``."""
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
        """Return no readings: they are computed after the run, from its transferred bytes."""
        return []

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return the energy counter at the start of the window and at the end of each interval."""
        return list(self._count(outcome))

    def idle_w(self) -> float:
        """Return the declared idle power in W."""
        return self._options.idle_watts

    def close(self) -> None:
        """Do nothing: no resource is held."""

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
    """Return the energy of the transferred bytes in J, by the end time of each interval.

    Without samples, all bytes count at the window's end.
    """
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
    """Return the energy in J charged for the bytes that stages transfer, by end of interval.

    Workloads in stages do not count reads and writes. So bytes are taken from the device's
    counters, or else from the stage's input and output, and spread evenly over the stage.
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
    """Return the fraction of the time from start to end that lies in ``since_ns``..``until_ns``."""
    return max(0, min(end_ns, until_ns) - max(start_ns, since_ns)) / max(1, end_ns - start_ns)


def _stage_j(stage: StageTimes, options: DeclaredOptions) -> float:
    read, written = stage.device_read_bytes, stage.device_written_bytes
    if read is None or written is None:
        read, written = stage.input_bytes, stage.output_bytes
    return options.joules("read", read) + options.joules("write", written)


def _moved(outcome: RunOutcome, samples: list[Sample]) -> Iterator[tuple[int, str, int]]:
    """Yield end time, operation and bytes of each sample, so that bytes add up to the totals.

    Bytes that the samples lack, because engines round them, are yielded at the window's end.
    """
    rest = {operation: totals.bytes for operation, totals in outcome.totals.items()}
    for sample in samples:
        taken = min(sample.bytes, rest.get(sample.operation, 0))
        rest[sample.operation] = rest.get(sample.operation, 0) - taken
        yield sample.end_ns, sample.operation, taken
    for operation, size in rest.items():
        yield outcome.window_end_ns, operation, size


def discover() -> list[Discovered]:
    """Return one entry for ``storlab meters``: the meter needs no device, so it works anywhere."""
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
    """Create the meter that a study describes.

    Raises:
        StudyError: A field is wrong.
    """
    return DeclaredMeter(read_options(DeclaredOptions, spec, target))
