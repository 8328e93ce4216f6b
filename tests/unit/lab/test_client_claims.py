"""Acquiring and releasing of a campaign's directories by the clients of a task."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storlab.base.units import NS_PER_S
from storlab.cluster.client import ClientEnd
from storlab.cluster.link import CONTROLLER, ClientsSilent
from storlab.cluster.task import ClientPlace
from storlab.lab.plan.plan import make_plan
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.client_task import ClientReporter, ProgressSender, _claim, do_task
from storlab.lab.site.verification import Written
from storlab.lab.study.file import load_study
from storlab.process.execution import Interrupted, StopRequest
from storlab.stores import directory_lease as module
from storlab.stores.directory_lease import LOCK, DirectoryLease, Holder, holder_now

STUDY = """
[study]
name = "claims"
[cluster]
hosts = ["c1", "c2"]
[[target]]
name = "t"
directory = "{place}"
size = "1MiB"
[[workload]]
kind = "block"
"""
AWAY_NS = 100 * NS_PER_S
OWN = Holder("own", "study", "lab:/results", AWAY_NS, "c1", "nonce")
DEAD = Holder("dead", "of another", "lab:/others", AWAY_NS, "c9", "task")


class FakeEnd:
    """Fake end of a client; ``meanwhile`` is called after it has sent its outcome."""

    def __init__(self, task: str, arguments: dict[str, Any]) -> None:
        self.stop = StopRequest()
        self.place = ClientPlace(name="c1", host="c1", rank=1)
        self.order = SimpleNamespace(
            task=task,
            arguments=arguments,
            nonce=OWN.task,
            loads=False,
            takes_inputs=task == "verify",
            lost_after_ns=60 * NS_PER_S,
            clients=[self.place],
        )
        self.meanwhile: Callable[[], None] = lambda: None
        self.report = ClientReport()
        self.told: list[str] = []

    def give_facts(self, facts: dict[str, Any]) -> None: ...

    def take_input(self) -> bytes:
        directories = self.order.arguments["claim"]["directories"]
        held = [holder_now(Path(directory), "") for directory in directories]
        assert OWN not in held, "rank 0 waits for nobody's claim before it sends this"
        return b""

    def tell(self, snapshot: dict[str, Any]) -> None:
        self.told.append(str(snapshot.get("text")))

    def end(self, outcome: bytes) -> None:
        self.report = ClientReport.unpack(outcome)
        self.meanwhile()


def claim_of(*directories: Path, ends: bool = False) -> dict[str, Any]:
    terms = {name: value for name, value in asdict(OWN).items() if name not in ("client", "task")}
    named = [str(directory) for directory in directories]
    return {"holder": terms, "directories": named, "mount": None, "ends": ends}


def arguments_of(tmp_path: Path, *, ends: bool) -> dict[str, Any]:
    shared = tmp_path / "shared"
    shared.mkdir()
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(place=shared))
    loaded = load_study(path)
    return {
        "study": loaded.text,
        "base": str(tmp_path),
        "plan": make_plan(loaded).dump(),
        "targets": ["t"],
        "campaign": OWN.campaign,
        "claim": claim_of(shared, ends=ends),
        "consented": False,
        "resumed": False,
        "granted": {},
    }


@pytest.mark.parametrize(("task", "ends"), [("clean", True), ("verify", True), ("verify", False)])
def test_a_directory_is_claimed_until_the_last_client_has_ended(
    tmp_path: Path, task: str, ends: bool
) -> None:
    """Check that the lease is kept until the last straggler has ended."""
    end = FakeEnd(task, arguments_of(tmp_path, ends=ends))
    shared = tmp_path / "shared"
    found: list[Holder | None] = []
    end.meanwhile = lambda: found.append(holder_now(shared, "another"))
    do_task(cast(ClientEnd, end))
    assert end.report.failure is None
    assert found == [OWN]
    assert [path.name for path in shared.iterdir()] == ([] if ends else [LOCK])
    assert holder_now(shared, "another") is None


def test_a_task_that_stands_alone_gives_up_what_it_claimed_also_when_it_fails(
    tmp_path: Path,
) -> None:
    arguments = arguments_of(tmp_path, ends=False)
    arguments["claim"]["holder"]["away_ns"] = 0
    end = FakeEnd("verify", arguments)
    damaged = Written("c2", None, "run", b"{}", b"").pack()
    end.take_input = lambda: damaged  # type: ignore[method-assign]
    do_task(cast(ClientEnd, end))
    assert end.report.failure is not None
    assert "is damaged" in end.report.failure.message
    assert list((tmp_path / "shared").iterdir()) == []


def test_what_others_may_still_work_on_is_not_given_up(tmp_path: Path) -> None:
    """Check that the lease is kept if rank 0 is gone and the others' state is unknown."""
    end = FakeEnd("clean", arguments_of(tmp_path, ends=True))

    def lose_rank_0() -> None:
        raise ClientsSilent([CONTROLLER], "the end")

    end.meanwhile = lose_rank_0
    with pytest.raises(ClientsSilent):
        do_task(cast(ClientEnd, end))
    assert (tmp_path / "shared" / LOCK).exists()


@pytest.mark.parametrize("task", ["prepare", "fill", "verify"])
def test_the_others_begin_when_the_first_client_has_the_directory(
    tmp_path: Path, task: str
) -> None:
    end = FakeEnd(task, {"claim": claim_of(tmp_path)})
    end.place = end.place.model_copy(update={"rank": 2})
    end.stop.ask()  # interrupts the waiting
    client = cast(ClientEnd, end)
    with ExitStack() as stack:
        with pytest.raises(Interrupted):
            _claim(client, ClientReporter(ProgressSender(client)), stack)
        stack.enter_context(DirectoryLease(tmp_path, OWN, lambda *_: None))
        assert _claim(client, ClientReporter(ProgressSender(client)), stack) == []


def test_directories_of_a_dead_campaign_are_waited_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that waits for several dead leases run in parallel."""
    directories = [tmp_path / name for name in "abc"]
    for directory in directories:
        directory.mkdir()
        with DirectoryLease(directory, DEAD, lambda *_: None):
            pass
    now_ns = [0]

    def sleep_s(seconds: float) -> None:
        now_ns[0] += NS_PER_S

    monkeypatch.setattr(module, "sleep_s", sleep_s)
    monkeypatch.setattr(module, "monotonic_ns", lambda: now_ns[0])
    end = cast(ClientEnd, FakeEnd("prepare", {"claim": claim_of(*directories)}))
    with ExitStack() as stack:
        claims = _claim(end, ClientReporter(ProgressSender(end)), stack)
        assert [claim.path.parent for claim in claims] == directories
        assert {holder_now(each, "another") for each in directories} == {OWN}
    assert AWAY_NS < now_ns[0] < 1.1 * AWAY_NS


def test_one_that_is_in_use_is_refused_before_any_other_is_waited_for(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "ab"]
    for directory in directories:
        directory.mkdir()
    with DirectoryLease(directories[0], DEAD, lambda *_: None):
        pass
    working = replace(DEAD, campaign="at work")
    end = FakeEnd("verify", {"claim": claim_of(*directories)})
    with DirectoryLease(directories[1], working, lambda *_: None):
        do_task(cast(ClientEnd, end))
    assert end.report.failure is not None
    assert "is in use by campaign at work" in end.report.failure.message
    assert not [text for text in end.told if "goes on" in text]
