"""Figure of each target's throughput by mix, with GETs and PUTs stacked."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.common import operations_of
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, mixes_of
from storlab.figures.stacks import Stacks, mean_text
from storlab.words.text import interval_text
from storlab.workloads.object.figures.throughput import NAME, ratios_in_words


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each object size at which several kinds of requests moved bytes."""
    whole = comparison.column(f"{NAME}.all")
    if whole is None:
        return []
    figures = (_figure(mixes, whole) for mixes in mixes_of(comparison, sections))
    return [figure for figure in figures if figure is not None]


def _figure(mixes: Mixes, whole: Column) -> Figure | None:
    names = {f"{NAME}.{operation}": name for operation, name in operations_of(mixes.section)}
    stacks = Stacks(mixes.comparison)
    for mix, _, cell in mixes.cells():
        total = cell.values.get(whole.key)
        if total is not None:
            pieces = {n: cell.values[k].estimate for k, n in names.items() if k in cell.values}
            stacks.add(cell, mix, pieces, total, whole, cell.provenance)
    parts = stacks.known(tuple(names.values()))
    if len(parts) < 2:
        return None
    words = " + ".join(parts)
    titles = (mixes.x_title, "throughput (MB/s)")
    title = f"{words}: {ratios_in_words(mixes, whole) or 'what each target moved'}"
    return mixes.figure(
        kind="object_stacked",
        name=mixes.name("stacked-by-mix"),
        title=title,
        shows=f"Stacked bars: throughput in MB/s of {words} by mix and target",
        spec=stacks.spec(mixes.targets, mixes.order, parts, titles, "MB/s"),
        columns=["mix", "target", "all (MB/s)", *(f"{name} (MB/s)" for name in names.values())],
        rows=[
            [
                mix,
                cell.target,
                interval_text(cell.values.get(whole.key)),
                *(mean_text(cell, key) for key in names),
            ]
            for mix, _, cell in mixes.cells()
        ],
    )
