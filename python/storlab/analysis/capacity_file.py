"""What a search for a capacity found, from the ``capacity.json`` of a result directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storlab.analysis.capacity import Outcome
from storlab.analysis.compare import Comparison
from storlab.analysis.points import CLIENTS
from storlab.analysis.stats import Interval
from storlab.base.errors import ResultError
from storlab.base.files import parse_json, read_input
from storlab.contracts.registry import FAMILIES
from storlab.lab.results.store import ResultStore

FILE = "capacity.json"


@dataclass(frozen=True, slots=True)
class Found:
    """One search: the most of a parameter that a target keeps up with."""

    target: str  # label in the comparison
    kind: str  # of the workload
    workload: str
    engine: str
    params: dict[str, Any]  # of its points, without what was searched
    threshold_percent: float
    number: int
    at_it: Interval | None  # utilisation there, percent
    point_id: str | None  # of the runs behind it
    power_w: float | None
    first_not_kept: int | None
    outcome: Outcome
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """``at least 24``."""
        if self.outcome == "undecided":
            return f"{self.number:,} or more" if self.number else "not decided"
        before = "at least " if self.outcome == "at-least" else ""
        return f"{before}{self.number:,}"


def searches(comparison: Comparison) -> list[Found]:
    """All searches of the result directories; none where they are of ordinary campaigns.

    Raises ResultError for a file that is no search's.
    """
    labels = {(id(c.store), c.target.name): c.label for c in comparison.dataset.targets}
    searched = []
    for store in comparison.dataset.stores:
        kinds = {point.workload: point.kind for point in store.plan.points.values()}
        for threshold, case in _cases(store):
            label = labels.get((id(store), case["target"]))
            if label is not None:
                searched.append(_search(label, kinds[case["workload"]], threshold, case))
    return searched


def _cases(store: ResultStore) -> list[tuple[float, dict[str, Any]]]:
    path = store.directory / FILE
    if not path.is_file():
        return []
    try:
        document = parse_json(read_input(path))
        return [(float(document["threshold_percent"]), case) for case in document["cases"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "run storlab capacity once more with the same --out: it writes the file anew"
        raise ResultError(str(path), f"is not what a search writes ({error})", fix) from error


def _outcome(case: dict[str, Any], parameter: str) -> Outcome:
    """The verdict; of files that were written before there was one, from what was tried."""
    if "verdict" in case:
        known: Outcome = case["verdict"]
        return known
    above = case["first_not_kept"]
    if any(t[parameter] == above and t["verdict"] == "undecided" for t in case["tried"]):
        return "undecided"
    return "at-least" if case["is_lower_bound"] or not case["complete"] else "found"


def _search(label: str, kind: str, threshold: float, case: dict[str, Any]) -> Found:
    parameter = FAMILIES[kind].page.searched.parameter
    number = case[f"{parameter}_at_threshold"]
    tried = next((t for t in case["tried"] if t[parameter] == number), None)
    interval = None if tried is None else tried["interval"]
    clients = case.get("clients")
    return Found(
        target=label,
        kind=kind,
        workload=case["workload"],
        engine=case["engine"],
        params=case["params"] if clients is None else {**case["params"], CLIENTS: clients},
        threshold_percent=threshold,
        number=number,
        at_it=None if interval is None else Interval(**interval),
        point_id=None if tried is None else tried["point_id"],
        power_w=None if tried is None else tried["power_w"],
        first_not_kept=case["first_not_kept"],
        outcome=_outcome(case, parameter),
        notes=tuple(case["notes"]),
    )
