"""Family ``example`` from study file to figure, through the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.results.store import ResultStore

STUDY = """\
[study]
name = "files"
repeats = 2
settle = "0s"
interval = "20ms"

[[target]]
name = "one"
directory = "{place}/one"

[[target]]
name = "two"
directory = "{place}/two"

[[workload]]
kind = "example"
files = 20
file_size = "4KiB"
workers = [1, 2]
"""


def test_a_study_is_run_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(place=tmp_path))
    assert main(["run", str(study), "--out", str(tmp_path / "out"), "--clean"]) == ExitCode.OK
    records = ResultStore.open(tmp_path / "out").records()
    assert len(records) == 2 * 2 * 2
    for record in records:
        assert record.status == "finished", record.failure
        assert [(s.kind, s.bytes) for s in record.spans] == [("write", 81920), ("read", 81920)]
        assert record.metric("files_s") > 0
        assert record.metric("latency_p99_ns", "write") > 0
    assert (tmp_path / "out" / "brief.html").is_file()
    assert not list(tmp_path.glob("*/storlab-data/*/file*"))
    study.write_text(STUDY.format(place=tmp_path).replace("[1, 2]", "21"))
    assert main(["plan", str(study)]) == ExitCode.STUDY
    assert "more than files" in capsys.readouterr().err
