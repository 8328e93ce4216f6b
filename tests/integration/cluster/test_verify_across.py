"""Verify mode on clients: written by one, read by another, also in a later run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from conftest import need_mpi
from storlab.base.errors import ExitCode
from storlab.results.store import ResultStore
from storlab.stores.directory_lease import LOCK, DirectoryLease, Holder
from support.local_clients import run_study, run_verb

VERIFY = "read_percent = 30\nverify = true"


@pytest.fixture(autouse=True)
def programs() -> None:
    need_mpi("mpich")


def run_verified(place: Path, **changes: object) -> ResultStore:
    return run_study(place, workload=VERIFY, target="keep_data = true", **changes)


def damage(place: Path, client: str) -> None:
    """Corrupt one block of a client's data outside of storlab."""
    with (place / "shared" / client / "job-0" / "storlab.dat").open("r+b") as file:
        file.seek(8192)
        file.write(b"\x5a" * 4096)


def test_each_client_reads_what_the_one_before_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = run_verified(tmp_path, clients=3)
    (record,) = store.records()
    assert record.status == "finished", record.failure
    assert record.verify is not None and record.verify.ok
    # all granules of all clients: 2 jobs with 1 MiB each
    assert record.verify.checked_blocks >= 3 * 2 * 256
    assert any("each read the data that the client before it wrote" in n for n in record.notes)
    states = sorted(p.parent.name for p in store.directory.glob("verify/*/*/job.json"))
    assert states == ["client-1", "client-2", "client-3"]
    capsys.readouterr()
    assert run_verb("verify", store.directory, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer["runs"]) == [record.run_id] and answer["ok"]
    assert not (tmp_path / "shared" / LOCK).exists()
    damage(tmp_path, "client-2")
    assert run_verb("verify", store.directory, "--json") == 10
    found = json.loads(capsys.readouterr().out)["runs"][record.run_id]
    assert not found["ok"] and sum(found["bad_blocks"].values()) == 1
    assert "client-2" in found["examples"][0]["path"]


def test_nothing_is_read_where_another_campaign_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = run_verified(tmp_path, clients=2)
    other = Holder("other", "study of another", "lab2:/results", 0)
    with DirectoryLease(tmp_path / "shared", other, lambda *_: None):
        assert run_verb("verify", store.directory) == ExitCode.RESULT
    words = " ".join(capsys.readouterr().err.split())
    assert "is in use by campaign other (study of another, results in lab2:/results)" in words
    assert run_verb("verify", store.directory) == ExitCode.OK


def test_nothing_is_read_while_its_own_campaign_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = run_verified(tmp_path, clients=2)
    with store.campaign_lock():
        assert run_verb("verify", store.directory) == ExitCode.RESULT
    assert "is still running" in " ".join(capsys.readouterr().err.split())


def test_the_reader_is_another_client(tmp_path: Path) -> None:
    """Check that another client verifies the data, and detects that a file is gone."""
    store = run_verified(tmp_path, clients=2)
    shutil.rmtree(tmp_path / "shared" / "client-1")
    from storlab.lab.prepare.dataset import PrepareError
    from storlab.lab.site.clients import Clients, read_again
    from storlab.lab.site.verification import States
    from storlab.process.execution import StopRequest

    cluster, target = store.study.cluster, store.study.target[0]
    assert cluster is not None
    clients = Clients.of(cluster, tmp_path)
    written = States(store.directory).written(target, clients.places(2))
    campaign = store.environment["guard"]["campaign"]
    with pytest.raises(PrepareError, match=r"client-2: .*client-1") as caught:
        place = tmp_path / "task"
        read_again(clients, written, target.name, {"campaign": campaign}, place, StopRequest())
    assert "keep_data" in caught.value.failure.fix


def test_a_later_run_that_writes_forgets_the_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f'{VERIFY}\n[[workload]]\nkind = "block"\nread_percent = 0\nblock_size = "8KiB"'
    store = run_study(tmp_path, workload=other, target="keep_data = true", clients=1)
    verified = [record for record in store.records() if record.verify is not None]
    assert len(verified) == 1 and "the only client" in " ".join(verified[0].notes)
    last = max(store.records(), key=lambda record: record.started_at)
    known = list(store.directory.glob("verify/*/*/job.json"))
    assert len(known) == (1 if last.verify is not None else 0)
