"""Caveats of a brief: reasons for caution, such as failed runs or short measure windows."""

from __future__ import annotations

from collections.abc import Iterable

from storlab.analysis.compare import Comparison
from storlab.analysis.drift import DRIFT
from storlab.analysis.load_curve import load_curve
from storlab.analysis.points import page_of
from storlab.brief.fact_tables import planned_repeats
from storlab.brief.flags import Mark, mark
from storlab.brief.method_definitions import has_window
from storlab.brief.model import FlagRow
from storlab.words import caveats as words
from storlab.words.text import and_list
from storlab.workloads.common.flags import flag_meanings
from storlab.workloads.common.metrics import wait_for_each_other

MOST_DRIFTS = 8  # points whose repeats the caveats list in order of time
MOST_REPEATED = 3  # repeated runs that the caveats name


def caveats(comparison: Comparison) -> list[str]:
    """Return the caveats of a comparison, one sentence each."""
    stores = comparison.dataset.stores
    sentences = []
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    planned = sum(cell.planned for cell in cells)
    done, failed = sum(len(c.runs) for c in cells), sum(len(c.failed) for c in cells)
    if failed:
        sentences.append(words.failed(failed))
    sentences += _repeated(comparison)
    if done + failed < planned:
        sentences.append(words.incomplete(planned - done - failed, planned))
    sentences += _load_levels(comparison)
    sentences += _drifts(comparison)
    sentences += _own_waits(comparison)
    if min(planned_repeats(comparison), default=3) < 3:
        sentences.append(words.FEW_REPEATS)
    shortest = min(store.study.study.runtime for store in stores)
    if has_window(comparison) and shortest < 60_000_000_000:
        sentences.append(words.short_window(shortest))
    return sentences


def flag_rows(comparison: Comparison, legend: Iterable[Mark]) -> list[FlagRow]:
    """Return the table of caveats: marks of a brief, and flags that are named before the numbers.

    Args:
        comparison: Comparison with all points.
        legend: Marks that stand beside numbers of the brief.
    """
    marks = {marked.kind: marked for marked in legend}
    known = [meaning.kind for meaning in flag_meanings().values() if meaning.caveat]
    kinds = [kind for kind in known if comparison.flagged(kind)]
    return [
        FlagRow(marks.get(kind) or mark(kind, ""), and_list(_touched(comparison, kind)))
        for kind in dict.fromkeys([*kinds, *marks])
    ]


def _repeated(comparison: Comparison) -> list[str]:
    """Return a caveat that names runs which failed at first and were repeated."""
    repeated = [run for run in comparison.dataset.all_runs() if run.record.attempts]
    if not repeated:
        return []
    named = [
        (run.record.run_id, run.target, run.record.attempts[-1].failure.message)
        for run in repeated[:MOST_REPEATED]
    ]
    return [words.repeated(named, len(repeated))]


def _load_levels(comparison: Comparison) -> list[str]:
    """Return a caveat that targets at the same load level are not at the same load."""
    for section in comparison.sections:
        if section.axes.x != section.page.load.level:
            continue
        for facet in section.facets():
            curves = (load_curve(comparison, section, facet, t) for t in comparison.targets)
            highest = [curve[-1] for curve in curves if curve]
            if len(highest) > 1 and len({load.level for load in highest}) == 1:
                return [words.load_levels(highest)]
    return []


def _drifts(comparison: Comparison) -> list[str]:
    texts = drift_texts(comparison)
    more = len(texts) - MOST_DRIFTS
    rest = [words.more_drifts(more)] if more > 0 else []
    return [f"{text}." for text in texts[:MOST_DRIFTS]] + rest


def drift_texts(comparison: Comparison) -> list[str]:
    """Describe drift: list the repeats in order of time if their values depend on that order.

    There is one text for each point and target that was flagged.
    """
    return [
        f"{cell.target}, {section.where(point)}: {flag.message}"
        for section in comparison.sections
        for point in section.points
        for cell in comparison.row(point).cells.values()
        for flag in cell.flags
        if flag.kind == DRIFT
    ]


def _own_waits(comparison: Comparison) -> list[str]:
    """Return a caveat about runs whose workers waited for each other, as they outnumber the cores.

    Such runs get no flag, because the study sets the number of workers.
    """
    waits = [
        (workers, record.cpu.cores, record.cpu.longest_wait_percent or 0.0)
        for run in comparison.dataset.all_runs()
        if (record := run.record).cpu is not None
        and wait_for_each_other(
            record.cpu, workers := page_of(record.kind).load.workers_of(record.params)
        )
        and not any(flag.kind == "starved" for flag in record.flags)
    ]
    if not waits:
        return []
    workers, cores, _ = max(waits)
    # The caveat names the cause: affinity or a cpuset if one limits the cores, else the study.
    confined = any(
        record.cpu.cores < (record.cpu.machine_cores or 0) and not record.params.get("cpus")
        for run in comparison.dataset.all_runs()
        if (record := run.record).cpu is not None
        and record.cpu.cores < page_of(record.kind).load.workers_of(record.params)
    )
    longest = max(wait for _, _, wait in waits)
    return [
        words.more_workers_than_cores(len(waits), workers, cores, longest, is_confined=confined)
    ]


def _touched(comparison: Comparison, kind: str) -> list[str]:
    where, everywhere = [], 0
    flagged = comparison.flagged(kind)
    for target in (target for target in comparison.targets if target in flagged):
        cells = (row.cells[target] for row in comparison.rows.values())
        planned = sum(cell.point_id is not None for cell in cells)
        count = len(flagged[target])
        everywhere += count == planned
        where.append(words.flagged_points(target, count, planned))
    return [words.EVERY_POINT] if everywhere == len(comparison.targets) > 1 else where
