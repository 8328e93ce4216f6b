"""Sentences of history pages about changes of metrics and their possible causes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from storlab.analysis.changes import FEWEST, LEVELS
from storlab.analysis.environments import Candidate
from storlab.model.decision import Interval
from storlab.words.text import change, plural, value_text

MOST_CANDIDATES = 6
_DRIVE = re.compile(r"drives\.(\d+)(?:\.(.+))?")
_CHANCES = dict(zip(LEVELS, ("under 5\u00a0%", "under 1\u00a0%", "under 0.1\u00a0%"), strict=True))
_LONGEST = 160  # longest printed fact in characters; mount options of an overlay are longer


class Levels(NamedTuple):
    """Levels of a metric before and after a change."""

    before: float
    after: float
    unit: str

    @property
    def words(self) -> str:
        """Both levels as text, such as ``1,000 MB/s to 950 MB/s``."""
        return f"{value_text(self.before, self.unit)} to {value_text(self.after, self.unit)}"


def unchanged_text(results: int, changes: str) -> str:
    """Return the text ``changes``, or a note that the results are too few to detect a change."""
    if not 0 < results < FEWEST:
        return changes
    return f"{plural(results, 'result')}: too few to detect a change, {FEWEST} are needed"


def shift_text(ratio: Interval | None, levels: Levels) -> str:
    """Format a change of level as ``5.0 % less``, or as both levels if there is no ratio."""
    return f"from {levels.words}" if ratio is None else change(ratio.estimate).words


def shift_sign(ratio: Interval | None) -> str:
    """Format a change of level as short text for drawings: ``−5.0 %``."""
    if ratio is None:
        return "changed"
    described = change(ratio.estimate)
    if described.kind == "multiple":
        return f"\u00d7\u00a0{described.number}"
    return f"{'−' if described.kind == 'less' else '+'}{described.number}\u00a0%"


def shift_levels(ratio: Interval | None, levels: Levels) -> str:
    """Format both levels and the interval: ``1,000 MB/s to 950 MB/s, 4.6–5.4 % less``."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return levels.words
    low, high = change(ratio.low), change(ratio.high)
    if low.kind != high.kind:
        return f"{levels.words}, {low.words} to {high.words}"
    near, far = (high, low) if low.kind == "less" else (low, high)
    return f"{levels.words}, {near.number}–{far.words}"


def chance_text(chance: float) -> str:
    """Format the false-alarm probability of a change, such as ``under 1 %``."""
    return _CHANCES[chance]


def changed_text(titles: Sequence[str]) -> str:
    """Return the names of metrics that changed together, as ``Throughput and 5 others``."""
    more = len(titles) - 1
    return titles[0] + (f" and {plural(more, 'other')}" if more else "")


def course_text(changes: Sequence[tuple[str, str]], results: int) -> str:
    """Return the changes of a metric with their dates, or a note that nothing changed."""
    if changes:
        return "; ".join(f"{text} from {date}" for text, date in changes)
    return "no change found" if results >= FEWEST else "too few results to detect a change"


def course_shows(name: str, results: int, newest: str) -> str:
    """Describe a drawing of a metric over time for readers who cannot see it."""
    return (
        f"{name} of {plural(results, 'result')} over time, each with its interval and its runs. "
        f"The newest: {newest}. The table of results has the values"
    )


def field_text(path: str) -> str:
    """Format the path of an environment fact: ``firmware of drive 1``, ``CPU model``."""
    if path == "versions.storlab":
        return "storlab"
    drive = _DRIVE.fullmatch(path)
    text = path.removeprefix("settings.")
    if drive is not None:
        text = f"{drive[2]} of drive {drive[1]}" if drive[2] else f"drive {drive[1]}"
    return re.sub(r"\bcpu\b", "CPU", text.replace(".", " ").replace("_", " "))


def candidate_text(candidate: Candidate) -> str:
    """Format a possible cause: ``kernel: Linux 6.8, then Linux 6.9 (1 result later)``."""
    difference = candidate.difference
    notes = []
    if candidate.offset:
        after = "later" if candidate.offset > 0 else "earlier"
        notes.append(f"{plural(abs(candidate.offset), 'result')} {after}")
    if candidate.elsewhere:
        notes.append(f"also changed {plural(candidate.elsewhere, 'other time')}")
    note = f" ({', '.join(notes)})" if notes else ""
    there, here = _fact(difference.there), _fact(difference.here)
    return f"{field_text(difference.field)}: {there}, then {here}{note}"


def candidates_text(candidates: Sequence[Candidate], *, is_imported: bool) -> list[str]:
    """Return the possible causes of a change and the number of others, or a note if none.

    Args:
        candidates: Environment facts that changed near a change of a metric.
        is_imported: Whether the result before or after the change was imported.
    """
    if candidates:
        shown = [candidate_text(candidate) for candidate in candidates[:MOST_CANDIDATES]]
        more = len(candidates) - len(shown)
        return [*shown, f"and {plural(more, 'more fact')}"] if more else shown
    if is_imported:
        return ["Imported results have no facts about their machine."]
    return ["No recorded fact of machine, target or settings changed near it."]


def _fact(value: Any) -> str:
    if value is None:
        return "unknown"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
