"""Heartbeats of a client that is busy without using the link."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storlab.base.units import NS_PER_S
from storlab.cluster.client import ClientEnd
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.site import client_task
from storlab.lab.site.client_report import NicBytes
from storlab.lab.site.client_task import (
    ClientReporter,
    ClientTask,
    ProgressSender,
    nic_bytes_around,
)
from storlab.process.counters import CounterReading
from storlab.process.execution import Interrupted, StopRequest


class FakeEnd:
    """Fake end that counts its messages."""

    def __init__(self) -> None:
        self.stop = StopRequest()
        self.told: list[dict[str, Any]] = []
        self.twice = threading.Event()
        self.order = SimpleNamespace(lost_after_ns=60 * NS_PER_S)
        self.thread = threading.get_ident()

    def tell(self, snapshot: dict[str, Any]) -> None:
        assert threading.get_ident() == self.thread, "the link is of one thread"
        self.told.append(snapshot)
        if len(self.told) > 1:
            self.twice.set()


def test_who_removes_a_large_file_is_not_taken_for_lost() -> None:
    end = FakeEnd()
    assert ProgressSender(cast(ClientEnd, end)).during("clean", lambda: end.twice.wait(60.0))
    assert end.told[:2] == [{"phase": "clean"}] * 2


def test_what_goes_wrong_there_is_raised_here() -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        ProgressSender(cast(ClientEnd, FakeEnd())).during("clean", fail)


def test_what_is_made_durable_is_told_of_meanwhile() -> None:
    """Check that progress of a data set layout is sent while it runs."""
    end = FakeEnd()
    teller = ProgressSender(cast(ClientEnd, end))
    reporter = ClientReporter(teller)

    def work() -> bool:
        reporter.step("t: laying out", 10.0)
        reporter.step_progress(4.0)
        return end.twice.wait(60.0)

    assert teller.during("prepare", work)
    assert end.told[0] == {"phase": "prepare", "text": "t: laying out", "total": 10.0, "done": 4.0}


@pytest.mark.parametrize("endless", [False, True])
def test_who_hangs_falls_silent(monkeypatch: pytest.MonkeyPatch, endless: bool) -> None:
    """Check that a client hanging on a dead mount sends no heartbeat."""
    monkeypatch.setattr(client_task, "POLL_S", 0.001)
    end = FakeEnd()
    end.order.lost_after_ns = 0
    teller = ProgressSender(cast(ClientEnd, end))
    told = teller.during(
        "prepare", lambda: end.twice.wait(60.0 if endless else 0.2), endless=endless
    )
    assert told is endless
    assert bool(end.told) is endless


def test_who_waits_for_the_first_client_ends_when_asked_to() -> None:
    task = object.__new__(ClientTask)
    end = FakeEnd()
    task._end = cast(ClientEnd, end)
    task._teller = ProgressSender(task._end)
    task._await_others()
    assert end.told == [{"phase": "prepare"}]
    end.stop.ask()
    with pytest.raises(Interrupted):
        task._await_others()


class HangingRun:
    """Run whose open() hangs: never armed, never ended."""

    def __init__(self) -> None:
        self.cancelled = False

    def armed(self) -> bool:
        return False

    def cancel(self) -> None:
        self.cancelled = True

    def wait(self, timeout_s: float | None = None) -> None:
        del timeout_s


def test_who_does_not_get_ready_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a hanging open() fails the run instead of waiting for Ctrl-C."""
    monkeypatch.setattr(client_task, "_GIVE_UP_NS", 1_000_000)
    task = object.__new__(ClientTask)
    end = FakeEnd()
    end.order.arm_within_ns = 1_000_000
    end.received_ns = 0  # type: ignore[attr-defined]
    task._end = cast(ClientEnd, end)
    task._teller = ProgressSender(task._end)
    task._shared = None
    run = HangingRun()
    monkeypatch.setattr(ClientTask, "_hold", lambda *_: run)
    with pytest.raises(PrepareError, match=r"was not ready to start within 1 ms") as caught:
        task._start(cast(Any, None), cast(Any, None), Path())
    assert "arm_within" in caught.value.failure.fix
    assert run.cancelled
    assert end.told


def test_no_byte_of_a_window_is_missing_however_late_it_is_looked() -> None:
    late = [CounterReading(t, (10 * t, t)) for t in (0, 90, 400, 950, 1100)]
    assert nic_bytes_around(late, 100, 1000) == NicBytes(10_100, 1010, 1010)
    assert nic_bytes_around(late, 100, 5000) == NicBytes(10_100, 1010, 1010)
    assert nic_bytes_around(late[:1], 0, 10) is None
