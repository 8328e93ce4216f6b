"""Caveats of a brief: circumstances to consider before using its numbers, one sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.base.units import format_duration
from storlab.contracts.page import FlagMeaning
from storlab.words.text import and_list, plural

FEW_REPEATS = "With fewer than three repeats the intervals are wide or missing."
EVERY_POINT = "every point"


def failed(runs: int) -> str:
    """Return the caveat of runs that failed."""
    are, they = ("is", "it is") if runs == 1 else ("are", "they are")
    return f"{plural(runs, 'run')} failed and {are} part of no mean; {they} listed in the appendix."


def incomplete(missing: int, planned: int) -> str:
    """Return the caveat of a campaign with missing runs."""
    return (
        f"The campaign is not complete: {plural(missing, 'run')} of {planned:,} "
        f"{'is' if missing == 1 else 'are'} missing. Cells without a finished run say "
        "“not measured”."
    )


def repeated(named: Sequence[tuple[str, str, str]], runs: int) -> str:
    """Return the caveat of runs that succeeded after failed attempts.

    Whatever makes a target fail may also make its successful runs slow.

    Args:
        named: Run id, target and failure of the runs to name.
        runs: Number of all such runs.
    """
    names = "; ".join(f"{run_id} on {target} ({failure})" for run_id, target, failure in named)
    more = f"; and {runs - len(named):,} more" if runs > len(named) else ""
    were = "was" if runs == 1 else "were"
    return (
        f"{plural(runs, 'run')} failed before and {were} measured again: {names}{more}. All "
        "failures stand in the records (attempts)."
    )


def flagged(meaning: FlagMeaning, places: Sequence[str]) -> str:
    """Return the caveat of a flag with the targets and points that have it."""
    return f"{meaning.meaning} Marked {meaning.letter}: {and_list(places)}."


def flagged_points(target: str, points: int, planned: int) -> str:
    """Return the place of a flag on one target, such as ``Disk at 3 of 4 points``."""
    if points == planned == 1:
        return target
    where = EVERY_POINT if points == planned else f"{points} of {plural(planned, 'point')}"
    return f"{target} at {where}"


def more_drifts(points: int) -> str:
    """Return the number of further points whose repeats depend on their order in time."""
    return f"The repeats of {plural(points, 'more point')} depend on their order, too."


def more_workers_than_cores(
    runs: int, workers: int, cores: int, longest_wait_percent: float, *, is_confined: bool
) -> str:
    """Return the caveat of workers that waited for one another.

    Args:
        runs: Number of such runs.
        workers: Largest number of workers of a run.
        cores: Cores that the run could use.
        longest_wait_percent: Longest wait for a core, in percent of the window.
        is_confined: Whether affinity or a cpuset limits the cores; then the study is not the cause.
    """
    why = (
        "Some of these runs could use only a part of the machine’s cores (affinity or cpuset of "
        "the client)"
        if is_confined
        else "That is the work that the study asks for, not others' load"
    )
    return (
        f"In {plural(runs, 'run')} more workers were asked for than there are cores (up to "
        f"{workers:,} on {cores:,}): they waited for one another in up to "
        f"{longest_wait_percent:.3g}\u00a0% of the window, and latencies include these waits. "
        f"{why}; how long they waited stands with each run (longest_wait_percent)."
    )


def short_window(window_ns: int) -> str:
    """Return the caveat of a measure window shorter than a minute."""
    return (
        f"The measure window of {format_duration(window_ns)} is short: caches, garbage collection "
        "and thermal limits of a device may not show in it."
    )
