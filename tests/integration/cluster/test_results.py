"""Commands on results of a cluster campaign: resume, status, export, compare, capacity."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from conftest import need_mpi
from storlab.cli.documents import StatusDocument
from storlab.results.store import ResultStore
from support.local_clients import run_study, run_verb, write_study


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """Provide a campaign of two points, on one client and on two."""
    need_mpi("mpich")
    return run_study(tmp_path_factory.mktemp("done"), clients="[1, 2]")


def test_status_counts_by_clients(done: ResultStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_verb("status", done.directory, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    whole = {"planned": 1, "finished": 1, "failed": 0, "missing": 0}
    StatusDocument.model_validate(found)
    assert found["by_clients"] == [{"clients": number, **whole} for number in (1, 2)]
    assert found["clients_now"] == []
    assert run_verb("status", done.directory) == 0
    assert "2 clients: 1 finished, 0 failed, 0 missing" in capsys.readouterr().out


def test_status_shows_what_clients_do_now(
    done: ResultStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "results"
    shutil.copytree(done.directory, directory)
    live = directory / "work" / "a-run" / "cluster" / "live.json"
    live.parent.mkdir(parents=True)
    clients = {"c1": {"phase": "measure", "bytes_s": 2e6, "silent_ns": 5, "ended": False}}
    live.write_text(json.dumps({"phase": "load", "clients": clients}))
    assert run_verb("status", directory, "--json") == 0
    assert json.loads(capsys.readouterr().out)["clients_now"] == []  # no session is active
    with ResultStore.open(directory).campaign_lock():
        assert run_verb("status", directory, "--json") == 0
        (now,) = json.loads(capsys.readouterr().out)["clients_now"]
        assert now["name"] == "c1" and now["phase"] == "measure" and now["bytes_s"] == 2e6
        assert run_verb("status", directory) == 0
        assert "now: c1: measure, 2 MB/s" in capsys.readouterr().out


def test_tidy_tables_have_the_clients(done: ResultStore, tmp_path: Path) -> None:
    assert run_verb("export", done.directory, "--output", tmp_path / "metrics.csv") == 0
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["clients"] for row in rows} == {"1", "2"}


def test_compare_takes_clients_as_an_axis(
    done: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb("compare", done.directory, "--json") == 0
    assert '"clients": 2' in capsys.readouterr().out


def test_export_as_fio_and_import_again(
    done: ResultStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fio.json"
    assert run_verb("export", done.directory, "--format", "fio-json", "--output", out) == 0
    assert run_verb("import", out, "--out", tmp_path / "imported") == 0, capsys.readouterr().err
    totals = {
        (operation, found.operations)
        for record in done.records()
        for operation, found in record.totals.items()
    }
    imported = ResultStore.open(tmp_path / "imported").records()
    assert totals == {(op, t.operations) for r in imported for op, t in r.totals.items()}
    # runs on one client and on two are not repeats of each other
    assert sorted((r.clients, r.repeat) for r in imported) == [(1, 1), (2, 1)]


def test_resume_refuses_other_hosts(
    done: ResultStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that resume refuses hosts other than those recorded in environment.json."""
    directory = tmp_path / "results"
    shutil.copytree(done.directory, directory)
    path = directory / "environment.json"
    environment = json.loads(path.read_text())
    assert sorted(environment["cluster"]) == ["client-1", "client-2"]
    environment["cluster"]["c07"] = environment["cluster"].pop("client-2")
    path.write_text(json.dumps(environment))
    result = json.loads((directory / "result.json").read_text())
    sums = next(v for v in result.values() if isinstance(v, dict) and "environment.json" in v)
    from hashlib import sha256

    sums["environment.json"] = sha256(path.read_bytes()).hexdigest()
    (directory / "result.json").write_text(json.dumps(result))
    capsys.readouterr()
    assert run_verb("resume", directory, "--no-report") == 8
    told = " ".join(capsys.readouterr().err.split())
    assert "without c07 and with client-2" in told
    assert "a new campaign" in told


def test_resume_goes_on_where_runs_are_missing(done: ResultStore, tmp_path: Path) -> None:
    directory = tmp_path / "results"
    shutil.copytree(done.directory, directory)
    store = ResultStore.open(directory)
    removed = max(store.records(), key=lambda record: record.clients or 0)
    shutil.rmtree(store.run_dir(removed.run_id))
    assert run_verb("resume", directory, "--no-report", "--quiet") == 0
    again = ResultStore.open(directory).record(removed.run_id)
    assert again.clients == 2 and again.status == "finished"
    assert again.started_at > removed.started_at


def test_capacity_needs_accelerators_on_clients_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path)
    assert run_verb("capacity", study, "--quiet") == 2
    assert "has no workload with accelerators" in " ".join(capsys.readouterr().err.split())
