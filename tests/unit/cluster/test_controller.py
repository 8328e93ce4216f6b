"""Rank 0's handling of silent clients, with a fake link and a controlled clock."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from storlab.base.units import NS_PER_S
from storlab.cluster import controller as module
from storlab.cluster import messages
from storlab.cluster.controller import Controller, start_of
from storlab.cluster.link import ClientsSilent, Link
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace, Order, Task, outcome_file

LOST_NS = 5 * NS_PER_S
NAP_NS = NS_PER_S // 100


class FakeLink:
    """Two clients whose messages arrive by script: time, tag, rank, content."""

    def __init__(self) -> None:
        self.now = self.progressed = 1000 * NS_PER_S  # messages up to this time are visible
        self.script: deque[tuple[int, int, int, bytes]] = deque()
        self.names: dict[int, str] = {}
        self.received_ns: dict[int, int] = {}
        self.sent: list[tuple[int, int, bytes]] = []
        self.away: list[tuple[int, int]] = []  # start and length of times when rank 0 does not run
        self.facts = {1: b'{"pid": 11}', 2: b'{"pid": 12}'}

    def clock(self) -> int:
        return self.now

    def sleep(self, _: float) -> None:
        self.progressed = self.now
        self.now += NAP_NS
        if self.away and self.now >= self.away[0][0]:
            self.now += self.away.pop(0)[1]

    def after(self, seconds: float, tag: int, rank: int, content: bytes = b"{}") -> None:
        self.script.append((self.now + round(seconds * NS_PER_S), tag, rank, content))
        self.script = deque(sorted(self.script))

    def try_receive(self, tag: int, rank: int | None = None) -> tuple[int, bytes] | None:
        for message in self.script:
            time_ns, has, sender, content = message
            if time_ns <= self.progressed and has == tag and rank in (None, sender):
                self.script.remove(message)
                self.received_ns[sender] = self.now
                return sender, content
        return None

    def send(self, rank: int, tag: int, payload: bytes) -> None:
        self.sent.append((rank, tag, payload))

    def pending(self, _: int | None = None) -> int:
        return 0

    def gather(self, tag: int, payload: bytes | None, deadline: int) -> dict[int, bytes]:
        return self.facts

    def broadcast(self, tag: int, payload: bytes | None, deadline: int) -> bytes:
        return b""

    def measure_offsets(self, deadline: int) -> dict[int, ClockOffset]:
        return {1: ClockOffset(10, 1), 2: ClockOffset(-20, 1)}

    def warm_up(self, deadline: int) -> None: ...

    def flush(self, deadline: int) -> None: ...

    def finish(self, deadline: int) -> None: ...


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> FakeLink:
    made = FakeLink()
    monkeypatch.setattr(module, "monotonic_ns", made.clock)
    monkeypatch.setattr(module, "sleep_s", made.sleep)
    return made


def controller(link: Any, tmp_path: Path, task: Task = "run") -> Controller:
    order = Order(
        task=task,
        work_dir=str(tmp_path),
        clients=[ClientPlace(name=n, host=n, rank=rank) for rank, n in enumerate("ab", 1)],
        lost_after_ns=LOST_NS,
        nonce="n",
        arguments={},
    )
    checked: Link = link
    return Controller(checked, order)


def lost(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "lost.json").read_bytes())


def load(link: FakeLink, rank: int, until_s: int, ends: bool = True) -> None:
    """Script a client that arms, reports each second, and ends."""
    link.after(0.5, messages.ARMED, rank, b"")
    for second in range(1, until_s):
        link.after(second, messages.SNAPSHOT, rank, b'{"bytes_s": 5.0}')
    if ends:
        link.after(until_s, messages.OUTCOME, rank, b"of %d" % rank)


def test_a_load_from_its_start_to_its_end(link: FakeLink, tmp_path: Path) -> None:
    load(link, 1, 8)
    load(link, 2, 12)
    assert controller(link, tmp_path).run()
    assert (tmp_path / "client-1.outcome").read_bytes() == b"of 1"
    assert (tmp_path / "client-2.outcome").read_bytes() == b"of 2"
    assert json.loads((tmp_path / "pids.json").read_bytes()) == {"a": 11, "b": 12}
    clocks = json.loads((tmp_path / "clocks.json").read_bytes())
    assert clocks == [{"a": [10, 1], "b": [-20, 1]}] * 2
    starts = {rank: start_of(text) for rank, tag, text in link.sent if tag == messages.START}
    assert starts[1] - starts[2] == 30
    assert not (tmp_path / "lost.json").exists()
    live = json.loads((tmp_path / "live.json").read_bytes())
    assert live["clients"]["b"]["bytes_s"] == 5.0
    assert live["clients"]["a"]["ended"]


def test_a_client_that_falls_silent_is_named(link: FakeLink, tmp_path: Path) -> None:
    load(link, 1, 30)
    load(link, 2, 3, ends=False)
    began = link.now
    assert not controller(link, tmp_path).run()
    assert lost(tmp_path)["phase"] == "load"
    assert list(lost(tmp_path)["clients"]) == ["b"]
    assert link.now - began < 2 * NS_PER_S + LOST_NS + NS_PER_S


def test_who_never_arms_and_says_nothing_is_named(link: FakeLink, tmp_path: Path) -> None:
    load(link, 1, 60)
    began = link.now
    assert not controller(link, tmp_path).run()
    assert lost(tmp_path)["after_ns"] == LOST_NS
    assert link.now - began < LOST_NS + NS_PER_S
    assert lost(tmp_path)["phase"] == "arm"
    assert list(lost(tmp_path)["clients"]) == ["b"]


def test_who_is_at_work_tells_of_it_for_as_long_as_it_takes(link: FakeLink, tmp_path: Path) -> None:
    for rank in (1, 2):
        for second in range(1, 30):
            link.after(second, messages.SNAPSHOT, rank, b'{"phase": "prepare"}')
        link.after(30, messages.OUTCOME, rank, b"of %d" % rank)
    assert controller(link, tmp_path, "prepare").run()
    assert not (tmp_path / "lost.json").exists()


def test_who_falls_silent_at_work_is_lost_as_soon_as_one_under_load(
    link: FakeLink, tmp_path: Path
) -> None:
    began = link.now
    for second in range(1, 60):
        link.after(second, messages.SNAPSHOT, 1, b'{"phase": "prepare"}')
        if second < 3:
            link.after(second, messages.SNAPSHOT, 2, b'{"phase": "prepare"}')
    assert not controller(link, tmp_path, "prepare").run()
    assert (lost(tmp_path)["phase"], list(lost(tmp_path)["clients"])) == ("work", ["b"])
    assert link.now - began < 2 * NS_PER_S + LOST_NS + NS_PER_S


def test_its_own_absence_is_nobodys_silence(link: FakeLink, tmp_path: Path) -> None:
    """Check that rank 0's own pause is not counted as silence of the clients."""
    load(link, 1, 20)
    load(link, 2, 20)
    link.away = [(link.now + 3 * NS_PER_S, 2 * LOST_NS)]
    assert controller(link, tmp_path).run()
    assert not (tmp_path / "lost.json").exists()


def test_silence_counts_from_before_an_absence_too(link: FakeLink, tmp_path: Path) -> None:
    load(link, 1, 60)
    load(link, 2, 3, ends=False)
    link.away = [(link.now + 4 * NS_PER_S, NS_PER_S)]
    assert not controller(link, tmp_path).run()
    assert list(lost(tmp_path)["clients"]) == ["b"]


def test_a_run_that_one_cannot_begin_is_stopped_for_all(link: FakeLink, tmp_path: Path) -> None:
    link.after(1, messages.OUTCOME, 2, b"cannot")
    link.after(0.5, messages.ARMED, 1, b"")
    link.after(3, messages.OUTCOME, 1, b"stopped")
    assert controller(link, tmp_path).run()
    told = [(rank, text) for rank, tag, text in link.sent if tag == messages.BEAT]
    assert (1, messages.STOP_LOAD) in told
    assert not [tag for _, tag, _ in link.sent if tag == messages.START]


def test_the_labs_wish_to_stop_is_passed_on(link: FakeLink, tmp_path: Path) -> None:
    load(link, 1, 4)
    load(link, 2, 4)
    (tmp_path / "stop").touch()
    assert controller(link, tmp_path).run()
    assert messages.STOP_LOAD in {text for _, tag, text in link.sent if tag == messages.BEAT}


def test_silence_while_facts_are_asked_for(
    link: FakeLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise ClientsSilent([2], "gather")

    monkeypatch.setattr(link, "gather", silent)
    assert not controller(link, tmp_path, "prepare").run()
    assert lost(tmp_path)["phase"] == "facts"
    assert list(lost(tmp_path)["clients"]) == ["b"]


def test_a_check_in_which_one_falls_silent_keeps_what_the_others_are(
    link: FakeLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a silent client does not discard the other clients' facts."""

    def barrier(_: int) -> None:
        raise ClientsSilent([2], "barrier", {1: b""})

    monkeypatch.setattr(link, "barrier", barrier, raising=False)
    assert not controller(link, tmp_path, "check").run()
    assert outcome_file(tmp_path, 1).read_bytes() == link.facts[1]
    assert not outcome_file(tmp_path, 2).exists()
    assert list(lost(tmp_path)["clients"]) == ["b"]


def test_no_two_kinds_of_message_have_one_tag() -> None:
    tags = [value for name, value in vars(messages).items() if isinstance(value, int)]
    assert len(tags) == len(set(tags)) == 13
