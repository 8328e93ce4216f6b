"""Caveats of a brief: circumstances to consider before using its numbers, one sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.load_curve import LoadPoint
from storlab.base.units import format_duration
from storlab.words.figures import offered_text
from storlab.words.text import and_list, named, plural

FEW_REPEATS = "With fewer than three repeats the intervals are wide or missing."
EVERY_POINT = "every point"


def changed_settings(changes: Sequence[str]) -> str:
    """Return the caveat that a brief was made under other settings than those of its study."""
    return f"Made with settings other than the study’s: {'; '.join(changes)}."


def other_questions(questions: Sequence[str], before: Sequence[str]) -> str:
    """Return a phrase for questions that replace those of the study."""
    instead = and_list(before) if before else "the usual ones"
    return f"questions {and_list(questions)} instead of {instead}"


def other_baseline(baseline: str, before: str) -> str:
    """Return a phrase for a baseline that replaces that of the study."""
    return f"baseline {baseline} instead of {before}"


def other_boundaries(*, accepted: bool) -> str:
    """Return a phrase for accepting, or refusing, ratios across unequal power boundaries."""
    return f"power at unequal boundaries {'accepted' if accepted else 'not compared'}"


def only_points(selections: Sequence[str], points: int) -> str:
    """Return a phrase for a selection of points, with the number of those selected."""
    return f"only points with {' or '.join(selections)} ({points:,})"


def load_levels(offered: Sequence[LoadPoint]) -> str:
    """Return the caveat that targets at the same load level were offered different loads.

    Args:
        offered: Point of each target at the same load level.
    """
    rates = and_list([f"{offered_text(load)} on {named(load.cell.target)}" for load in offered])
    return (
        "Load levels are percentages of each target’s own maximum, so targets at the same level do "
        f"different amounts of work: {rates}. The figures of latency under load show them at equal "
        "load."
    )


def failed(runs: int) -> str:
    """Return the caveat that runs failed."""
    are, they = ("is", "it is") if runs == 1 else ("are", "they are")
    return (
        f"{plural(runs, 'run')} failed and {are} excluded from all means; "
        f"{they} listed in the appendix."
    )


def incomplete(missing: int, planned: int) -> str:
    """Return the caveat that runs of the campaign are missing."""
    return (
        f"The campaign is not complete: {plural(missing, 'run')} of {planned:,} "
        f"{'is' if missing == 1 else 'are'} missing. Cells without a finished run say "
        "“not measured”."
    )


def repeated(examples: Sequence[tuple[str, str, str]], runs: int) -> str:
    """Return the caveat that runs only succeeded after failed attempts.

    The cause of the failures may also have slowed down the successful runs.

    Args:
        examples: Run id, target and failure of the runs to name.
        runs: Number of all such runs.
    """
    names = "; ".join(
        f"{run_id} on {named(target)} ({failure})" for run_id, target, failure in examples
    )
    more = f"; and {runs - len(examples):,} more" if runs > len(examples) else ""
    were = "was" if runs == 1 else "were"
    return (
        f"{plural(runs, 'run')} failed before and {were} measured again: {names}{more}. The "
        "records of runs list all failures (attempts)."
    )


def flagged_points(target: str, points: int, planned: int) -> str:
    """Return at how many points a target has a flag, such as ``Disk at 3 of 4 points``."""
    if points == planned == 1:
        return named(target)
    where = EVERY_POINT if points == planned else f"{points} of {plural(planned, 'point')}"
    return f"{named(target)} at {where}"


def more_drifts(points: int) -> str:
    """Return the caveat that the repeats of further points depend on their order in time."""
    return f"The repeats of {plural(points, 'more point')} depend on their order in time, too."


def more_workers_than_cores(
    runs: int, workers: int, cores: int, longest_wait_percent: float, *, is_confined: bool
) -> str:
    """Return the caveat that workers waited for cores, because there were more workers than cores.

    Args:
        runs: Number of such runs.
        workers: Largest number of workers of a run.
        cores: Cores that the run could use.
        longest_wait_percent: Longest wait for a core, in percent of the window.
        is_confined: Whether affinity or a cpuset limits the cores, rather than the machine.
    """
    why = (
        "Some of these runs could use only a part of the machine’s cores (affinity or cpuset of "
        "the client)."
        if is_confined
        else "With so many workers such waits are expected; other programs may add to them."
    )
    return (
        f"{plural(runs, 'run')} used more workers than cores (up to {workers:,} on {cores:,}). "
        f"Workers waited for a core in up to {longest_wait_percent:.3g}\u00a0% of the window, and "
        f"latencies include these waits. {why} The record of each run has its wait "
        "(longest_wait_percent)."
    )


def short_window(window_ns: int) -> str:
    """Return the caveat that the measure window is shorter than a minute."""
    return (
        f"The measure window of {format_duration(window_ns)} is short: caches, garbage collection "
        "and thermal limits of a device may not show in it."
    )
