"""Fake clients of a cluster, some unreachable; no process is started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from storlab.cluster.offsets import ClockOffset
from storlab.cluster.session import Gathered
from storlab.cluster.task import ClientPlace
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.clients import Clients
from storlab.model.cluster import Cluster
from storlab.model.result import Failure


class FakeSession:
    """Fake session of a task."""

    def __init__(self, gathered: Gathered | None) -> None:
        self.gathered = gathered
        self.ended = False

    def wait(self, _: float) -> Gathered | None:
        return self.gathered

    def live(self) -> dict[str, Any]:
        return {"clients": {}}

    def stop(self) -> None: ...

    def end(self) -> None:
        self.ended = True


class FakeClients(Clients):
    """Fake clients that record which task is started where."""

    gone: set[str]
    mute: bool
    apart: bool
    fact: dict[str, Any]
    begun: list[tuple[str, list[str], dict[str, Any]]]
    sessions: list[FakeSession]

    def begin(
        self, task: Any, chosen: Any, directory: Path, arguments: Any, inputs: Any = None
    ) -> Any:
        del directory, inputs
        assert [place.rank for place in chosen] == list(range(1, len(chosen) + 1))
        self.begun.append((task, [f"{p.name}@{p.host}" for p in chosen], arguments))
        self.sessions.append(FakeSession(self._gathered(task, chosen)))
        return self.sessions[-1]

    def _gathered(self, task: str, chosen: list[ClientPlace]) -> Gathered | None:
        lost = [place.name for place in chosen if place.host in self.gone]
        if self.apart and len(chosen) > 1:
            return Gathered({}, [], Failure(message="clients do not reach one another"))
        if lost and len(chosen) == 1 and self.mute:
            return None
        if lost:
            return Gathered({}, [], Failure(message=f"{lost[0]}: no route to host"))
        if task == "check":
            names = [place.name for place in chosen]
            told = {p.rank: json.dumps(self.fact | {"sees": names}).encode() for p in chosen}
            clocks = {name: ClockOffset(5 * 10**9, 40_000) for name in names}
            return Gathered(told, [clocks, clocks])
        reports = {p.rank: ClientReport(removed=[f"{p.name}.dat"]).pack() for p in chosen}
        return Gathered(reports, [])


def made_clients(
    cluster: Cluster,
    hosts: Sequence[str],
    gone: set[str],
    *,
    mute: bool = False,
    apart: bool = False,
    fact: dict[str, Any] | None = None,
) -> FakeClients:
    """Return fake clients on these hosts.

    Args:
        cluster: Cluster table of the study.
        hosts: Hosts of the clients.
        gone: Hosts that do not answer.
        mute: Hosts in ``gone`` hang instead of failing.
        apart: Each client answers alone, but not together with others.
        fact: Facts that each client reports.
    """
    clients = FakeClients(cluster, list(hosts), cast(Any, None))
    given = {"gone": gone, "mute": mute, "apart": apart, "fact": fact or {}}
    given |= {"begun": [], "sessions": []}
    for name, value in given.items():
        object.__setattr__(clients, name, value)
    return clients
