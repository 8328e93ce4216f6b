"""Sentences of a brief's section on power, and caveats about power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storlab.analysis import digits
from storlab.analysis.efficiency import Account
from storlab.base.units import format_number
from storlab.model.decision import Decision
from storlab.words.text import (
    BIAS,
    MISSING,
    all_named,
    mean_ratio,
    named,
    plural,
    ratio_text,
)


def not_metered(target: str, reason: str) -> str:
    """Return a sentence that a target's power was not measured, with the reason."""
    return f"Power of {named(target)}: {MISSING} ({reason})."


def drawn(target: str, account: Account, watts: Sequence[float], points: int, missing: int) -> str:
    """Return a sentence with the range of the power that a target drew.

    Args:
        target: Name of the target.
        account: Energy account of the target, for provenance and power boundary.
        watts: Mean power of each point, in watts.
        points: Number of points with power.
        missing: Number of points without power.
    """
    low, high = format_number(min(watts)), format_number(max(watts))
    span = f"{low} W" if low == high else f"{low} to {high} W"
    word = "drew" if account.provenance == "measured" else f"is {account.provenance} to draw"
    sentence = (
        f"{named(target)} {word} {span} at the {account.label}, over {plural(points, 'point')}"
    )
    return f"{sentence}; at {missing} it was {MISSING}." if missing else f"{sentence}."


def refused(sides: tuple[str, str], boundaries: str) -> str:
    """Return a sentence that efficiencies at different power boundaries are not compared."""
    return (
        f"Power of {all_named(sides)} not compared: the meters cover different equipment "
        f"({boundaries})."
    )


def no_ratio(sides: tuple[str, str]) -> str:
    """Return a sentence that no point has the efficiency of both targets."""
    return f"No ratio of throughput per watt: no point has a value of both {all_named(sides)}."


def per_joule(decisions: Sequence[Decision]) -> str:
    """Return a sentence with the throughput per watt of a target as a multiple of the baseline's.

    Args:
        decisions: Comparisons of the same two targets, one per point; at least one.
    """
    target, baseline = map(named, decisions[0].sides)
    what = f"the throughput per watt of {baseline}"
    if len(decisions) == 1 and digits.is_too_noisy(decisions[0].ratio):
        noisy = f"{digits.TOO_NOISY} to estimate"
        return f"Throughput per watt of {target} and {baseline}: the difference is {noisy}."
    if len(decisions) == 1:
        span = f"{ratio_text(decisions[0].ratio)} {what}."
    else:
        decided = sum(decision.decided for decision in decisions)
        where = "all of them" if decided == len(decisions) else f"{decided or 'none'} of them"
        of = f" of {plural(len(decisions), 'point')}"
        mean = mean_ratio([decision.ratio for decision in decisions], what, of)
        span = f"{mean}; the difference is significant at {where}. {BIAS}"
    boundaries = decisions[0].boundaries
    accepted = f" The study accepts their unequal boundaries: {boundaries}." if boundaries else ""
    return f"{target} reached {span}{accepted}"


def boundary_caveat(boundaries: str) -> str:
    """Return the caveat that power was measured at different power boundaries."""
    return f"Power at unequal boundaries, which the study accepts: {boundaries}."


def weak(targets: Mapping[str, Sequence[str]]) -> str:
    """Return sentences that name, by provenance, the targets whose power was not measured."""
    return " ".join(
        f"The power of {all_named(names)} is {provenance}, not measured."
        for provenance, names in targets.items()
    )
