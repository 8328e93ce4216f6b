"""Lines below a figure: scale of the work, remarks, source and flags."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section
from storlab.figures.figure import Figure
from storlab.figures.theme import SMALL_PX, role
from storlab.model.result import RunRecord
from storlab.workloads.common.flags import flag_meanings

# Width of a character in DejaVu Sans, the widest fallback if Helvetica and Arial are missing.
CHARACTER_PX = 6.65
NARROWEST = 250  # px; the drawing area is narrower only because of long labels
MARGIN = 60  # px taken by an axis beside the drawing area
MOST_LABELS = 3
"""Largest number of flags beside a number or below a figure; a table of caveats has all."""


def flag_line(flags: Sequence[str]) -> str:
    """Return the first flags of a figure by name, and the number of the others, as one line."""
    more = [f"+{len(flags) - MOST_LABELS}"] if len(flags) > MOST_LABELS else []
    return ", ".join([*(flag.partition(":")[0] for flag in flags[:MOST_LABELS]), *more])


def with_foot(
    comparison: Comparison, sections: Sequence[Section], figure: Figure, run_id: str = ""
) -> Figure:
    """Add source, flags, and footer lines below the drawing: scale if not full size, and remark.

    With ``run_id``, source and flags are only of that run.
    """
    cells = _cells(comparison, figure)
    records = [run.record for cell in cells for run in cell.runs]
    if run_id:
        records = [record for record in records if record.run_id == run_id]
    flags = () if run_id else tuple(_flags(figure, cells))
    source = _source(comparison, records) + ("" if run_id else _single(cells))
    lines = [
        *_scale(comparison, sections, figure),
        *([figure.remark] if figure.remark else ()),
    ]
    if not lines:
        return replace(figure, source=source, flags=flags)
    width = int((_width(figure) + MARGIN) / CHARACTER_PX)
    text = [part for line in lines for part in textwrap.wrap(line, width)]
    title = {
        "text": text,
        "orient": "bottom",
        "anchor": "start",
        "fontSize": SMALL_PX,
        "fontWeight": "normal",
        "color": role("fig-muted"),
        "lineHeight": SMALL_PX + 3,
        "offset": 10,
        "frame": "bounds",
    }
    if any(part in figure.spec for part in ("hconcat", "vconcat", "concat")):
        del title["frame"]
    return replace(
        figure, spec={**figure.spec, "title": title}, foot=tuple(lines), source=source, flags=flags
    )


def _width(figure: Figure) -> float:
    spec = figure.spec
    panels = spec.get("hconcat") or spec.get("concat", [])[: spec.get("columns", 1)]
    panels = panels or [spec.get("vconcat", [spec])[0]]
    widths = [panel.get("width") for panel in panels]
    return max(sum(w for w in widths if isinstance(w, int | float)), NARROWEST)


def _cells(comparison: Comparison, figure: Figure) -> list[Cell]:
    shown = set(figure.point_ids)
    every = (cell for row in comparison.rows.values() for cell in row.cells.values())
    return [cell for cell in every if cell.point_id in shown]


def _source(comparison: Comparison, records: Sequence[RunRecord]) -> str:
    """Return a line such as ``Source: storlab study “demo”: 24 runs by native 1.0, ...``."""
    names = list(dict.fromkeys(store.study.study.name for store in comparison.dataset.stores))
    study = f"Source: storlab study “{'”, “'.join(names)}”"
    if not records:
        return f"{study}, as it declares"
    engines = sorted({f"{r.engine.name} {r.engine.version}" for r in records})
    days = sorted({datetime.fromisoformat(r.started_at).astimezone(UTC).date() for r in records})
    first, last = (f"{day.day} {day:%B %Y}" for day in (days[0], days[-1]))
    when = first if first == last else f"{first} to {last}"
    count = f"{len(records):,} run{'' if len(records) == 1 else 's'}"
    return f"{study}: {count} by {', '.join(engines)}, {when}"


def _single(cells: Sequence[Cell]) -> str:
    """Return a note if points have no interval because they have only one run; else empty."""
    counts = [len(cell.runs) for cell in cells if cell.runs]
    if 1 not in counts:
        return ""
    if set(counts) == {1}:
        return ", one of each: no intervals"
    return f", no intervals at {counts.count(1)} of {len(counts)} points with one run"


def _flags(figure: Figure, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield each flag of the points that a figure shows, such as ``client-bound: A at 1 of 4``.

    Flags that qualify claims come first. Flags about latencies are listed only below figures that
    show latencies.
    """
    by_flag: dict[str, dict[str, int]] = {}
    counts: dict[str, int] = {}
    known = flag_meanings()
    for cell in cells:
        counts[cell.target] = counts.get(cell.target, 0) + 1
        for flag in cell.flags:
            if flag.kind in known and known[flag.kind].latencies and not figure.latencies:
                continue
            runs = by_flag.setdefault(flag.kind, {})
            runs[cell.target] = runs.get(cell.target, 0) + 1
    order = sorted(known, key=lambda kind: known[kind].precedence)
    for kind in sorted(by_flag, key=lambda kind: order.index(kind) if kind in order else 99):
        label = known[kind].label if kind in known else kind.replace("-", " ")
        where = (
            target if count == counts[target] else f"{target} at {count} of {counts[target]}"
            for target, count in by_flag[kind].items()
        )
        yield f"{label}: {', '.join(where)}"


def _scale(comparison: Comparison, sections: Sequence[Section], figure: Figure) -> Iterator[str]:
    words = scale_words(comparison, sections, figure)
    if words:
        yield f"Work {' or '.join(words)}"


def scale_words(comparison: Comparison, sections: Sequence[Section], figure: Figure) -> list[str]:
    """Return remarks such as ``scaled to 1 %`` if the work was smaller than full size."""
    shown = set(figure.point_ids)
    words: dict[str, None] = {}
    for section in sections:
        for point in section.points:
            word = section.page.text.scale_note(point.params)
            cells = comparison.row(point).cells.values() if word else ()
            if shown & {cell.point_id for cell in cells}:
                words[word] = None
    return list(words)
