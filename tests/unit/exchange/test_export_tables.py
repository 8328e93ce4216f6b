"""CSV and Parquet: one row per run and metric, or per interval."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from storlab.cli.main import main
from storlab.exchange.exporters import EXPORTERS
from storlab.exchange.exporters.tidy import metrics_table, samples_table
from storlab.exchange.importer import import_files
from storlab.model.result import Metric
from storlab.results.store import ResultStore

GOLDEN = Path(__file__).parents[2] / "golden" / "fio"


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    names = ("group-3.33.json", "group-3.42.json", "failed-3.33.json")
    return import_files([GOLDEN / name for name in names], tmp_path / "result")


def test_one_row_per_run_and_metric(store: ResultStore) -> None:
    table = metrics_table(store)
    rows = table.to_pylist()
    for record in store.records():
        of_run = [row for row in rows if row["run_id"] == record.run_id]
        assert len(of_run) == max(1, len(record.metrics))
        for metric in record.metrics:
            assert any(
                (r["metric"], r["operation"], r["value"], r["unit"])
                == (metric.name, metric.operation, metric.value, metric.unit)
                for r in of_run
            )
    failed = [row for row in rows if row["status"] == "failed"]
    assert [row["metric"] for row in failed] == [None]
    assert {row["param_block_size"] for row in rows} == {256 * 1024}


def test_boundary_uncertainty_and_provenance_are_exported(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"provenance": "declared", "boundary": "wall", "uncertainty": 0.5}
    energy = Metric(name="energy_j", value=5.0, unit="J", operation="all", **told)
    record = store.records()[0].model_copy(update={"metrics": [energy]})
    monkeypatch.setattr(store, "records", lambda: [record])
    (row,) = metrics_table(store).to_pylist()
    assert {name: row[name] for name in told} == told


def test_samples_carry_their_runs_parameters(store: ResultStore) -> None:
    table = samples_table(store)
    assert {"run_id", "param_jobs", "interval", "latency_hist"} <= set(table.column_names)
    assert table.num_rows == sum(store.samples(r.run_id).num_rows for r in store.records())


@pytest.mark.parametrize("samples", [False, True])
def test_parquet_and_csv_say_the_same(store: ResultStore, tmp_path: Path, samples: bool) -> None:
    flag = ["--samples"] if samples else []
    out = {form: tmp_path / f"x.{form}" for form in ("csv", "parquet")}
    for form, path in out.items():
        command = ["export", str(store.directory), "--format", form, "--output", str(path)]
        assert main([*command, *flag]) == 0
    rows = list(csv.DictReader(io.StringIO(out["csv"].read_text())))
    table = pq.read_table(out["parquet"])
    assert len(rows) == table.num_rows
    assert set(table.column_names) - set(rows[0]) == (
        {"latency_hist", "intended_hist", "ttfb_hist"} if samples else set()
    )
    assert table.schema.metadata[b"storlab.schema"].endswith(b"-1")


def test_duckdb_reads_it_in_one_line(store: ResultStore, tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"
    main(["export", str(store.directory), "-f", "parquet", "-o", str(path)])
    query = f"select count(*) from '{path}' where metric = 'iops' and operation = 'all'"
    assert duckdb.sql(query).fetchall() == [(2,)]


def test_default_place_and_json(store: ResultStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(store.directory), "--format", "fio-json", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert Path(report["output"]) == store.directory / "fio.json"
    document = json.loads((store.directory / "fio.json").read_text())
    assert len(document["jobs"]) == report["runs"] == 3
    assert document["jobs"][2]["error"] == 5


def test_stdout(store: ResultStore, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["export", str(store.directory), "--output", "-"]) == 0
    assert capfdbinary.readouterr().out.startswith(b'"study","run_id"')


def test_what_cannot_be_is_named(store: ResultStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(store.directory), "--format", "xlsx"]) == 2
    printed = capsys.readouterr().err
    assert all(name in printed for name in EXPORTERS)
    assert main(["export", str(store.directory), "-f", "fio-json", "--samples"]) == 2
    wrong = store.directory / "metrics.parquet"
    assert main(["export", str(store.directory), "-f", "csv", "-o", str(wrong)]) == 2
    assert not wrong.exists()
    assert main(["export", str(store.directory / "runs")]) == 8
