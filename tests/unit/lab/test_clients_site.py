"""Runs on clients as seen by the lab, with fake ranks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storlab.base.errors import RunError
from storlab.cluster.session import START_NS, Gathered
from storlab.contracts.family import Access
from storlab.lab.plan.plan import make_plan
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.prepare.precondition import target_slug
from storlab.lab.site import clients_site as module
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.clients_site import ClientsSite, claim_of, claim_once
from storlab.lab.study.file import load_study
from storlab.model.result import Failure
from storlab.process.execution import Interrupted, StopRequest

STUDY = """
[study]
name = "lost"
settle = "10s"
[cluster]
hosts = ["localhost"]
clients = 2
[[target]]
name = "t"
directory = "{place}"
{target}
[[workload]]
{workload}
"""
CHECKPOINT = 'kind = "checkpoint"\nprofile = "llama3-405b-8gpu-415gb"\nscale = 0.001'


class LostSession:
    """Session whose clients all ended without an outcome."""

    def wait(self, _: float) -> Gathered:
        return Gathered({}, [], Failure(message="client-2: ended without an outcome"))

    def end(self) -> None: ...


def store_of(place: Path, target: str, workload: str) -> Any:
    path = place / "study.toml"
    path.write_text(STUDY.format(place=place, target=target, workload=workload))
    loaded = load_study(path)
    plan = make_plan(loaded)
    return SimpleNamespace(study=loaded.study, plan=plan, study_text=loaded.text, directory=place)


def guard_of(place: Path) -> Any:
    access = {"t": Access()}
    told = {"campaign": "own", "consent": None, "recorded": None}
    return SimpleNamespace(base=place, access=access, stores={}, **told)


@pytest.mark.parametrize(
    ("workload", "target", "asked"),
    [(CHECKPOINT, "", ["after"]), ('kind = "block"', 'size = "1MiB"', [])],
)
def test_what_lost_clients_have_left_is_put_right(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workload: str,
    target: str,
    asked: list[str],
) -> None:
    """Check the clean-up of leftovers that lost clients cannot report."""
    store = store_of(tmp_path, target, workload)
    plan, run = store.plan, store.plan.runs[0]
    guard = guard_of(tmp_path)
    chosen = [SimpleNamespace(rank=rank, name=f"client-{rank}") for rank in (1, 2)]
    clients: Any = SimpleNamespace(places=lambda _: chosen, begin=lambda *_: LostSession())
    reporter: Any = SimpleNamespace(run_progress=lambda _: None)
    site = ClientsSite(clients, store, guard, StopRequest(), reporter)
    done: list[str] = []
    monkeypatch.setattr(module.ClientsSite, "_do", lambda _, task, *__: done.append(task))
    point = plan.points[run.point_id]
    outcome = site.run(run, point, None, tmp_path / "work", {})  # type: ignore[arg-type]
    assert outcome.status == "failed"
    assert site.after(run, point) is bool(asked)
    assert done == asked
    assert site.after(run, point) is False
    assert site.after(run, point, interrupted=True) is bool(asked), "of a session before"
    assert done == asked * 2


class EndedSession:
    """Session whose clients report only the state of their machines before the run."""

    def __init__(self, *governors: str) -> None:
        states = [{"cpu": {"governor": name}, "targets": {"t": {}}} for name in governors]
        reports = [ClientReport(state=state) for state in states]
        self._packed = {rank: report.pack() for rank, report in enumerate(reports, 1)}

    def wait(self, _: float) -> Gathered:
        return Gathered(self._packed, [], None)

    def end(self) -> None: ...


def test_a_change_of_a_client_is_on_the_runs_after_it(tmp_path: Path) -> None:
    store = store_of(tmp_path, 'size = "1MiB"', 'kind = "block"')
    fast, slow = "performance", "powersave"
    sessions = iter([EndedSession(*names) for names in ((fast, slow), (fast, slow), (fast, fast))])
    chosen = [SimpleNamespace(rank=rank, name=f"client-{rank}") for rank in (1, 2)]
    clients: Any = SimpleNamespace(places=lambda _: chosen, begin=lambda *_: next(sessions))
    reporter: Any = SimpleNamespace(run_progress=lambda _: None)
    site = ClientsSite(clients, store, guard_of(tmp_path), StopRequest(), reporter)
    run = store.plan.runs[0]
    point = store.plan.points[run.point_id]
    ran = [site.run(run, point, None, tmp_path / "work", {}) for _ in range(3)]  # type: ignore[arg-type]
    assert [len(outcome.flags) for outcome in ran] == [0, 0, 1]
    (flag,) = ran[-1].flags
    assert flag.kind == "machine-changed"
    assert "first run on client-2: governor of CPU: powersave to performance" in flag.message


def test_what_is_left_on_a_target_waits_for_its_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that leftovers are cleaned before the next run on the same target."""
    more = f'[[target]]\nname = "u"\ndirectory = "{tmp_path}"'
    store = store_of(tmp_path, more, CHECKPOINT)
    guard = guard_of(tmp_path)
    guard.access["u"] = Access()
    chosen = [SimpleNamespace(rank=rank, name=f"client-{rank}") for rank in (1, 2)]
    clients: Any = SimpleNamespace(places=lambda _: chosen, begin=lambda *_: LostSession())
    reporter: Any = SimpleNamespace(run_progress=lambda _: None)
    site = ClientsSite(clients, store, guard, StopRequest(), reporter)
    done: list[str] = []
    monkeypatch.setattr(module.ClientsSite, "_do", lambda *given: done.append(given[2]))
    points = store.plan.points
    runs = {points[run.point_id].target: run for run in store.plan.runs}
    for name in ("t", "u"):
        point = points[runs[name].point_id]
        site.run(runs[name], point, None, tmp_path / name, {})  # type: ignore[arg-type]
    for name in ("u", "t", "t"):
        site.after(runs[name], points[runs[name].point_id])
    assert done == ["u", "t"]


@pytest.mark.parametrize("laid_out", [[False, False], [False, True], None])
def test_what_a_client_laid_out_anew_is_preconditioned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, laid_out: list[bool] | None
) -> None:
    """Check that a new layout is preconditioned again, even if another client failed."""
    rounds = 'size = "1MiB"\nprecondition = { max_rounds = 6 }'
    store = store_of(tmp_path, rounds, 'kind = "block"')
    told = {target_slug("t"): {"complete": True, "verdict": {"verdict": "steady"}}}
    store.prepare, store.write_prepare = told.get, told.__setitem__
    store.forget_prepare = lambda name: told.pop(name, None)

    def do(*_: Any) -> list[ClientReport]:
        if laid_out is None:
            raise PrepareError("t", Failure(message="client-2: said nothing"))
        return [ClientReport(laid_out=anew) for anew in laid_out]

    def carry_out(*_: Any) -> Any:
        return told.get(target_slug("t")) or {"verdict": {"verdict": "unsteady"}}

    monkeypatch.setattr(module.ClientsSite, "_do", do)
    monkeypatch.setattr(module, "precondition", carry_out)
    clients: Any = SimpleNamespace()
    reporter: Any = SimpleNamespace(step=lambda _: None)
    site = ClientsSite(clients, store, guard_of(tmp_path), StopRequest(), reporter)
    target, points = store.study.target_named("t"), list(store.plan.points.values())
    if laid_out is None:
        with pytest.raises(PrepareError):
            site.prepare(target, points)
    else:
        assert site.prepare(target, points) is not any(laid_out)
    assert bool(told) is (laid_out == [False, False])


def test_nobody_lays_out_a_device_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a device's preconditioning survives a client's failed preparation."""
    rounds = 'size = "1MiB"\nprecondition = { max_rounds = 6 }'
    store = store_of(tmp_path, rounds, 'kind = "block"')
    store.prepare = lambda _: {"complete": True}
    store.forget_prepare = lambda name: pytest.fail(f"{name} is forgotten")

    def lost(*_: Any) -> list[ClientReport]:
        raise PrepareError("t", Failure(message="client-2: said nothing"))

    monkeypatch.setattr(module.ClientsSite, "_do", lost)
    reporter: Any = SimpleNamespace(step=lambda _: None)
    clients: Any = SimpleNamespace()
    site = ClientsSite(clients, store, guard_of(tmp_path), StopRequest(), reporter)
    target = store.study.target_named("t").model_copy(
        update={"path": "/dev/disk/by-id/nvme-a", "directory": None}
    )
    site.study.target[0] = target
    with pytest.raises(PrepareError):
        site.prepare(target, list(store.plan.points.values()))


@pytest.mark.parametrize(
    ("workload", "target", "planned"),
    [
        ('kind = "block"', 'size = "1MiB"', True),
        ('kind = "block"\ntotal_bytes = "1MiB"', 'size = "1MiB"', False),
        (CHECKPOINT, "", False),
    ],
)
def test_a_window_has_a_planned_length_unless_work_ends_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workload: str,
    target: str,
    planned: bool,
) -> None:
    store = store_of(tmp_path, target, workload)
    clients: Any = SimpleNamespace(places=lambda _: [], begin=lambda *_: None)
    site = ClientsSite(clients, store, guard_of(tmp_path), StopRequest(), None)  # type: ignore[arg-type]
    given: list[Any] = []

    def handed(*arguments: Any) -> None:
        given.extend(arguments)
        raise InterruptedError

    monkeypatch.setattr(module, "ClientsRun", handed)
    run = store.plan.runs[0]
    with pytest.raises(InterruptedError):
        site.run(run, store.plan.points[run.point_id], None, tmp_path, {})  # type: ignore[arg-type]
    assert given[3] == (store.study.study.runtime if planned else None)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "run `storlab clean {place}`"),
        ("keep_data = true", "the next campaign there waits 160 s"),
    ],
)
def test_what_was_not_cleaned_up_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, told: str
) -> None:
    """Check the advice on leftovers; a user who keeps the data gets none."""
    store = store_of(tmp_path, f'size = "1MiB"\n{more}', 'kind = "block"')
    notes: list[str] = []
    orders: list[Any] = []
    clients: Any = SimpleNamespace(most=2)
    reporter: Any = SimpleNamespace(note=notes.append)

    def fail(_: Any, task: str, where: str, count: int, arguments: Any, stop: Any) -> None:
        orders.append((task, count, arguments["claim"]["ends"]))
        raise PrepareError("cleaning up", Failure(message="c1: said nothing"))

    monkeypatch.setattr(module.ClientsSite, "_do", fail)
    site = ClientsSite(clients, store, guard_of(tmp_path), StopRequest(), reporter)
    assert site.clean_up() == []
    kept = bool(more)
    assert orders == [("clean", 1 if kept else 2, True)]
    (note,) = notes
    assert "c1: said nothing" in note
    assert told.format(place=tmp_path) in note
    assert ("storlab clean" in note) is not kept
    assert note.startswith(f"{tmp_path}: the lock was not released" if kept else "not cleaned up")


def test_who_removes_the_rest_is_told_that_kept_data_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = f'size = "1MiB"\n[[target]]\nname = "u"\nkeep_data = true\ndirectory = "{tmp_path}"'
    store = store_of(tmp_path, f'{beside}\nsize = "1MiB"', 'kind = "block"')
    notes: list[str] = []

    def fail(*_: Any) -> None:
        raise PrepareError("cleaning up", Failure(message="c1: said nothing"))

    monkeypatch.setattr(module.ClientsSite, "_do", fail)
    clients: Any = SimpleNamespace(most=2)
    reporter: Any = SimpleNamespace(note=notes.append)
    ClientsSite(clients, store, guard_of(tmp_path), StopRequest(), reporter).clean_up()
    (note,) = notes
    assert note.endswith("which also removes data that the study keeps")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RunError("http://store/b", "cannot delete: the keys have expired"), "have expired"),
        (Interrupted(), "was interrupted"),
    ],
)
def test_a_store_that_cannot_be_cleaned_costs_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    """Check that a store's failed clean-up is reported, and the other store is cleaned."""
    store = store_of(tmp_path, 'size = "1MiB"\nkeep_data = true', 'kind = "block"')
    guard = guard_of(tmp_path)
    guard.stores = {"first": "first/own", "last": None}

    def clean(hold: str | None, *_: Any, **__: Any) -> list[str]:
        if hold is None:
            raise error
        return [hold]

    notes: list[str] = []
    reporter: Any = SimpleNamespace(note=notes.append)
    monkeypatch.setattr(module, "clean_store", clean)
    monkeypatch.setattr(module.ClientsSite, "_do", lambda *_: [])
    clients: Any = SimpleNamespace(most=2)
    site = ClientsSite(clients, store, guard, StopRequest(), reporter)
    assert site.clean_up() == ["first/own"]
    assert notes[0].startswith("last: ")
    assert told in notes[0]
    assert f"run `storlab clean {tmp_path}`" in notes[0]


def test_a_campaign_stays_away_no_longer_than_clients_may_take_to_come_up(tmp_path: Path) -> None:
    store = store_of(tmp_path, 'size = "1MiB"', 'kind = "block"')
    claim = claim_of(store, tmp_path, "own")
    assert claim["holder"]["away_ns"] > START_NS + store.study.study.settle
    assert (claim["directories"], claim["ends"]) == ([str(tmp_path)], False)
    once = claim_once(store, tmp_path, "own", "t")
    assert once["holder"] == {**claim["holder"], "away_ns": 0}
    assert once["directories"] == [str(tmp_path)]
