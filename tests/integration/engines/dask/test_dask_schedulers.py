"""Existing clusters: real schedulers and workers, valid and broken."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need_program, need_root
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.model.result import RunOutcome
from storlab.workloads.preprocess.job import ScaledJob
from storlab.workloads.preprocess.metrics import run_flags
from storlab.workloads.preprocess.params import PreprocessParams
from support.dask_clusters import Crowd, crowd, worker_processes
from support.preprocess_runs import assert_as_expected, clicks, expected_of, order, outcome_of

WAIT_S = 300
NO_STORLAB = """
import sys
sys.modules["storlab"] = None
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Crowd]:
    with crowd(tmp_path / "dask") as found:
        yield found


def scaled(inputs: list[Path], directory: Path, scheduler: str, **changes: Any) -> ScaledJob:
    plain = order(inputs, directory, **{"threshold": 2, "workers": 2, **changes})
    return ScaledJob(**plain.model_dump(), scheduler=scheduler)


def failed(outcome: RunOutcome) -> str:
    assert outcome.status == "failed"
    assert outcome.failure is not None
    return f"{outcome.failure.message}; {outcome.failure.fix}"


def test_a_scheduler_that_is_there_has_the_work_done(tmp_path: Path, cluster: Crowd) -> None:
    cluster.add()
    cluster.add()
    path = clicks(tmp_path, "day_0", 600, wrong=0.05)
    job = scaled([path], tmp_path / "run", cluster.address, part_bytes=1 << 15)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert_as_expected(outcome, job, expected_of(job))
    found = outcome.details["cluster"]
    assert found["scheduler"] == cluster.address
    assert len(found["workers"]) == 2
    used_ns = sum(worker["user_ns"] + worker["system_ns"] for worker in found["workers"])
    own_ns = found["own_user_ns"] + found["own_system_ns"]
    assert outcome.cpu is not None
    assert used_ns > 0
    assert outcome.cpu.user_ns + outcome.cpu.system_ns == used_ns + own_ns
    assert not any(worker["remote"] for worker in found["workers"])
    again = scaled([path], tmp_path / "run", cluster.address, part_bytes=1 << 15, resume=True)
    resumed = outcome_of("dask", again, tmp_path / "again")
    assert_as_expected(resumed, again, expected_of(job))
    assert resumed.details["resumed_parts"] > 0


def test_workers_of_another_machine_are_flagged(tmp_path: Path, cluster: Crowd) -> None:
    """Check the flag for workers with another host name (in a UTS namespace)."""
    need_root("unshare")
    inside = 'hostname elsewhere && exec "$@"'
    cluster.add(before=[str(need_program("unshare")), "--uts", "sh", "-c", inside, "sh"])
    cluster.add()
    path = clicks(tmp_path, "day_0", 400)
    job = scaled([path], tmp_path / "run", cluster.address, part_bytes=1 << 15)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert_as_expected(outcome, job, expected_of(job))
    remote = [w for w in outcome.details["cluster"]["workers"] if w["remote"]]
    assert [worker["host"] for worker in remote] == ["elsewhere"]
    assert all(s["device_read_bytes"] is None for s in outcome.details["stages"])
    params = PreprocessParams.of(FAMILIES["preprocess"].spec(kind="preprocess").values()[0])
    flags = {flag.kind: flag.message for flag in run_flags(params, outcome)}
    assert "1 worker on elsewhere used" in flags["remote-workers"]


def test_nobody_at_the_address_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        job = scaled([clicks(tmp_path, "day_0", 10)], tmp_path / "run", address)
        outcome = outcome_of("dask", job, tmp_path / "work")
    assert f"no Dask scheduler answers at {address}" in failed(outcome)
    assert "dask scheduler" in failed(outcome)


def test_somebody_else_at_the_address_is_told(tmp_path: Path) -> None:
    """Check the error for a server at the address that does not speak Dask."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        job = scaled([clicks(tmp_path, "day_0", 10)], tmp_path / "run", address)
        outcome = outcome_of("dask", job, tmp_path / "work")
    assert f"no Dask scheduler answers at {address}" in failed(outcome)


def test_too_few_workers_are_told(tmp_path: Path, cluster: Crowd) -> None:
    job = scaled([clicks(tmp_path, "day_0", 10)], tmp_path / "run", cluster.address)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert "has 0 worker threads" in failed(outcome)


def test_workers_with_too_little_memory_are_refused(tmp_path: Path, cluster: Crowd) -> None:
    cluster.add(memory="400MiB")
    job = scaled([clicks(tmp_path, "day_0", 10)], tmp_path / "run", cluster.address, workers=1)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert "memory limit of 419 MB" in failed(outcome)


def test_a_worker_without_storlab_is_named(tmp_path: Path, cluster: Crowd) -> None:
    (tmp_path / "bare.py").write_text(NO_STORLAB)
    cluster.add("--preload", str(tmp_path / "bare.py"))
    job = scaled([clicks(tmp_path, "day_0", 10)], tmp_path / "run", cluster.address, workers=1)
    message = failed(outcome_of("dask", job, tmp_path / "work"))
    assert "cannot import storlab" in message
    assert "storlab[scale]" in message


def test_a_worker_that_does_not_see_the_directory_is_named(tmp_path: Path, cluster: Crowd) -> None:
    need_root("unshare", "mount")
    hide = f'mount -t tmpfs none {tmp_path / "run"} && exec "$@"'
    (tmp_path / "run").mkdir()
    cluster.add(before=[str(need_program("unshare")), "--mount", "sh", "-c", hide, "sh"])
    job = scaled([clicks(tmp_path, "day_0", 10)], tmp_path / "run", cluster.address, workers=1)
    message = failed(outcome_of("dask", job, tmp_path / "work"))
    assert str(tmp_path / "run") in message
    assert "mount the shared file system" in message


def _at_work(job: ScaledJob, work: Path) -> Any:
    work.mkdir()
    going = get_engine("dask").start(job, work)
    while not list(Path(job.directory).glob("parquet/*/*.json")):
        outcome = going.wait(0.02)
        assert outcome is None, outcome.failure
    return going


def test_a_scheduler_that_is_lost_fails_the_run(tmp_path: Path, cluster: Crowd) -> None:
    cluster.add()
    path = clicks(tmp_path, "day_0", 3000)
    job = scaled([path] * 20, tmp_path / "run", cluster.address, workers=1, part_bytes=1 << 17)
    going = _at_work(job, tmp_path / "work")
    cluster.scheduler.kill()
    outcome = going.wait(WAIT_S)
    assert outcome is not None
    assert f"the scheduler {cluster.address} no longer answers" in failed(outcome)


def test_another_worker_takes_over_from_a_stopped_one(tmp_path: Path, cluster: Crowd) -> None:
    """Check that another worker takes over if a worker and its nanny are stopped."""
    lost = cluster.add()
    cluster.add()
    path = clicks(tmp_path, "day_0", 3000)
    job = scaled([path] * 4, tmp_path / "run", cluster.address, part_bytes=1 << 17)
    going = _at_work(job, tmp_path / "work")
    for pid in [lost.pid, *worker_processes(lost.pid)]:
        os.kill(pid, signal.SIGKILL)
    outcome = going.wait(WAIT_S)
    assert outcome is not None
    assert_as_expected(outcome, job, expected_of(job))
    assert outcome.details["cluster"]["lost_workers"] == 1
