"""Run on several clients: waits for their reports and merges them."""

from __future__ import annotations

from collections.abc import Sequence

from storlab import __version__
from storlab.base.clock import monotonic_ns
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.session import Gathered, Session
from storlab.cluster.task import ClientPlace
from storlab.contracts.registry import FAMILIES
from storlab.lab.site.divided_runs import whole_snapshot
from storlab.lab.site.merge import Client, merge, raw_of
from storlab.lab.site.report import ClientReport
from storlab.model.result import EngineInfo, Failure, RunOutcome, RunStatus, Snapshot

_FOR_EVER_S = 1e9
_UNKNOWN_CLOCK = ClockOffset(0, 0)


class ClientsRun:
    """Handle of a run on several clients; implements ``contracts.engine.RunHandle``."""

    def __init__(
        self,
        session: Session,
        chosen: list[ClientPlace],
        interval_ns: int,
        planned_ns: int | None,
        kind: str,
    ) -> None:
        self._session = session
        self._places = chosen
        self._interval_ns = interval_ns
        self._planned_ns = planned_ns
        self._kind = kind
        self.job = b""
        self.written: dict[str, dict[str, bytes]] = {}  # files of verify mode by client
        self.worked = False  # whether something must be cleaned up after the run
        self.lost = False  # whether a client did not report that
        self._outcome: RunOutcome | None = None

    def snapshot(self) -> Snapshot:
        """Return live figures of all clients together, with the slowest client."""
        live = self._session.live()
        return whole_snapshot(live)

    def cancel(self) -> None:
        """Ask all clients to end soon."""
        self._session.stop()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """Return the outcome, or None after the time limit; a run that lost clients has failed."""
        if self._outcome is None:
            gathered = self._session.wait(_FOR_EVER_S if timeout_s is None else timeout_s)
            self._outcome = None if gathered is None else self._judge(gathered)
        return self._outcome

    def _judge(self, gathered: Gathered) -> RunOutcome:
        reports = [
            (place, ClientReport.unpack(gathered.outcomes.pop(place.rank)))
            for place in self._places
            if place.rank in gathered.outcomes
        ]
        self.lost = len(reports) < len(self._places)
        self.worked = any(report.worked or report.outcome is None for _, report in reports)
        self.written = {p.name: report.written for p, report in reports if report.written}
        self.job = next((report.job for _, report in reports if report.job), b"")
        failure = gathered.failure or _first_failure(reports)
        if failure is not None:
            failed = failed_outcome(failure, "failed")
            failed.raw = raw_of(reports)
            return failed
        if any(report.outcome is None for _, report in reports):
            return failed_outcome(None, "cancelled")
        # without a second measurement the drift counts as 0
        clocks = [*gathered.clocks, *gathered.clocks[-1:]]
        clients = [
            Client(
                place,
                report,
                clocks[0].get(place.name, _UNKNOWN_CLOCK),
                clocks[1].get(place.name, clocks[0].get(place.name, _UNKNOWN_CLOCK)),
            )
            for place, report in reports
        ]
        divided = FAMILIES[self._kind].fixed_work
        return merge(clients, self._interval_ns, self._planned_ns, self._kind, divided=divided)


def failed_outcome(failure: Failure | None, status: RunStatus) -> RunOutcome:
    """Return the outcome of a run in which not all clients finished."""
    now = monotonic_ns()
    engine = EngineInfo(name="cluster", version=__version__)
    return RunOutcome(status, engine, now, now, [], {}, None, failure)


def _first_failure(reports: Sequence[tuple[ClientPlace, ClientReport]]) -> Failure | None:
    for place, report in reports:
        if report.failure is not None:
            message = f"{place.name}: {report.failure.message}"
            return report.failure.model_copy(update={"message": message})
    return None
