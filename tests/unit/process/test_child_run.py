"""A program that executes a run: monitored, ended, and its failure message."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from storlab.base.clock import sleep_s
from storlab.model.result import EngineInfo, RunOutcome
from storlab.process.child import ChildRun, Launch
from storlab.process.events import Events
from storlab.process.session_cpu import family, is_alive

WAIT_S = 60
BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
FOREVER = "import pathlib, time\npathlib.Path('ready').touch()\ntime.sleep(600)\n"


class Run(ChildRun):
    def finish(self) -> RunOutcome:
        rows = np.array([[self.started_ns + 1, 1, 10]], dtype=np.int64)
        window = (self.started_ns, self.ended_ns)
        outcome = self.measured([Events.of_rows("read", rows)], window, 10**9, 1)
        outcome.raw = self.raw()
        outcome.failure = self.failure("look")
        return outcome


class Piped(Run):
    piped = True

    def line(self, text: str) -> None:
        if text == "7\n":
            raise ValueError("seven")
        self.launch.work_dir.joinpath(text.strip()).touch()


def start(tmp_path: Path, code: str, limit_ns: int | None = None) -> Run:
    launch = Launch(
        name="the child",
        command=[sys.executable, "-c", code],
        environment={"SOME": "thing here"},
        work_dir=tmp_path,
        place=tmp_path,
        kill_after_s=0.2,
        limit_ns=limit_ns,
    )
    return Run(launch, EngineInfo(name="x", version="1"))


def ended(run: Run) -> RunOutcome:
    outcome = run.wait(WAIT_S)
    assert outcome is not None
    return outcome


def test_what_it_used_and_printed_is_kept(tmp_path: Path) -> None:
    run = start(tmp_path, f"{BURN}print('hello')")
    outcome = ended(run)
    assert (outcome.status, outcome.failure) == ("finished", None)
    assert outcome.totals["read"].bytes == 10
    assert outcome.cpu is not None
    assert outcome.cpu.user_ns + outcome.cpu.system_ns >= 250_000_000
    assert outcome.raw["stdout.txt"] == b"hello\n"
    assert outcome.raw["command.txt"].startswith(b"SOME='thing here' ")
    assert run.snapshot().phase == "done"


def test_the_time_of_its_children_counts(tmp_path: Path) -> None:
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}], check=True)"
    outcome = ended(start(tmp_path, code))
    assert outcome.cpu is not None
    assert outcome.cpu.user_ns + outcome.cpu.system_ns >= 250_000_000


def test_an_error_is_told_in_its_last_words(tmp_path: Path) -> None:
    outcome = ended(start(tmp_path, "import sys\nsys.exit('no room left')"))
    assert outcome.failure is not None
    assert "exit code 1: no room left" in outcome.failure.message


def wait_for(path: Path) -> None:
    while not path.exists():
        sleep_s(0.01)


@pytest.mark.parametrize("stubborn", [False, True])
def test_cancelling_ends_it_and_all_that_it_started(tmp_path: Path, stubborn: bool) -> None:
    ignore = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" if stubborn else ""
    code = (
        f"{ignore}import os, pathlib, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {ignore + FOREVER!r}],"
        " start_new_session=True)\n"
        "pathlib.Path('pid.part').write_text(str(child.pid))\n"
        "pathlib.Path('pid.part').rename('pid')\nchild.wait()\n"
    )
    run = start(tmp_path, code)
    wait_for(tmp_path / "ready")
    wait_for(tmp_path / "pid")
    assert run.wait(0.01) is None
    assert run.snapshot().phase == "measure"
    pid = int((tmp_path / "pid").read_text())
    born = family(pid)[pid][2]
    while pid not in run.trace.relatives:
        pass
    assert is_alive(pid, born)
    assert not is_alive(pid, born + 1)
    run.cancel()
    outcome = ended(run)
    assert (outcome.status, outcome.failure) == ("cancelled", None)
    while is_alive(pid, born):  # the kernel takes a moment
        pass


def test_one_that_hangs_is_ended_and_has_failed(tmp_path: Path) -> None:
    outcome = ended(start(tmp_path, FOREVER, limit_ns=1))
    assert outcome.failure is not None
    assert "did not end in time" in outcome.failure.message


def test_a_family_is_a_process_and_its_descendants(tmp_path: Path) -> None:
    run = start(tmp_path, FOREVER)
    wait_for(tmp_path / "ready")
    own = family(run._process.pid)
    assert list(own) == [run._process.pid]
    assert family(2**30) == {}
    run.cancel()
    ended(run)


def piped(tmp_path: Path, code: str) -> Piped:
    launch = Launch("the child", [sys.executable, "-uc", code], {}, tmp_path, kill_after_s=0.2)
    return Piped(launch, EngineInfo(name="x", version="1"))


def test_lines_of_a_pipe_are_read_as_they_arrive_and_to_the_end(tmp_path: Path) -> None:
    code = (
        "import pathlib\nprint('first')\n"
        "while not pathlib.Path('first').exists(): pass\nprint('last')\n"
    )
    outcome = ended(piped(tmp_path, code))
    assert (outcome.status, outcome.failure) == ("finished", None)
    assert (tmp_path / "last").exists()
    assert "stdout.txt" not in outcome.raw


def test_a_line_that_cannot_be_read_ends_the_program(tmp_path: Path) -> None:
    outcome = ended(piped(tmp_path, f"print(7)\n{FOREVER}"))
    assert outcome.failure is not None
    assert "ValueError: seven" in outcome.failure.message


def test_one_that_keeps_the_pipe_open_behind_it_keeps_nobody(tmp_path: Path) -> None:
    code = (
        "import pathlib, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {FOREVER!r}])\n"
        "while not pathlib.Path('ready').exists(): pass\nprint('last')\n"
    )
    outcome = ended(piped(tmp_path, code))
    assert (outcome.status, outcome.failure) == ("finished", None)
    assert (tmp_path / "last").exists()


def test_the_end_is_polled_for_where_the_kernel_does_not_tell_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: int) -> int:
        raise PermissionError

    monkeypatch.setattr("os.pidfd_open", refused)
    outcome = ended(start(tmp_path, "print('hello')"))
    assert (outcome.status, outcome.failure) == ("finished", None)


def test_secrets_reach_it_and_nobody_else(tmp_path: Path) -> None:
    code = "import os\nprint(os.environ['KEY'], os.environ.get('HOME'))"
    launch = Launch(
        "the child",
        [sys.executable, "-c", code],
        {},
        tmp_path,
        secrets={"KEY": "hush-hush"},
        inherits=lambda name: name != "HOME",
    )
    outcome = ended(Run(launch, EngineInfo(name="x", version="1")))
    assert outcome.raw["stdout.txt"] == b"*** None\n"
    assert not any(b"hush" in content for content in outcome.raw.values())


def test_it_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    """Check that a child survives the end of the thread that started it."""
    code = (
        "import pathlib, time\npathlib.Path('ready').touch()\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
    )
    runs = []
    thread = threading.Thread(target=lambda: runs.append(start(tmp_path, code)))
    thread.start()
    thread.join()
    wait_for(tmp_path / "ready")
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        pass
    (tmp_path / "go").touch()
    outcome = ended(runs[0])
    assert (outcome.status, outcome.failure) == ("finished", None)
