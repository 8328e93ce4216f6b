"""Clients started by a real Slurm, with all nodes on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import need_mpi, need_slurm
from storlab.base.errors import ExitCode
from storlab.results.store import ResultStore
from support.cluster_lab import STORLAB, Lab, all_pids, kill, stop, variables, wait_for, words
from support.slurm import Slurm

STUDY = """
[study]
name = "clients of a Slurm job"
repeats = {repeats}
ramp = 0
runtime = "{runtime}"
interval = "200ms"
[cluster]
from = "slurm"
launcher = "{launcher}"
clients = {clients}
lost_after = "{lost_after}"
[[target]]
name = "shared"
directory = "{directory}"
size = "1MiB"
direct = false
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = 50
rate_iops = 2000
"""
DEFAULTS = {"repeats": 1, "runtime": "3s", "clients": "3", "lost_after": "20s"}
ON_A_NODE = ("salloc", "--nodes=3", "srun", "--nodes=1", "--ntasks=1", "--overlap")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    need_slurm()
    need_mpi("mpich")
    with Slurm(tmp_path_factory.mktemp("slurm") / "nodes", 3) as slurm:
        yield slurm


def write_study(place: Path, launcher: str, **values: object) -> Path:
    (place / "data").mkdir()
    path = place / "study.toml"
    given = {**DEFAULTS, "launcher": launcher, "directory": place / "data", **values}
    path.write_text(STUDY.format_map(given))
    return path


class NodeLab(Lab):
    """Campaign on the first node of a job; ranks and srun are found by command line."""

    def mpiexec(self) -> int:
        """Return the first of the two srun processes of the current task."""
        return min(pid for pid in all_pids() if is_launcher(pid))

    def lab(self) -> int:
        """Return the process of storlab itself."""
        campaign_pids = (pid for pid in all_pids() if str(self.out) in words(pid))
        return next(pid for pid in campaign_pids if "python" in Path(words(pid)[0]).name)


def is_launcher(pid: int) -> bool:
    told = words(pid)
    return "storlab.lab.site.rank" in told and Path(told[0]).name == "srun"


def mark_of(pid: int) -> str | None:
    return variables(pid).get("STORLAB_MPI_JOB")


@pytest.mark.parametrize("launcher", ["slurm", "mpi"])
def test_a_batch_job_of_one_core_a_node(slurm: Slurm, tmp_path: Path, launcher: str) -> None:
    """Check default Slurm without --mpi and one core per node, also with fewer clients."""
    study, out = write_study(tmp_path, launcher, clients="[1, 3]"), tmp_path / "out"
    verb = " ".join([*STORLAB, "run", str(study), "--out", str(out), "--quiet", "--no-report"])
    log, code = tmp_path / "log", tmp_path / "code"
    done = slurm.run("sbatch", "--nodes=3", "--output", log, "--wrap", f"{verb}; echo $? > {code}")
    assert done.returncode == 0, done.stdout
    wait_for("the end of the batch job", lambda: code.exists() and code.read_text())
    assert code.read_text() == "0\n", log.read_text()
    records = ResultStore.open(out).records()
    assert [record.status for record in records] == ["finished"] * 2
    for record in records:
        assert record.cluster is not None
        names = [client.name for client in record.cluster.clients]
        assert names == slurm.nodes[: record.clients]
        assert all(client.operations for client in record.cluster.clients)


@pytest.mark.parametrize("launcher", ["slurm", "mpi"])
def test_storlab_beside_the_nodes_of_its_job_is_refused(
    slurm: Slurm, tmp_path: Path, launcher: str
) -> None:
    study = write_study(tmp_path, launcher)
    done = slurm.run("salloc", "--nodes=3", *STORLAB, "doctor", study)
    assert done.returncode != 0
    assert "which is not a node of this job" in done.stdout
    assert "sbatch" in done.stdout


def test_a_campaign_goes_on_behind_clients_that_are_lost(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a campaign in a Slurm job step continues after clients were lost."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    study = write_study(tmp_path, "slurm", repeats=3, runtime="8s", lost_after="12s")
    with NodeLab.run(study, tmp_path / "out", command=[*ON_A_NODE, *STORLAB]) as lab:
        killed = lab.fault(0, lambda: kill(lab.ranks()[2]))
        stopped = lab.fault(1, lambda: stop(lab.ranks()[3]))
        good = lab.fault(2, lambda: None)
        assert lab.end() == ExitCode.RUN_FAILED, lab.printed
    for found in (killed, stopped):
        sys.stdout.write(f"{found.after_s:.1f} s: {found.message}\n")
    assert killed.message.startswith("n2: ended without an outcome")
    assert stopped.message == "n3: did not respond for 12 s (load)"
    assert good.record.status == "finished"


def test_nothing_is_left_of_a_killed_lab(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    study = write_study(tmp_path, "slurm", runtime="60s", lost_after="10s")
    with NodeLab.run(study, tmp_path / "out", command=[*ON_A_NODE, *STORLAB]) as lab:
        lab.loading(0)
        ranks = lab.ranks()
        assert sorted(ranks) == [0, 1, 2, 3]
        mark = mark_of(ranks[0])
        kill(lab.lab())
        wait_for("the end of all ranks", lambda: mark not in map(mark_of, all_pids()))
        lab.end()
    wait_for("the end of all steps", lambda: not slurm.steps())
