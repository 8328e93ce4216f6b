"""`storlab clean` on clients that are made up, some of whom have gone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storlab.cluster.session import Gathered
from storlab.cluster.task import ClientPlace
from storlab.lab.plan.plan import make_plan
from storlab.lab.run import clean_clients as module
from storlab.lab.run.clean_clients import clean_clients
from storlab.lab.run.cleaned import Cleaned
from storlab.lab.site import asking
from storlab.lab.site.clients import Clients
from storlab.lab.site.report import ClientReport
from storlab.lab.study.file import load_study
from storlab.model.result import Failure
from storlab.process.execution import Interrupted, StopRequest

STUDY = """
[study]
name = "cleaning"
[cluster]
hosts = ["c[1-3]"]
[[target]]
name = "shared"
directory = "{place}/shared"
size = "1MiB"
keep_data = true
{more}
[[workload]]
kind = "block"
"""
OWN = '[[target]]\nname = "own"\npath = "/mnt/own.dat"\nsize = "1MiB"'


class FakeSession:
    """Of a task; with a host that has gone it does not start, or says nothing at all."""

    def __init__(self, gathered: Gathered | None) -> None:
        self._gathered = gathered
        self.ended = False

    def wait(self, _: float) -> Gathered | None:
        return self._gathered

    def live(self) -> dict[str, Any]:
        return {"clients": {}}

    def stop(self) -> None: ...

    def end(self) -> None:
        self.ended = True


class FakeClients(Clients):
    """Writes down what is started where."""

    gone: set[str]
    mute: bool
    begun: list[tuple[str, list[str], dict[str, Any]]]
    sessions: list[FakeSession]

    def begin_on(
        self, task: Any, chosen: Any, directory: Path, arguments: Any, inputs: Any = None
    ) -> Any:
        del directory, inputs
        assert [place.rank for place in chosen] == list(range(1, len(chosen) + 1))
        self.begun.append((task, [f"{p.name}@{p.host}" for p in chosen], arguments))
        self.sessions.append(FakeSession(self._gathered(task, chosen)))
        return self.sessions[-1]

    def _gathered(self, task: str, chosen: list[ClientPlace]) -> Gathered | None:
        lost = [place.name for place in chosen if place.host in self.gone]
        if lost and task == "check" and self.mute:
            return None
        if lost:
            return Gathered({}, [], Failure(message=f"{lost[0]}: no route to host"))
        if task == "check":
            return Gathered({place.rank: json.dumps({}).encode() for place in chosen}, [])
        reports = {p.rank: ClientReport(removed=[f"{p.name}.dat"]).pack() for p in chosen}
        return Gathered(reports, [])


def clean(
    place: Path, gone: set[str], *, more: str = "", mute: bool = False, stopped: bool = False
) -> tuple[Cleaned, FakeClients, list[str]]:
    path = place / "study.toml"
    path.write_text(STUDY.format(place=place, more=more))
    loaded = load_study(path)
    assert loaded.study.cluster is not None
    store: Any = SimpleNamespace(
        study=loaded.study, plan=make_plan(loaded), study_text=loaded.text, directory=place
    )
    clients = FakeClients(loaded.study.cluster, ["c1", "c2", "c3"], cast(Any, None))
    for name, value in (("gone", gone), ("mute", mute), ("begun", []), ("sessions", [])):
        object.__setattr__(clients, name, value)
    notes: list[str] = []
    reporter: Any = SimpleNamespace(note=notes.append)
    stop = StopRequest()
    if stopped:
        stop.ask()
    recorded = {"plan_hash_given": None, "campaign": "ours"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.Clients, "of", lambda *_: clients)
        patch.setattr(asking, "ANSWER_NS", 0)
        cleaned = clean_clients(store, loaded.study.cluster, place, recorded, stop, reporter)
    return cleaned, clients, notes


def test_each_client_removes_its_own_also_what_is_kept(tmp_path: Path) -> None:
    cleaned, clients, _ = clean(tmp_path, set())
    assert cleaned.removed == ["c1.dat", "c2.dat", "c3.dat"]
    assert not cleaned.problems
    ((task, where, arguments),) = clients.begun
    assert (task, where) == ("clean", ["c1@c1", "c2@c2", "c3@c3"])
    assert arguments["keeps"] is False
    assert arguments["claim"]["ends"] is True


@pytest.mark.parametrize("mute", [False, True])
def test_others_clean_up_for_a_client_that_has_gone(tmp_path: Path, mute: bool) -> None:
    cleaned, clients, notes = clean(tmp_path, {"c2"}, mute=mute)
    assert sorted(cleaned.removed) == ["c1.dat", "c2.dat", "c3.dat"]
    assert not cleaned.problems
    done = [(where, a["claim"]["ends"]) for task, where, a in clients.begun if task == "clean"]
    assert done[1:] == [(["c1@c1", "c3@c3"], False), (["c2@c1"], True)]
    assert any("c2 does not answer" in note for note in notes)
    assert all(session.ended or not mute for session in clients.sessions if not session._gathered)


def test_few_clean_up_for_many(tmp_path: Path) -> None:
    cleaned, clients, _ = clean(tmp_path, {"c1", "c2"})
    assert sorted(cleaned.removed) == ["c1.dat", "c2.dat", "c3.dat"]
    where = [names for task, names, _ in clients.begun if task == "clean"]
    assert where[1:] == [["c3@c3"], ["c1@c3"], ["c2@c3"]]


def test_what_only_that_client_can_reach_is_named(tmp_path: Path) -> None:
    cleaned, clients, _ = clean(tmp_path, {"c2"}, more=OWN)
    (problem,) = cleaned.problems
    assert problem.where == "own"
    assert "not cleaned up on c2" in problem.what
    assert "no route to host" in problem.what
    assert f"storlab clean {tmp_path}" in problem.fix
    assert clients.begun[-1][2]["targets"] == ["shared"]


def test_nothing_cleaned_is_a_problem(tmp_path: Path) -> None:
    cleaned, _, _ = clean(tmp_path, {"c1", "c2", "c3"})
    assert cleaned.removed == []
    (problem,) = cleaned.problems
    assert "c1: no route to host" in problem.what
    assert int(problem.exit_code) == 4


def test_an_interrupt_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        clean(tmp_path, set(), stopped=True)
