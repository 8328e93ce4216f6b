"""Caveats of a brief: circumstances to consider before using its numbers."""

from __future__ import annotations

from storlab.analysis.compare import Comparison
from storlab.analysis.drift import DRIFT
from storlab.analysis.points import page_of
from storlab.base.units import format_duration
from storlab.brief.fact_tables import planned_repeats
from storlab.brief.method_definitions import has_window
from storlab.words.text import and_list, plural
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
        sentences.append(
            f"{plural(failed, 'run')} failed and {'is' if failed == 1 else 'are'} part of "
            "no mean; they are listed in the appendix."
        )
    sentences += _repeated(comparison)
    if done + failed < planned:
        missing = planned - done - failed
        sentences.append(
            f"The campaign is not complete: {plural(missing, 'run')} of {planned:,} "
            f"{'is' if missing == 1 else 'are'} missing. Cells without a finished run say "
            "“not measured”."
        )
    for flag in flag_meanings().values():
        where = _touched(comparison, flag.kind) if flag.caveat else []
        if where:
            sentences.append(f"{flag.meaning} Marked {flag.letter}: {and_list(where)}.")
        if where and flag.kind == DRIFT:
            sentences += _drifts(comparison)
    sentences += _own_waits(comparison)
    if min(planned_repeats(comparison), default=3) < 3:
        sentences.append("With fewer than three repeats the intervals are wide or missing.")
    shortest = min(store.study.study.runtime for store in stores)
    if has_window(comparison) and shortest < 60_000_000_000:
        window = format_duration(shortest)
        sentences.append(
            f"The measure window of {window} is short: caches, garbage collection and "
            "thermal limits of a device may not show in it."
        )
    return sentences


def _repeated(comparison: Comparison) -> list[str]:
    """Return a caveat that names the runs repeated after failed attempts.

    Whatever makes a target fail may also make its successful runs slow.
    """
    repeated = [run for run in comparison.dataset.all_runs() if run.record.attempts]
    if not repeated:
        return []
    named = [
        f"{run.record.run_id} on {run.target} ({run.record.attempts[-1].failure.message})"
        for run in repeated[:MOST_REPEATED]
    ]
    more = len(repeated) - len(named)
    names = "; ".join(named) + (f"; and {more:,} more" if more else "")
    were = "was" if len(repeated) == 1 else "were"
    return [
        f"{plural(len(repeated), 'run')} failed before and {were} measured again: {names}. All "
        "failures stand in the records (attempts)."
    ]


def _drifts(comparison: Comparison) -> list[str]:
    texts = drift_texts(comparison)
    more = len(texts) - MOST_DRIFTS
    rest = [f"The repeats of {plural(more, 'more point')} depend on their order, too."]
    return [f"{text}." for text in texts[:MOST_DRIFTS]] + (rest if more > 0 else [])


def drift_texts(comparison: Comparison) -> list[str]:
    """Describe the repeats in order of time for each point and target that depends on the order."""
    return [
        f"{cell.target}, {section.where(point)}: {flag.message}"
        for section in comparison.sections
        for point in section.points
        for cell in comparison.row(point).cells.values()
        for flag in cell.flags
        if flag.kind == DRIFT
    ]


def _own_waits(comparison: Comparison) -> list[str]:
    """Return a caveat about more workers than cores.

    Runs are not flagged for this, because the study asks for it.
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
    # If affinity or a cpuset limits the cores, not the study, then the study is not the cause.
    confined = any(
        record.cpu.cores < (record.cpu.machine_cores or 0) and not record.params.get("cpus")
        for run in comparison.dataset.all_runs()
        if (record := run.record).cpu is not None
        and record.cpu.cores < page_of(record.kind).load.workers_of(record.params)
    )
    why = (
        "Some of these runs could use only a part of the machine’s cores (affinity or cpuset of "
        "the client)"
        if confined
        else "That is the work that the study asks for, not others' load"
    )
    longest = max(wait for _, _, wait in waits)
    return [
        f"In {plural(len(waits), 'run')} more workers were asked for than there are cores (up to "
        f"{workers:,} on {cores:,}): they waited for one another in up to {longest:.3g}\u00a0% of "
        f"the window, and latencies include these waits. {why}; how long they waited stands with "
        "each run (longest_wait_percent)."
    ]


def _touched(comparison: Comparison, kind: str) -> list[str]:
    where, everywhere = [], 0
    flagged = comparison.flagged(kind)
    for target in (target for target in comparison.targets if target in flagged):
        cells = (row.cells[target] for row in comparison.rows.values())
        planned = sum(cell.point_id is not None for cell in cells)
        count = len(flagged[target])
        everywhere += count == planned
        at = "every point" if count == planned > 1 else f"{count} of {plural(planned, 'point')}"
        where.append(target if count == planned == 1 else f"{target} at {at}")
    return ["every point"] if everywhere == len(comparison.targets) > 1 else where
