"""A task as seen by the lab: rank 0's files count, mpiexec's output does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.files import replace_file
from storlab.base.units import NS_PER_MS, NS_PER_S
from storlab.cluster import session as module
from storlab.cluster.mpiexec import Launcher, Ranks
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.session import Gathered, Session
from storlab.cluster.task import ClientPlace, Order, Task, outcome_file

HELP = """
import json, os, pathlib, signal, sys, time
here = pathlib.Path.cwd()
def write(name, content):
    new = here / f".{name}"
    new.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    new.rename(here / name)
def live(**more):
    write("live.json", {"phase": "load", "armed": 2, "clients": {}, **more})
def outcomes(*ranks):
    for rank in ranks:
        write(f"client-{rank}.outcome", b"of %d" % rank)
CLOCKS = [{"a": [5, 2], "b": [-7, 4]}, {"a": [6, 2], "b": [-7, 4]}]
"""
PATIENCE_S = 60.0
Begin = Callable[..., Session]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Provide a session with a fake mpiexec written in Python, run in the task's folder."""
    begun: list[Session] = []

    def start(
        script: str,
        task: Task = "run",
        lost_after_ns: int = 60 * NS_PER_S,
        hosts: tuple[str, str] = ("a", "b"),
    ) -> Session:
        program = tmp_path / "mpiexec"
        program.write_text(f"#!{sys.executable}\n{HELP}\n{script}")
        program.chmod(0o755)
        directory = tmp_path / "task"
        directory.mkdir()
        order = Order(
            task=task,
            work_dir=str(directory),
            clients=[
                ClientPlace(name=name, host=host, rank=rank)
                for rank, (name, host) in enumerate(zip("ab", hosts, strict=True), 1)
            ],
            lost_after_ns=lost_after_ns,
            nonce="n",
            arguments={},
        )
        launcher = Launcher(program, "mpich", "5.0")
        begun.append(Session(launcher, Ranks(list(hosts), 2), ["rank"], order, directory))
        return begun[-1]

    yield start
    for session in begun:
        session.end()


def end_of(session: Session) -> Gathered:
    gathered = session.wait(PATIENCE_S)
    assert gathered is not None
    return gathered


@pytest.mark.parametrize("ending", ["sys.exit(255)", "os.kill(os.getpid(), 9)", "sys.exit(0)"])
def test_a_complete_gather_is_good_however_mpiexec_ends(begin: Begin, ending: str) -> None:
    gathered = end_of(begin(f"live(); outcomes(1, 2); write('clocks.json', CLOCKS); {ending}"))
    assert gathered.failure is None
    assert gathered.lost == {}
    assert gathered.outcomes == {1: b"of 1", 2: b"of 2"}
    assert gathered.clocks[1] == {"a": ClockOffset(6, 2), "b": ClockOffset(-7, 4)}


def test_an_mpiexec_that_never_ends_is_ended(begin: Begin) -> None:
    script = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "live(); outcomes(1, 2); write('clocks.json', CLOCKS); time.sleep(600)"
    )
    session = begin(script)
    assert end_of(session).failure is None
    assert session._job.wait(PATIENCE_S) == -9


def test_a_run_is_whole_with_its_second_look_at_the_clocks(begin: Begin) -> None:
    session = begin(
        "live(); outcomes(1, 2); write('clocks.json', CLOCKS[:1])\n"
        "while not (here / 'go').exists(): time.sleep(0.01); live()\n"
        "write('clocks.json', CLOCKS)"
    )
    assert session.wait(0.5) is None
    (session._directory / "go").touch()
    assert len(end_of(session).clocks) == 2


def test_a_task_without_load_is_whole_with_its_outcomes(begin: Begin) -> None:
    gathered = end_of(begin("live(); outcomes(2, 1); time.sleep(600)", "prepare"))
    assert gathered.failure is None
    assert gathered.clocks == []


@pytest.mark.parametrize("task", ["clean", "verify"])
def test_directories_are_given_up_behind_the_outcomes(begin: Begin, task: Task) -> None:
    """Check that a campaign leaves no lease on directories after its end."""
    session = begin(
        "live(); outcomes(1, 2)\nwhile not (here / 'go').exists(): time.sleep(0.01); live()", task
    )
    assert session.wait(0.5) is None
    (session._directory / "go").touch()
    assert end_of(session).failure is None
    assert session._job.poll() == 0


@pytest.mark.parametrize("what", ["time.sleep(600)", "write('lost.json', {})\ntime.sleep(600)"])
def test_nobody_waits_for_ever_for_directories_to_be_given_up(begin: Begin, what: str) -> None:
    lost_after_ns = (60 if "lost" in what else 5) * NS_PER_S  # Python takes time to start
    gathered = end_of(begin(f"outcomes(1, 2); live()\n{what}", "clean", lost_after_ns))
    assert gathered.failure is None
    assert sorted(gathered.outcomes) == [1, 2]


def test_a_pause_of_the_lab_is_no_silence_of_the_clients(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a suspended lab does not count the gap as silence of the clients."""
    session = begin(
        "live()\nwhile not (here / 'go').exists(): time.sleep(0.01)\n"
        "outcomes(1, 2); write('clocks.json', CLOCKS)"
    )
    while session.live()["phase"] == "start":
        assert session.wait(0.1) is None
    hour_ns = 3600 * NS_PER_S
    monkeypatch.setattr(module, "monotonic_ns", lambda: monotonic_ns() + hour_ns)
    assert session.wait(0.5) is None
    (session._directory / "go").touch()
    assert end_of(session).failure is None


NO_MPI = "print('Fatal error in internal_Init_thread: Other MPI error', flush=True)"
NO_PMI = (
    "print('slurmstepd-n2: error: mpi/pmi2: value not properly terminated in client request')\n"
    "    print('slurmstepd-n2: error: mpi/pmi2: invalid client request', flush=True)"
)
COUNT = """
starts = here / 'starts'
count = len(starts.read_text()) + 1 if starts.exists() else 1
starts.write_text('x' * count)
"""


@pytest.mark.parametrize("end", ["sys.exit(1)", "time.sleep(600)"])
@pytest.mark.parametrize("told", [NO_MPI, NO_PMI], ids=["mpi", "slurm"])
def test_an_mpi_that_does_not_come_up_is_started_again(begin: Begin, told: str, end: str) -> None:
    session = begin(
        f"{COUNT}\nif count < 3:\n    {told}; {end}\n"
        "live(); outcomes(1, 2); write('clocks.json', CLOCKS)"
    )
    assert end_of(session).failure is None


@pytest.mark.parametrize(
    ("script", "starts"),
    [
        (f"{NO_MPI}; sys.exit(1)", 3),  # not for ever
        (f"live(); {NO_MPI}; sys.exit(1)", 1),  # something had started
        ("print('ssh: no such host', flush=True); sys.exit(1)", 1),  # permanent
    ],
)
def test_what_does_not_pass_is_not_started_again(begin: Begin, script: str, starts: int) -> None:
    session = begin(f"{COUNT}\n{script}")
    failure = end_of(session).failure
    assert failure is not None
    assert failure.message.startswith("a, b: ended without an outcome (mpiexec: 1): ")
    assert len((session._directory / "starts").read_text()) == starts


def test_silent_clients_are_named(begin: Begin) -> None:
    clients = {"b": "did not answer in time (phase: load)"}
    lost = f"{{'phase': 'load', 'after_ns': 60 * 10**9, 'clients': {clients}}}"
    gathered = end_of(begin(f"live(); outcomes(1); write('lost.json', {lost}); time.sleep(600)"))
    assert gathered.failure is not None
    assert gathered.failure.message == "b: did not respond for 60 s (load)"
    assert "storlab doctor" in gathered.failure.fix
    assert gathered.outcomes == {1: b"of 1"}
    assert list(gathered.lost) == ["b"]


def test_clients_that_gave_nothing_are_named_when_mpiexec_ends(begin: Begin) -> None:
    gathered = end_of(begin("live(); outcomes(1); print('=  no memory  ='); sys.exit(0)"))
    assert gathered.failure is not None
    assert gathered.failure.message == "b: ended without an outcome (mpiexec: 0): no memory"
    assert gathered.lost == {"b": "ended"}


def test_the_host_that_mpiexec_blames_is_named_alone(begin: Begin) -> None:
    script = "live(); print('rank 1 on a: killed by signal 9'); sys.exit(9)"
    gathered = end_of(begin(script))
    assert gathered.failure is not None
    assert gathered.failure.message.startswith("a: ended without an outcome (mpiexec: 9): rank 1")
    assert sorted(gathered.lost) == ["a", "b"]


MPICH = """
[mpiexec@c0] main (mpiexec.c:270): process manager error
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 12 RUNNING AT localhost
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
"""
OPEN_MPI = "noticed that process rank 2 with PID 12 on node vm exited on\nsignal 9 (Killed)."


@pytest.mark.parametrize(
    ("text", "hosts", "named"),
    [
        (OPEN_MPI, ("localhost", "localhost"), "b"),
        (MPICH.replace("localhost", "two"), ("one", "two"), "b"),
        (MPICH, ("localhost", "localhost"), "a, b"),  # ambiguous: it killed the other client itself
    ],
)
def test_the_process_that_mpiexec_blames_has_a_name(
    begin: Begin, text: str, hosts: tuple[str, str], named: str
) -> None:
    script = f"live(); write('pids.json', {{'a': 11, 'b': 12}}); print({text!r}); sys.exit(9)"
    gathered = end_of(begin(script, hosts=hosts))
    assert gathered.failure is not None
    assert gathered.failure.message.startswith(f"{named}: ended without an outcome (mpiexec: 9): ")
    assert "mpiexec@" not in gathered.failure.message
    assert "CLEAN" not in gathered.failure.message


SLURM = """
srun: cluster configuration lacks support for cpu binding
srun: error: b: task 2: Killed
srun: launch/slurm: _step_signal: Terminating StepId=3.3
slurmstepd-a: error: *** STEP 3.3 ON a CANCELLED AT 2026-11-23T07:06:50 ***
srun: error: a: tasks 0-1: Terminated
srun: Force Terminated StepId=3.3
"""


def test_the_task_that_srun_blames_has_a_name(begin: Begin) -> None:
    gathered = end_of(begin(f"live(); print({SLURM!r}); sys.exit(143)"))
    assert gathered.failure is not None
    assert gathered.failure.message == (
        "b: ended without an outcome (mpiexec: 143): srun: error: b: task 2: Killed"
    )


def test_a_task_that_srun_ends_itself_is_not_blamed(begin: Begin) -> None:
    text = "srun: error: a: task 1: Terminated\nsrun: error: b: task 2: Terminated"
    gathered = end_of(begin(f"live(); print({text!r}); sys.exit(143)"))
    assert gathered.failure is not None
    assert gathered.failure.message.startswith("a, b: ended")


def test_a_process_of_that_number_on_another_host_is_not_blamed(begin: Begin) -> None:
    text = "PID 12 RUNNING AT elsewhere"
    script = f"live(); write('pids.json', {{'a': 11, 'b': 12}}); print({text!r}); sys.exit(9)"
    gathered = end_of(begin(script))
    assert gathered.failure is not None
    assert gathered.failure.message.startswith("a, b: ended")


def test_on_one_machine_no_host_can_be_blamed(begin: Begin) -> None:
    script = "live(); print('on localhost: killed'); sys.exit(9)"
    gathered = end_of(begin(script, hosts=("localhost", "localhost")))
    assert gathered.failure is not None
    assert gathered.failure.message.startswith("a, b: ended")


def test_a_mute_rank_0_is_noticed(begin: Begin) -> None:
    session = begin("live(); print('so far'); time.sleep(600)", lost_after_ns=100 * NS_PER_MS)
    gathered = end_of(session)
    assert gathered.failure is not None
    assert gathered.failure.message.startswith("rank 0 did not respond")


def test_ranks_that_never_start_are_noticed(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    session = begin("print('a: permission denied', flush=True); time.sleep(600)")
    while "denied" not in session._job.printed:
        sleep_s(0.01)
    monkeypatch.setattr(module, "START_NS", 0)
    gathered = end_of(session)
    assert gathered.failure is not None
    assert gathered.failure.message == "the clients did not start: a: permission denied"
    assert "password" in gathered.failure.fix


def test_what_it_does_now_is_told(begin: Begin) -> None:
    session = begin("time.sleep(600)")
    assert session.live() == {"phase": "start", "armed": 0, "clients": {}}
    text = json.dumps({"phase": "load", "armed": 2, "clients": {"a": {}}})
    replace_file(session._directory / "live.json", text.encode(), durable=False)
    assert session.live()["phase"] == "load"
    (session._directory / "live.json").write_text("{")
    assert session.live()["phase"] == "start"
    session.stop()
    assert (session._directory / "stop").exists()


def test_nothing_said_by_mpiexec_is_told_too(begin: Begin) -> None:
    gathered = end_of(begin("live(); print('====')"))
    assert gathered.failure is not None
    assert gathered.failure.message.endswith("(mpiexec: 0): nothing was printed")


def test_files_appear_whole(tmp_path: Path) -> None:
    replace_file(outcome_file(tmp_path, 3), b"x" * 1_000_000, durable=False)
    assert [path.name for path in tmp_path.iterdir()] == ["client-3.outcome"]


def test_secrets_of_an_order_are_in_no_file(begin: Begin, tmp_path: Path) -> None:
    end_of(begin("sys.stdin.buffer.read(); live(); outcomes(1, 2)", "prepare"))
    names = {path.name for path in (tmp_path / "task").iterdir()}
    assert names == {"live.json", "client-1.outcome", "client-2.outcome"}
