"""Ranks of both MPI wheels on this machine: messages, silence, death, clocks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import need_mpi, need_root
from storlab.base.clock import monotonic_ns, sleep_s
from storlab.cluster.launch import MpiJob, start
from storlab.cluster.mpiexec import Launcher, Ranks, environment, find_launcher

RANK = Path(__file__).parents[2] / "support" / "cluster_rank.py"
PATIENCE_S = 120.0
# Three clients, started by a process without network.
ALONE = """
import sys
from storlab.cluster.launch import start
from storlab.cluster.mpiexec import Ranks, find_launcher

launcher, rank, order = sys.argv[1:]
program = [sys.executable, rank]
job = start(find_launcher(launcher), Ranks(["localhost"], 3), program, order.encode())
code = job.wait(120)
job.await_output(5)
print(job.printed)
job.end()
sys.exit(code)
"""


@pytest.fixture(params=["mpich", "openmpi"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    return find_launcher(str(need_mpi(request.param)))


@pytest.fixture
def begin(launcher: Launcher, tmp_path: Path) -> Iterator[Callable[..., MpiJob]]:
    """Provide a function that starts jobs with ``result.json``, and end all jobs."""
    jobs = []

    def start_job(what: str, clients: int = 3, **order: Any) -> MpiJob:
        order |= {"do": what, "result": str(tmp_path / "result.json")}
        ranks = Ranks(["localhost"], clients)
        job = start(launcher, ranks, [sys.executable, str(RANK)], json.dumps(order).encode())
        jobs.append(job)
        return job

    yield start_job
    for job in jobs:
        job.end(5.0)


def found(job: MpiJob, tmp_path: Path, name: str = "result.json") -> Any:
    """Return the result of rank 0 as soon as it is stored."""
    deadline_ns = monotonic_ns() + round(PATIENCE_S * 1e9)
    while not (tmp_path / name).exists():
        assert job.poll() is None, job.printed
        assert monotonic_ns() < deadline_ns, job.printed
        sleep_s(0.01)
    return json.loads((tmp_path / name).read_text())


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def all_gone(pids: list[int]) -> bool:
    deadline_ns = monotonic_ns() + round(PATIENCE_S * 1e9)
    while any(map(runs, pids)):
        if monotonic_ns() > deadline_ns:
            return False
        sleep_s(0.01)
    return True


@pytest.mark.root
def test_loopback_is_network_enough(launcher: Launcher, tmp_path: Path) -> None:
    need_root("unshare", "ip")
    script = tmp_path / "run.py"
    script.write_text(ALONE)
    words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    order = {"do": "echo", "result": str(tmp_path / "result.json"), "bytes": 1000}
    words += [sys.executable, str(script), str(launcher.program), str(RANK), json.dumps(order)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "result.json").read_text())["same"]


def test_messages_of_any_size_arrive_as_they_were(
    begin: Callable[..., MpiJob], tmp_path: Path
) -> None:
    job = begin("echo", clients=4, bytes=300_000)  # eager and rendezvous messages
    answer = found(job, tmp_path)
    assert answer["same"]
    assert len(set(answer["pids"])) == 4
    assert answer["left"] == []  # nothing in /dev/shm would remain after a kill
    assert job.wait(PATIENCE_S) == 0, job.printed


def test_a_silent_rank_is_named_within_the_deadline(
    begin: Callable[..., MpiJob], tmp_path: Path
) -> None:
    patience_ns = 500_000_000
    job = begin("silent", stopped=[2], patience_ns=patience_ns, abort=True)
    answer = found(job, tmp_path)
    assert answer["gather"] == [2]
    assert answer["received"] == [1, 3]
    assert answer["broadcast"] == [2]
    assert answer["text"].startswith("host2 (client 2): did not answer in time")
    assert answer["waited_ns"] >= patience_ns


def test_only_the_silent_clock_is_named(begin: Callable[..., MpiJob], tmp_path: Path) -> None:
    """Check that waiting for a silent client does not use up the time of later ones."""
    job = begin("silent_clocks", clients=4, stopped=[2], patience_ns=4_000_000_000, abort=True)
    assert found(job, tmp_path) == [2]


def test_a_killed_rank_ends_mpiexec(begin: Callable[..., MpiJob], tmp_path: Path) -> None:
    job = begin("sleep", told=str(tmp_path / "told.json"))
    pids = found(job, tmp_path, "told.json")["pids"]
    os.kill(pids[2], signal.SIGKILL)
    assert job.wait(PATIENCE_S) not in (None, 0)
    job.end(5.0)
    assert all_gone(pids)
    assert "a line of rank 0" in job.printed


def test_a_stopped_rank_is_ended_with_the_job(begin: Callable[..., MpiJob], tmp_path: Path) -> None:
    job = begin("sleep", told=str(tmp_path / "told.json"))
    pids = found(job, tmp_path, "told.json")["pids"]
    os.kill(pids[1], signal.SIGSTOP)
    job.end(3.0)
    assert all_gone([job.pid, *pids])
    assert job.poll() is not None


def test_ranks_end_when_mpiexec_is_killed(begin: Callable[..., MpiJob], tmp_path: Path) -> None:
    job = begin("sleep", told=str(tmp_path / "told.json"))
    pids = found(job, tmp_path, "told.json")["pids"]
    os.kill(job.pid, signal.SIGKILL)
    assert job.wait(PATIENCE_S) == -signal.SIGKILL
    assert all_gone(pids)
    job.end(5.0)
    assert not (Path(tempfile.gettempdir()) / f"ompi.{job.pid}").exists()


def test_a_rank_that_hangs_on_its_way_out_ends_with_mpiexec(
    begin: Callable[..., MpiJob], tmp_path: Path
) -> None:
    """Check that a rank hanging in interpreter shutdown ends with mpiexec."""
    lingers = tmp_path / "lingers"
    job = begin("linger", told=str(tmp_path / "told.json"), lingers=str(lingers))
    pids = found(job, tmp_path, "told.json")["pids"]
    deadline_ns = monotonic_ns() + round(PATIENCE_S * 1e9)
    while runs(pids[1]) and not lingers.exists():
        assert monotonic_ns() < deadline_ns
        sleep_s(0.01)
    with suppress(ProcessLookupError):
        os.kill(job.pid, signal.SIGKILL)
    job.wait(PATIENCE_S)
    assert all_gone(pids)


def test_ranks_end_with_the_lab(launcher: Launcher, tmp_path: Path) -> None:
    order = {"do": "sleep", "told": str(tmp_path / "told.json"), "result": ""}
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from storlab.cluster.launch import start\n"
        "from storlab.cluster.mpiexec import Ranks, find_launcher\n"
        f"start(find_launcher({str(launcher.program)!r}), Ranks(['localhost'], 2), "
        f"[sys.executable, {str(RANK)!r}], {json.dumps(order)!r}.encode())\n"
        "time.sleep(600)\n"
    )
    lab = subprocess.Popen([sys.executable, "-c", code])
    deadline_ns = monotonic_ns() + round(PATIENCE_S * 1e9)
    while not (tmp_path / "told.json").exists():
        assert monotonic_ns() < deadline_ns
        sleep_s(0.01)
    pids = json.loads((tmp_path / "told.json").read_text())["pids"]
    lab.kill()
    lab.wait()
    assert all_gone(pids)


def test_clocks_of_one_machine_agree(begin: Callable[..., MpiJob], tmp_path: Path) -> None:
    offsets = found(begin("offsets"), tmp_path)
    assert sorted(offsets) == ["1", "2", "3"]
    for offset_ns, round_trip_ns in offsets.values():
        assert round_trip_ns > 0
        assert abs(offset_ns) <= max(50_000, round_trip_ns / 2)


@pytest.mark.parametrize(
    ("launched", "linked", "loaded"),
    [("mpich", "openmpi", "Open MPI"), ("openmpi", "mpich", "MPICH")],
)
def test_an_mpiexec_of_another_mpi_is_noticed(launched: str, linked: str, loaded: str) -> None:
    program = find_launcher(str(need_mpi(launched)))
    library = environment(find_launcher(str(need_mpi(linked))), Ranks(["localhost"], 1), {})
    ranks = Ranks(["localhost"], 2, environment={"MPI4PY_LIBMPI": library["MPI4PY_LIBMPI"]})
    job = start(program, ranks, [sys.executable, str(RANK)], b"{}")
    assert job.wait(PATIENCE_S) not in (None, 0)
    job.end(5.0)
    assert f"{launched}, but mpi4py loaded the library of {loaded}" in job.printed
    assert "MPI4PY_LIBMPI" in job.printed


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, "passed no order to rank 0"),
        ({"STORLAB_MPI_SIZE": "3"}, "1 of 3 ranks are connected"),
    ],
)
def test_a_rank_that_is_alone_says_so(environment: dict[str, str], text: str) -> None:
    need_mpi("mpich")
    asked = subprocess.Popen(
        [sys.executable, str(RANK)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    _, printed = asked.communicate()
    assert asked.returncode != 0
    assert text in printed
    # A singleton rank's name contains the process id.
    assert not list(Path("/dev/shm").glob(f"mpich_shm_{asked.pid:x}_*"))
