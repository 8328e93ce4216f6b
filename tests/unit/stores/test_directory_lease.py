"""Lease on a directory shared by clients: one campaign's, from its first to its last task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from storlab.base.errors import GuardError, PreflightError
from storlab.base.locks import try_lock_exclusive
from storlab.base.units import NS_PER_S
from storlab.stores import directory_lease as module
from storlab.stores.directory_lease import LOCK, DirectoryLease, Holder, await_lease, holder_now

LONG_NS = 3600 * NS_PER_S
FIRST = Holder("first", "study of one", "lab1:/results/one", LONG_NS, "c01", "task-1")
OTHER = Holder("other", "study of another", "lab2:/results/two", LONG_NS, "c07", "task-a")
IN_USE = r"in use by campaign first \(study of one, results in lab1:/results/one\)"


def go_on(what: str, total_s: float, gone_s: float) -> None:
    """Waiting callback that lets a claim wait on."""


class WaitedError(Exception):
    """Raised instead of waiting."""


def give_up(what: str, total_s: float, gone_s: float) -> None:
    raise WaitedError(what, total_s)


def test_another_campaign_is_refused_with_its_name_and_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NAP_S", 0.001)
    with DirectoryLease(tmp_path, FIRST, give_up):
        with pytest.raises(GuardError, match=IN_USE) as refused:
            DirectoryLease(tmp_path, OTHER, give_up).__enter__()
        assert "another directory" in refused.value.fix
        with pytest.raises(GuardError, match=IN_USE):
            await_lease(tmp_path, OTHER, go_on)


def test_a_campaign_comes_back_with_its_next_task(tmp_path: Path) -> None:
    for number in range(3):
        own = replace(FIRST, task=f"task-{number}")
        with DirectoryLease(tmp_path, own, give_up):
            await_lease(tmp_path, own, give_up)
        assert (tmp_path / LOCK).exists()


def test_the_others_of_a_task_wait_for_its_first_client(tmp_path: Path) -> None:
    with DirectoryLease(tmp_path, FIRST, give_up):
        pass
    second = replace(FIRST, task="task-2")
    with pytest.raises(WaitedError, match="waits for the first client"):
        await_lease(tmp_path, second, give_up)
    with DirectoryLease(tmp_path, second, give_up):
        await_lease(tmp_path, second, give_up)


def test_between_two_tasks_of_a_campaign_there_is_no_room_for_another(tmp_path: Path) -> None:
    with DirectoryLease(tmp_path, FIRST, give_up):
        pass
    held: list[DirectoryLease] = []

    def come_back(what: str, total_s: float, gone_s: float) -> None:
        assert "campaign first" in what
        assert (total_s, gone_s < total_s) == (LONG_NS / NS_PER_S, True)
        if not held:
            held.append(
                DirectoryLease(tmp_path, replace(FIRST, task="task-2"), give_up).__enter__()
            )

    with pytest.raises(GuardError, match=IN_USE):
        DirectoryLease(tmp_path, OTHER, come_back).__enter__()
    held[0].__exit__()


def test_a_task_that_came_and_went_while_nobody_looked_is_seen(tmp_path: Path) -> None:
    with DirectoryLease(tmp_path, FIRST, give_up):
        pass

    def come_and_go(what: str, total_s: float, gone_s: float) -> None:
        with DirectoryLease(tmp_path, replace(FIRST, task="task-2"), give_up):
            pass

    with pytest.raises(GuardError, match=IN_USE):
        DirectoryLease(tmp_path, OTHER, come_and_go).__enter__()


def test_who_stays_away_is_followed_by_another(tmp_path: Path) -> None:
    brief = replace(FIRST, away_ns=1)
    with DirectoryLease(tmp_path, brief, give_up):
        pass
    with DirectoryLease(tmp_path, OTHER, go_on):
        assert holder_now(tmp_path, "first") == OTHER
        with pytest.raises(GuardError, match="campaign other"):
            DirectoryLease(tmp_path, brief, go_on).__enter__()


@pytest.mark.parametrize("content", ["", "half of a te"])
def test_the_others_do_not_refuse_a_takeover_that_is_going_on(tmp_path: Path, content: str) -> None:
    """Check that clients tolerate a takeover whose first client locks before it writes."""
    with DirectoryLease(tmp_path, FIRST, give_up):
        pass
    with (tmp_path / LOCK).open("r+b") as file:
        try_lock_exclusive(file.fileno())
        if content:
            file.write(content.encode())
            file.truncate()
            file.flush()
        looked: list[str] = []

        def take_over(what: str, total_s: float, gone_s: float) -> None:
            looked.append(what)
            if len(looked) == 3:
                module._write(file.fileno(), OTHER)

        await_lease(tmp_path, OTHER, take_over)
    assert len(looked) == 3


def test_a_short_name_leaves_nothing_of_a_long_one(tmp_path: Path) -> None:
    long = replace(FIRST, study="Вимірювання " * 60, results="host:/шлях" * 60, away_ns=1)
    with DirectoryLease(tmp_path, long, give_up):
        pass
    for number in range(2):
        with DirectoryLease(tmp_path, replace(OTHER, task=f"task-{number}"), go_on):
            assert holder_now(tmp_path, "") == replace(OTHER, task=f"task-{number}")


def test_a_campaign_that_ends_leaves_nothing(tmp_path: Path) -> None:
    with DirectoryLease(tmp_path, FIRST, give_up) as claim:
        claim.ends = True
    assert list(tmp_path.iterdir()) == []
    with DirectoryLease(tmp_path, OTHER, give_up):
        pass


def test_who_never_comes_back_leaves_nothing(tmp_path: Path) -> None:
    with DirectoryLease(tmp_path, replace(FIRST, away_ns=0), give_up):
        pass
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys
from pathlib import Path
from storlab.stores.directory_lease import DirectoryLease, Holder
with DirectoryLease(Path(sys.argv[1]), Holder("first", "s", "r", 0), lambda *_: None):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_process_that_was_killed_is_gone(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(GuardError, match="in use by campaign first"):
            DirectoryLease(tmp_path, OTHER, give_up).__enter__()
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    with DirectoryLease(tmp_path, OTHER, go_on):
        pass


def test_only_who_works_there_now_is_named(tmp_path: Path) -> None:
    assert holder_now(tmp_path, "") is None
    with DirectoryLease(tmp_path, FIRST, give_up):
        assert holder_now(tmp_path, "") == FIRST
        assert holder_now(tmp_path, "first") is None
    assert holder_now(tmp_path, "") is None


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    for content in ("mine", "[]", '{"made_by": "me", "schema_version": 1}'):
        (tmp_path / LOCK).write_text(content)
        with pytest.raises(GuardError, match="is not a lock of this version"):
            DirectoryLease(tmp_path, FIRST, give_up).__enter__()
        assert (tmp_path / LOCK).read_text() == content


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="missing: does not exist on this client"):
        DirectoryLease(tmp_path / "missing", FIRST, give_up).__enter__()
    assert list(tmp_path.iterdir()) == []
