"""Family ``example`` from study file to figure, through the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from storlab.base.errors import ExitCode
from storlab.model.result import RunRecord

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

RECOMPUTE = """
import math, sys
from pathlib import Path
from storlab.audit.from_claims import recompute
from storlab.base.units import MB
from storlab.model.result import RunRecord

for file in sys.argv[1:]:
    record = RunRecord.model_validate_json(Path(file).read_bytes())
    for key in ("files_s.write", "files_s.all", "throughput_mb_s.read"):
        name, _, operation = key.partition(".")
        metric = record.metric(name, operation) * (MB if name.endswith("_mb_s") else 1)
        assert math.isclose(recompute(key, record), metric), (key, recompute(key, record), metric)
"""


def storlab(*arguments: str | Path) -> tuple[int, str]:
    """Return exit code and messages of the command."""
    command = [sys.executable, "-m", "storlab", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_study_is_run_and_drawn(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(place=tmp_path))
    code, errors = storlab("run", study, "--out", tmp_path / "out", "--clean")
    assert code == ExitCode.OK, errors
    files = (tmp_path / "out" / "runs").glob("*/run.json")
    records = [RunRecord.model_validate_json(file.read_bytes()) for file in files]
    assert len(records) == 2 * 2 * 2
    for record in records:
        assert record.status == "finished", record.failure
        assert [(s.kind, s.bytes) for s in record.spans] == [("write", 81920), ("read", 81920)]
        assert record.metric("files_s") > 0
        assert record.metric("latency_p99_ns", "write") > 0
    # In a process of its own, in which the template is registered.
    files = map(str, (tmp_path / "out" / "runs").glob("*/run.json"))
    subprocess.run([sys.executable, "-c", RECOMPUTE, *files], check=True)
    assert 'id="fig-files-by-workers' in (tmp_path / "out" / "brief.html").read_text()
    assert not list(tmp_path.glob("*/storlab-data/*/file*"))
    study.write_text(STUDY.format(place=tmp_path).replace("[1, 2]", "21"))
    code, errors = storlab("plan", study)
    assert code == ExitCode.STUDY
    assert "larger than files" in errors
