"""A cluster through study and command gives the same records and output as ``native``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.results.store import ResultStore
from support.preprocess_runs import clicks

STUDY = """\
[study]
name = "a cluster"
repeats = 1
interval = "100ms"

[[target]]
name = "folder"
directory = "data"

[[workload]]
kind = "preprocess"
rows = 4_000
files = 3
workers = 2
part_size = "128KiB"
row_group_rows = 1_000
threshold = 2
implementation = ["native", "dask"]

[workload.scale]
engine = "dask"
memory = "1GiB"
"""


def test_a_study_compares_a_cluster_with_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "study.toml").write_text(STUDY)
    arguments = ["run", "study.toml", "--out", "results", "--clean"]
    assert main(arguments) == ExitCode.OK
    records = {
        record.engine.name: record for record in ResultStore.open(tmp_path / "results").records()
    }
    assert set(records) == {"native", "dask"}
    details = {name: record.details for name, record in records.items()}
    assert details["native"]["output"] == details["dask"]["output"]
    assert details["native"]["output_bytes"] == details["dask"]["output_bytes"]
    cluster = details["dask"]["cluster"]
    assert cluster["worker_limit_bytes"] == 1 << 30
    assert len(cluster["workers"]) == 2
    kinds = {flag.kind for flag in records["dask"].flags}
    assert not kinds & {"remote-workers", "workers-lost", "memory-exceeded"}
    assert records["dask"].metric("rows_s") is not None
    assert records["dask"].metric("cpu_s") > 0  # type: ignore[operator]
    assert not list((tmp_path / "data").rglob("binary"))


def test_the_verb_has_it_done_by_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    clicks(tmp_path, "day_0", 500)
    found = {}
    for engine in ("native", "dask"):
        arguments = ["preprocess", "day_0", "--out", engine, "--engine", engine, "--workers", "2"]
        assert main([*arguments, "--threshold", "2", "--json"]) == ExitCode.OK
        found[engine] = json.loads(capfd.readouterr().out)
    assert found["native"]["output"] == found["dask"]["output"]
    for path in (tmp_path / "native" / "binary").rglob("*.bin"):
        other = tmp_path / "dask" / path.relative_to(tmp_path / "native")
        assert path.read_bytes() == other.read_bytes()
    again = ["preprocess", "day_0", "--out", "x", "--scheduler", "tcp://127.0.0.1:1"]
    assert main(again) == ExitCode.USAGE
    assert "--engine" in capfd.readouterr().err
