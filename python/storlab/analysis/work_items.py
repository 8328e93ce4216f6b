"""Stages of fixed work: the epochs of a training, or checkpoints and restores, in sequence.

They are read from the engine details in ``run.json``. The energy of a stage is that of its span
(the stage's part of the measure window), at the power boundary that the brief shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storlab.analysis.compare import Cell
from storlab.analysis.dataset import RunData
from storlab.analysis.stats import mean_interval, printable
from storlab.base.units import J_PER_WH
from storlab.contracts.registry import FAMILIES
from storlab.model.decision import Interval
from storlab.model.power import Boundary


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One epoch, checkpoint or restore of one run; value names end in their unit."""

    kind: str  # kind of its span: epoch, write or restore
    number: int  # number of the stage, from 1
    values: Mapping[str, float] = field(default_factory=dict)
    workers: Mapping[int, float] = field(default_factory=dict)  # seconds by rank or accelerator
    provenance: str = "measured"  # provenance of the energy
    clients: Mapping[int, str] = field(default_factory=dict)  # client of each worker, in a cluster


@dataclass(frozen=True, slots=True)
class Worker:
    """Time of one rank or accelerator over all stages of a kind and all repeats, in seconds."""

    number: int
    interval: Interval  # interval over the repeats, each with its mean or sum
    least: float  # smallest value of any repeat
    most: float
    client: str = ""  # cluster client that it ran on, in the first repeat


def work_items_of(run: RunData, boundary: Boundary | None = None) -> list[WorkItem]:
    """Return all stages of a run by kind, in order of time; empty if the engine reported none."""
    record = run.record
    pieces: list[WorkItem] = []
    for piece in FAMILIES[record.kind].page.work_items:
        kind, energies = piece.kind, _energies(run, piece.kind, boundary)
        for place, read in enumerate(piece.read(record)):
            values, energy = read.values, energies.get(place)
            if energy is not None:
                values = {**values, "energy_j": energy, "energy_wh": energy / J_PER_WH}
            provenance = _provenance(run, boundary)
            pieces.append(WorkItem(kind, place + 1, values, read.workers, provenance, read.clients))
    return pieces


def _energies(run: RunData, kind: str, boundary: Boundary | None) -> dict[int, float]:
    """Return the energy in joules of each stage of a kind, by its index within that kind."""
    places = [n for n, span in enumerate(run.record.spans) if span.kind == kind]
    return {
        places.index(power.span): power.energy_j
        for power in run.record.span_power
        if power.boundary == boundary and power.span in places
    }


def _provenance(run: RunData, boundary: Boundary | None) -> str:
    words = [power.provenance for power in run.record.span_power if power.boundary == boundary]
    return next((word for word in words if word != "measured"), "measured")


def cell_work_items(cell: Cell, kind: str) -> dict[int, list[WorkItem]]:
    """Return all stages of a kind in all finished repeats, by their number within the run."""
    boundary = None if cell.power is None else cell.power.boundary
    by_number: dict[int, list[WorkItem]] = {}
    for run in cell.runs:
        for piece in work_items_of(run, boundary):
            if piece.kind == kind:
                by_number.setdefault(piece.number, []).append(piece)
    return dict(sorted(by_number.items()))


def interval_of(pieces: Sequence[WorkItem], name: str) -> Interval | None:
    """Return the mean of value ``name`` over the stages; None if a stage lacks the value."""
    values = [piece.values[name] for piece in pieces if name in piece.values]
    if not values or len(values) != len(pieces):
        return None
    return printable(mean_interval(values), values)


def workers_of(cell: Cell, kind: str, *, summed: bool = False) -> list[Worker]:
    """Return the time of every rank or accelerator: mean over the stages of a run, or their sum."""
    durations: dict[int, list[float]] = {}
    clients: dict[int, str] = {}
    for run in cell.runs:
        pieces = [piece for piece in work_items_of(run) if piece.kind == kind]
        for piece in pieces:
            clients = {**piece.clients, **clients}
        for number in sorted({number for piece in pieces for number in piece.workers}):
            times = [piece.workers[number] for piece in pieces if number in piece.workers]
            total = math.fsum(times)
            durations.setdefault(number, []).append(total if summed else total / len(times))
    return [
        Worker(
            number,
            printable(mean_interval(values), values),
            min(values),
            max(values),
            clients.get(number, ""),
        )
        for number, values in sorted(durations.items())
    ]
