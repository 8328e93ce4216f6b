"""Reader of ``capacity.json``, the result of a capacity search, from result directories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storlab.analysis.capacity import Outcome
from storlab.analysis.compare import Comparison
from storlab.analysis.points import CLIENTS
from storlab.base.errors import ResultError
from storlab.base.files import parse_json, read_input
from storlab.contracts.registry import FAMILIES
from storlab.model.decision import Interval
from storlab.results.store import ResultStore

FILE = "capacity.json"


@dataclass(frozen=True, slots=True)
class Found:
    """Stored result of a capacity search: the most accelerators that a target keeps up with."""

    target: str  # label of the target in the comparison
    kind: str  # kind of the workload, such as training
    workload: str
    engine: str
    params: dict[str, Any]  # parameters of its points, without the searched one
    threshold_percent: float
    number: int
    at_it: Interval | None  # utilisation at that number, in percent
    point_id: str | None  # point of the runs that the number rests on
    power_w: float | None
    first_not_kept: int | None
    outcome: Outcome
    notes: tuple[str, ...]


def searches(comparison: Comparison) -> list[Found]:
    """Read the capacity searches of all result directories; ordinary campaigns have none.

    Raises:
        ResultError: A ``capacity.json`` cannot be read or lacks required fields.
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
        fix = "run `storlab capacity` again with the same --out to rewrite the file"
        problem = f"is not a valid result of a capacity search ({error})"
        raise ResultError(str(path), problem, fix) from error


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
        outcome=case["verdict"],
        notes=tuple(case["notes"]),
    )
