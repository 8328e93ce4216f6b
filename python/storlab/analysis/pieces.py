"""The pieces of fixed work: epochs of a training, checkpoints and restores, one after the other.

Read from the details that an engine leaves in ``run.json``; their energy is that of the spans of
the same kind, at the boundary that the brief shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storlab.analysis.compare import Cell
from storlab.analysis.dataset import RunData
from storlab.analysis.stats import Interval, mean_interval
from storlab.base.units import J_PER_WH
from storlab.contracts.registry import FAMILIES
from storlab.model.power import Boundary


@dataclass(frozen=True, slots=True)
class Piece:
    """One epoch, one checkpoint or one restore of one run. The units stand last in the names."""

    kind: str  # of its span: epoch, write, restore
    number: int  # from 1
    values: Mapping[str, float] = field(default_factory=dict)
    workers: Mapping[int, float] = field(default_factory=dict)  # s, by rank or accelerator
    provenance: str = "measured"  # of its energy
    clients: Mapping[int, str] = field(default_factory=dict)  # of the workers, in a cluster


@dataclass(frozen=True, slots=True)
class Worker:
    """A rank or an accelerator over all pieces of a kind, and over the repeats. Seconds."""

    number: int
    interval: Interval  # of the repeats' means (of their sums for stalls)
    least: float  # of any repeat
    most: float
    client: str = ""  # of a cluster, that it was on; of the first repeat


def pieces_of(run: RunData, boundary: Boundary | None = None) -> list[Piece]:
    """All pieces of a run, by kind and in order of time; empty where the engine told none."""
    record = run.record
    pieces: list[Piece] = []
    for piece in FAMILIES[record.kind].page.pieces:
        kind, energies = piece.kind, _energies(run, piece.kind, boundary)
        for place, read in enumerate(piece.read(record)):
            values, energy = read.values, energies.get(place)
            if energy is not None:
                values = {**values, "energy_j": energy, "energy_wh": energy / J_PER_WH}
            provenance = _provenance(run, boundary)
            pieces.append(Piece(kind, place + 1, values, read.workers, provenance, read.clients))
    return pieces


def _energies(run: RunData, kind: str, boundary: Boundary | None) -> dict[int, float]:
    """J of the spans of a kind, by their place among these."""
    places = [n for n, span in enumerate(run.record.spans) if span.kind == kind]
    return {
        places.index(power.span): power.energy_j
        for power in run.record.span_power
        if power.boundary == boundary and power.span in places
    }


def _provenance(run: RunData, boundary: Boundary | None) -> str:
    words = [power.provenance for power in run.record.span_power if power.boundary == boundary]
    return next((word for word in words if word != "measured"), "measured")


def cell_pieces(cell: Cell, kind: str) -> dict[int, list[Piece]]:
    """The pieces of a kind of all finished repeats, by number."""
    boundary = None if cell.power is None else cell.power.boundary
    by_number: dict[int, list[Piece]] = {}
    for run in cell.runs:
        for piece in pieces_of(run, boundary):
            if piece.kind == kind:
                by_number.setdefault(piece.number, []).append(piece)
    return dict(sorted(by_number.items()))


def interval_of(pieces: Sequence[Piece], name: str) -> Interval | None:
    """Mean of the repeats with its interval; None unless each of them has the value."""
    values = [piece.values[name] for piece in pieces if name in piece.values]
    return mean_interval(values) if values and len(values) == len(pieces) else None


def workers_of(cell: Cell, kind: str, *, summed: bool = False) -> list[Worker]:
    """Every rank or accelerator: mean over the pieces of a run, or their sum."""
    durations: dict[int, list[float]] = {}
    clients: dict[int, str] = {}
    for run in cell.runs:
        pieces = [piece for piece in pieces_of(run) if piece.kind == kind]
        for piece in pieces:
            clients = {**piece.clients, **clients}
        for number in sorted({number for piece in pieces for number in piece.workers}):
            times = [piece.workers[number] for piece in pieces if number in piece.workers]
            total = math.fsum(times)
            durations.setdefault(number, []).append(total if summed else total / len(times))
    return [
        Worker(number, mean_interval(values), min(values), max(values), clients.get(number, ""))
        for number, values in sorted(durations.items())
    ]
