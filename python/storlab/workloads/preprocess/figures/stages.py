"""Figure of the time of each stage, divided into workers' time on CPU and waiting."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Cell
from storlab.base.units import format_number
from storlab.figures.bars import provenance_of
from storlab.figures.figure import Figure, Place
from storlab.figures.stacks import Stacks, mean_text
from storlab.words.text import interval_text, named
from storlab.workloads.preprocess.job import STAGES

TIME, BUSY = "completion_time_s", "worker_busy_percent"
ON_CPU, WAITING, UNKNOWN = "workers on CPU", "workers waiting", "not known"
PARTS = (ON_CPU, UNKNOWN, WAITING)


def draw(far: Place) -> Figure | None:
    """Draw stacked bars of all stages at one point; None if no stage was timed."""
    cells = list(far.cells.values())
    stacks = Stacks(far.comparison)
    for stage in STAGES:
        column = far.comparison.column(f"{TIME}.{stage}")
        if column is None:
            continue
        for cell in cells:
            whole = cell.values.get(column.key)
            if whole is not None:
                pieces = _pieces(cell, stage, whole.estimate)
                provenance = provenance_of(cell, column)
                stacks.add(cell, stage, pieces, whole, column, provenance)
    if not stacks.wholes:
        return None
    parts = stacks.known(PARTS)
    return far.figure(
        kind="preprocess_stages",
        name="stages",
        text=_title(cells),
        shows="Stacked bars: time of each stage in s, of which workers were on CPU or waited",
        spec=stacks.spec(far.targets, STAGES, parts, ("", "time (s)"), "s"),
        columns=["stage", "target", "s, mean [95 %]", "workers on CPU (%)", "device (MB/s)"],
        rows=[
            [
                stage,
                cell.target,
                interval_text(cell.values.get(f"{TIME}.{stage}")),
                *(mean_text(cell, f"{name}.{stage}") for name in (BUSY, "device_mb_s")),
            ]
            for stage in STAGES
            for cell in cells
        ],
    )


def _pieces(cell: Cell, stage: str, time_s: float) -> dict[str, float]:
    busy = cell.values.get(f"{BUSY}.{stage}")
    if busy is None:
        return {UNKNOWN: time_s}
    computed = time_s * min(busy.estimate, 100.0) / 100
    return {ON_CPU: computed, WAITING: time_s - computed}


def _title(cells: Sequence[Cell]) -> str:
    """Return a title that names for each target the stage in which workers wait the most."""
    parts = []
    for cell in cells:
        shares = {
            stage: cell.values[key].estimate
            for stage in STAGES
            if (key := f"{BUSY}.{stage}") in cell.values
        }
        if shares:
            least = min(shares, key=lambda stage: shares[stage])
            parts.append(
                f"{least} on {named(cell.target)} ({format_number(shares[least])}\u00a0% on CPU)"
            )
    if not parts:
        times = (
            f"{mean_text(cell, f'{TIME}.all')}\u00a0s on {named(cell.target)}" for cell in cells
        )
        return f"all stages took {', '.join(times)}"
    return f"workers wait most in {', '.join(parts)}"
