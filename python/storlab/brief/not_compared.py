"""Say why targets are not compared by power or price, such as a missing meter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from storlab.analysis.compare import Comparison
from storlab.analysis.density import storage_price
from storlab.analysis.efficiency import unequal
from storlab.analysis.verdict import targets_compared
from storlab.brief.power import is_metered
from storlab.words.text import and_list

WATTS, MONEY = "efficiency", "cost"
"""Names of the questions on power and on price, in every family that has them."""


def not_compared(comparison: Comparison) -> str:
    """Return a sentence on targets that are not compared by power or price; empty if all are."""
    if len(comparison.targets) < 2:
        return ""
    words = [text for text in (_watts(comparison), _money(comparison)) if text]
    return f"Not compared: {and_list(words)}." if words else ""


def _watts(comparison: Comparison) -> str:
    if not is_metered(comparison):
        return "watts (no meter was read)"
    if not _is_asked(comparison, WATTS):
        return ""
    metered = [
        target
        for target in comparison.targets
        if any(row.cells[target].power for row in comparison.rows.values())
    ]
    if not metered:
        return "watts (no meter gave the energy of a run)"
    if len(metered) == 1:
        return f"watts (only {metered[0]} was metered)"
    left = _left_out(comparison, WATTS)
    if not left:
        return ""
    without = [target for target in left if target not in metered]
    if len(left) < len(comparison.targets):
        reason = "not metered" if without == left else _boundaries(comparison, left)
        return f"watts of {and_list(left)} ({reason})"
    return f"watts ({_boundaries(comparison, metered)})"


def _boundaries(comparison: Comparison, targets: Sequence[str]) -> str:
    """Say why targets have no power ratio: unequal power boundaries, or no common work."""
    for row in comparison.rows.values():
        powers = {side: cell.power for side, cell in row.cells.items() if cell.power is not None}
        for (left, first), (right, second) in combinations(powers.items(), 2):
            if {left, right} & set(targets) and unequal(first, second):
                return f"unequal boundaries: {left} at {first.label}, {right} at {second.label}"
    return "no two targets were metered at the same work"


def _money(comparison: Comparison) -> str:
    targets = {column.label: column.target for column in comparison.dataset.targets}
    priced = [name for name, target in targets.items() if storage_price(target)]
    if not priced:
        return "money (no price is declared)"
    if not _is_asked(comparison, MONEY):
        return ""
    if len(priced) == 1:
        return f"money (only {priced[0]} has a price)"
    currencies = sorted({targets[name].currency for name in priced})
    left = _left_out(comparison, MONEY)
    without = [target for target in left if target not in priced]
    if without:
        return f"money for {and_list(without)} (no price is declared)"
    if left and len(currencies) > 1:
        which = "" if len(left) == len(targets) else f" for {and_list(left)}"
        return f"money{which} (prices are in {and_list(currencies)})"
    return ""


def _is_asked(comparison: Comparison, question: str) -> bool:
    pages = (sections[0].page for sections in comparison.kinds.values())
    return any(asked.name == question for page in pages for asked in page.metrics.questions)


def _left_out(comparison: Comparison, question: str) -> list[str]:
    compared = targets_compared(comparison, question)
    return [target for target in comparison.targets if target not in compared]
