"""Marks beside numbers that are computed from power readings."""

from __future__ import annotations

from storlab.analysis.efficiency import Account
from storlab.brief.flags import Mark, mark
from storlab.figures.common import NOT_MEASURED
from storlab.words.text import plural


def power_marks(account: Account) -> list[Mark]:
    """Return the marks of a target's energy: not measured, runs missing, or meter shared."""
    marks = []
    if account.provenance in NOT_MEASURED:
        marks.append(mark(account.provenance, f"power is {account.provenance}"))
    if len(account.entries) == 1:
        marks.append(mark("one-run", "one run with energy"))
    if len(account.entries) < account.runs:
        gone = account.runs - len(account.entries)
        text = f"{plural(gone, 'run')} of {account.runs} without energy: {account.lost}"
        marks.append(mark("energy-lost", text))
    if account.share_rules:
        marks.append(mark("share", "; ".join(account.share_rules)))
    return marks
