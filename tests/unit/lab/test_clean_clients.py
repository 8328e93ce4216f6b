"""`storlab clean` on fake clients, some unreachable."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storlab.base.errors import PreflightError
from storlab.lab.plan.plan import make_plan
from storlab.lab.run import clean as module
from storlab.lab.run.clean import Cleaned, clean_clients
from storlab.lab.site import clients as clients_module
from storlab.lab.study.file import load_study
from storlab.process.execution import Interrupted, StopRequest
from storlab.stores.s3.target import S3Hold
from support.made_clients import FakeClients, made_clients

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
{work}"""
STORES = """
[[target]]
name = "first"
s3 = "http://127.0.0.1:9/first"
[[target]]
name = "last"
s3 = "http://127.0.0.1:9/last"
"""
OBJECTS = """
targets = ["shared"]
[[workload]]
kind = "object"
targets = ["first", "last"]
"""
OWN = '[[target]]\nname = "own"\npath = "/mnt/own.dat"\nsize = "1MiB"'


def clean(
    place: Path,
    gone: set[str],
    *,
    more: str = "",
    work: str = "",
    mute: bool = False,
    stopped: bool = False,
) -> tuple[Cleaned, FakeClients, list[str]]:
    path = place / "study.toml"
    path.write_text(STUDY.format(place=place, more=more, work=work))
    loaded = load_study(path)
    assert loaded.study.cluster is not None
    store: Any = SimpleNamespace(
        study=loaded.study, plan=make_plan(loaded), study_text=loaded.text, directory=place
    )
    clients = made_clients(loaded.study.cluster, ["c1", "c2", "c3"], gone, mute=mute)
    notes: list[str] = []
    reporter: Any = SimpleNamespace(note=notes.append)
    stop = StopRequest()
    if stopped:
        stop.ask()
    stores = {
        target.name: {"campaign": "0123456789ab"} for target in loaded.study.target if target.s3
    }
    recorded = {"plan_hash_given": None, "campaign": "0123456789ab", "s3": stores}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.Clients, "of", lambda *_: clients)
        patch.setattr(clients_module, "ANSWER_NS", 0)
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
    assert all(
        session.ended or not mute for session in clients.sessions if session.gathered is None
    )


def test_few_clean_up_for_many(tmp_path: Path) -> None:
    cleaned, clients, _ = clean(tmp_path, {"c1", "c2"})
    assert sorted(cleaned.removed) == ["c1.dat", "c2.dat", "c3.dat"]
    where = [names for task, names, _ in clients.begun if task == "clean"]
    assert where[1:] == [["c3@c3"], ["c1@c3"], ["c2@c3"]]


def test_what_only_that_client_can_reach_is_named(tmp_path: Path) -> None:
    cleaned, clients, _ = clean(tmp_path, {"c2"}, more=OWN)
    (problem,) = cleaned.problems
    assert problem.where == "own"
    assert "only c2 can access" in problem.what
    assert "no route to host" in problem.what
    assert f"storlab clean {tmp_path}" in problem.fix
    assert clients.begun[-1][2]["targets"] == ["shared"]


def test_nothing_cleaned_is_a_problem(tmp_path: Path) -> None:
    cleaned, _, _ = clean(tmp_path, {"c1", "c2", "c3"})
    assert cleaned.removed == []
    (problem,) = cleaned.problems
    assert "c1: no route to host" in problem.what
    assert int(problem.exit_code) == 4


def test_a_store_that_fails_keeps_nothing_else_from_being_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that cleaning continues after a failing store."""

    def enter(hold: S3Hold) -> S3Hold:
        assert hold.cleaning
        if hold.target.name == "last":
            raise PreflightError("last", "the keys have expired", "give others")
        return hold

    def clean_objects(hold: S3Hold, *_: Any) -> list[str]:
        return [hold.target.name]

    monkeypatch.setattr(S3Hold, "__enter__", enter)
    monkeypatch.setattr(module, "clean_store", clean_objects)
    cleaned, _, _ = clean(tmp_path, set(), more=STORES, work=OBJECTS)
    assert cleaned.removed == ["c1.dat", "c2.dat", "c3.dat", "first"]
    (problem,) = cleaned.problems
    assert problem.where == "last"


def test_an_interrupt_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        clean(tmp_path, set(), stopped=True)
