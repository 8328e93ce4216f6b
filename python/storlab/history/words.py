"""Sentences of history pages on changes and their candidates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from storlab.analysis.changes import FEWEST, LEVELS
from storlab.figures.trend import value_text
from storlab.history.series import Candidate, PointHistory, Shift
from storlab.words.text import change, plural

MOST_CANDIDATES = 6
_DRIVE = re.compile(r"drives\.(\d+)(?:\.(.+))?")
_CHANCES = dict(zip(LEVELS, ("under 5\u00a0%", "under 1\u00a0%", "under 0.1\u00a0%"), strict=True))
_LONGEST = 160  # longest printed fact in characters; mount options of an overlay are longer


def unchanged_text(results: int, changes: str) -> str:
    """Return ``changes``, or a note that there are too few results to detect a change."""
    if not 0 < results < FEWEST:
        return changes
    return f"{plural(results, 'result')}: too few to detect a change, {FEWEST} are needed"


def shift_text(shift: Shift) -> str:
    """Return a change as ``5.0 % less``, or the levels if there is no ratio."""
    if shift.interval is None:
        unit = shift.column.unit
        return f"from {value_text(shift.before, unit)} to {value_text(shift.after, unit)}"
    return change(shift.ratio.estimate).words


def shift_sign(shift: Shift) -> str:
    """Return the shortest text of a change, for drawings: ``−5.0 %``."""
    if shift.interval is None:
        return "changed"
    described = change(shift.ratio.estimate)
    if described.kind == "multiple":
        return f"\u00d7\u00a0{described.number}"
    return f"{'−' if described.kind == 'less' else '+'}{described.number}\u00a0%"


def shift_levels(shift: Shift) -> str:
    """Return ``1,000 MB/s to 950 MB/s, 4.6–5.4 % less``: levels and the ratio's interval."""
    unit = shift.column.unit
    levels = f"{value_text(shift.before, unit)} to {value_text(shift.after, unit)}"
    ratio = shift.interval
    if ratio is None or ratio.low is None or ratio.high is None:
        return levels
    low, high = change(ratio.low), change(ratio.high)
    if low.kind != high.kind:
        return f"{levels}, {low.words} to {high.words}"
    near, far = (high, low) if low.kind == "less" else (low, high)
    return f"{levels}, {near.number}–{far.words}"


def chance_text(shift: Shift) -> str:
    """Return the significance of a change, as ``under 1 %``."""
    return _CHANCES[shift.chance]


def field_text(path: str) -> str:
    """Return a fact's path as text: ``firmware of drive 1``, ``CPU model``."""
    if path == "versions.storlab":
        return "storlab"
    drive = _DRIVE.fullmatch(path)
    text = path.removeprefix("settings.")
    if drive is not None:
        text = f"{drive[2]} of drive {drive[1]}" if drive[2] else f"drive {drive[1]}"
    return re.sub(r"\bcpu\b", "CPU", text.replace(".", " ").replace("_", " "))


def candidate_text(candidate: Candidate) -> str:
    """Return a candidate as ``kernel: Linux 6.8, then Linux 6.9 (1 result later)``."""
    difference = candidate.difference
    notes = []
    if candidate.offset:
        after = "later" if candidate.offset > 0 else "earlier"
        notes.append(f"{plural(abs(candidate.offset), 'result')} {after}")
    if candidate.elsewhere:
        notes.append(f"changed {plural(candidate.elsewhere, 'time')} elsewhere")
    note = f" ({', '.join(notes)})" if notes else ""
    there, here = _fact(difference.there), _fact(difference.here)
    return f"{field_text(difference.field)}: {there}, then {here}{note}"


def candidates_text(candidates: Sequence[Candidate], point: PointHistory, index: int) -> list[str]:
    """Return the named candidates and the number of others, or a note that there are none."""
    if candidates:
        shown = [candidate_text(candidate) for candidate in candidates[:MOST_CANDIDATES]]
        more = len(candidates) - len(shown)
        return [*shown, f"and {plural(more, 'more fact')}"] if more else shown
    near = point.results[max(0, index - 1) : index + 1]
    if any(result.campaign.record["imported"] for result in near):
        return ["Imported results have no facts about their machine."]
    return ["No recorded fact of machine, target or settings changed near it."]


def _fact(value: Any) -> str:
    if value is None:
        return "unknown"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
