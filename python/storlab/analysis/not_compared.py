"""Find out why targets are not compared on a question, such as a missing meter or price."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

from storlab.analysis.columns import COLUMNS
from storlab.analysis.compare import PLACES, Comparison
from storlab.analysis.efficiency import NO_METER, unequal
from storlab.contracts.question import Question
from storlab.model.decision import Reason
from storlab.model.target import Target


def is_metered(comparison: Comparison) -> bool:
    """Return whether any run had a meter, even if it gave no readings."""
    return any(run.record.power for run in comparison.dataset.all_runs()) or any(
        cell.power for row in comparison.rows.values() for cell in row.cells.values()
    )


def reason_of(
    comparison: Comparison, question: Question, compared: Collection[str]
) -> Reason | None:
    """Return why some targets are not compared on a question; None if all are.

    Args:
        comparison: Comparison with all points.
        question: Question of a workload family.
        compared: Targets that can be compared with another target on the question.
    """
    left = [target for target in comparison.targets if target not in compared]
    if not left or len(comparison.targets) < 2:
        return None
    if question.per:
        return _facts(comparison, question, left)
    if any(COLUMNS[PLACES[key]].is_power for key in question.keys if key in PLACES):
        return _power(comparison, left)
    return Reason(kind="no common point", targets=_some(comparison, left))


def _some(comparison: Comparison, targets: Sequence[str]) -> tuple[str, ...]:
    """Return the targets, or an empty tuple, which stands for all, if they are all targets."""
    return () if len(targets) == len(comparison.targets) else tuple(targets)


def _facts(comparison: Comparison, question: Question, left: Sequence[str]) -> Reason:
    targets = {column.label: column.target for column in comparison.dataset.targets}

    def declares(target: Target) -> bool:
        return bool(target.storage_price if question.per == "money" else target.capacity)

    lacking = [label for label in left if not declares(targets[label])]
    if lacking:
        kind = "no price" if question.per == "money" else "no capacity"
        return Reason.model_validate({"kind": kind, "targets": _some(comparison, lacking)})
    currencies = sorted({targets[label].currency for label in comparison.targets})
    if question.per == "money" and len(currencies) > 1:
        detail = ", ".join(currencies)
        some = _some(comparison, left)
        return Reason(kind="different currencies", targets=some, detail=detail)
    return Reason(kind="no common point", targets=_some(comparison, left))


def _power(comparison: Comparison, left: Sequence[str]) -> Reason:
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    metered = {cell.target for cell in cells if cell.power is not None}
    lacking = [target for target in left if target not in metered]
    if lacking:
        missing = {cell.power_missing for cell in cells if cell.target in lacking and cell.measured}
        kind = "no meter" if missing == {NO_METER} else "no reading"
        return Reason.model_validate({"kind": kind, "targets": _some(comparison, lacking)})
    some = _some(comparison, left)
    for row in comparison.rows.values():
        powers = {side: cell.power for side, cell in row.cells.items() if cell.power is not None}
        for (one, first), (other, second) in combinations(powers.items(), 2):
            if {one, other} & set(left) and unequal(first, second):
                detail = f"{one}: {first.label}, {other}: {second.label}"
                return Reason(kind="unequal boundaries", targets=some, detail=detail)
    return Reason(kind="no common point", targets=some)
