"""Rates of the load levels of a campaign, which follow from runs that it has stored."""

from __future__ import annotations

from storlab.analysis.offered_load import level_of, load_of, maxima_of, same_maximum
from storlab.model.point import Point
from storlab.model.result import OfferedLoad, RunRecord
from storlab.results.store import ResultStore


class LoadLevels:
    """Offered loads of the points with a load level in one campaign.

    The maximum is fixed by the first run of any of its load levels: later repeats of the closed
    loop, such as those of failed runs, do not change the rate.
    """

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._maxima: dict[str, str] | None = None
        self._known: dict[str, OfferedLoad] = {}  # by id of the point that finds the maximum

    def load(self, point: Point) -> OfferedLoad | None:
        """Return the load that a point offers; None without a load level.

        Raises:
            ResultError: The maximum is not known, because no run in closed loop finished.
        """
        if level_of(point) is None:
            return None
        if self._maxima is None:
            found = maxima_of(self._store.plan.points.values())
            self._maxima = {level: maximum.point_id for level, maximum in found.items()}
        maximum = self._maxima[point.point_id]
        if maximum not in self._known:
            siblings = {level for level, found in self._maxima.items() if found == maximum}
            used = (record.offered for record in self._stored(siblings))
            known = next((load for load in used if load is not None), None)
            self._known[maximum] = known or load_of(point, self._stored({maximum}))
        return same_maximum(point, self._known[maximum])

    def _stored(self, point_ids: set[str]) -> list[RunRecord]:
        runs = (run for run in self._store.plan.runs if run.point_id in point_ids)
        return [
            self._store.record(r.run_id) for r in runs if self._store.run_dir(r.run_id).exists()
        ]
