"""Many open files: the soft limit is raised, and the hard limit is reported with a fix."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.preflight import check_study
from storlab.lab.study.file import load_study
from storlab.process import open_files

FILES = 300
CHILD = f"""
import json, resource, sys
from pathlib import Path
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from storlab.engines.native.engine import NativeEngine
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from storlab.model.place import DataPlace
job = CheckpointJob(
    place=DataPlace(directory=str(Path.cwd()), direct=False),
    files=[CheckpointFile(name=f"part{{n}}", rank=0, bytes=4096) for n in range({FILES})],
    ranks=1, writes=1, restores=1, io_bytes=4096, queue_depth=1,
)
outcome = NativeEngine().start(job, Path()).wait()
print(json.dumps([outcome.status, outcome.failure and outcome.failure.model_dump()]))
"""
STUDY = """
[study]
name = "many files"
[[target]]
name = "t"
directory = "."
[[workload]]
kind = "checkpoint"
profile = "mine.toml"
"""
PROFILE = 'title = "t"\nranks = 1\n[[file]]\nname = "{number}"\nbytes = 1\ncount = 3000\n'


def checkpoint(tmp_path: Path, soft: int, hard: int) -> list[Any]:
    command = [sys.executable, "-c", CHILD, str(soft), str(hard)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    report: list[Any] = json.loads(ended.stdout)
    return report


def test_the_soft_limit_is_raised(tmp_path: Path) -> None:
    assert checkpoint(tmp_path, FILES // 2, 4 * FILES) == ["finished", None]


def test_what_the_hard_limit_forbids_is_told_with_its_fix(tmp_path: Path) -> None:
    status, failure = checkpoint(tmp_path, FILES // 2, FILES // 2)
    assert status == "failed"
    assert failure["errno_name"] == "EMFILE"
    assert "LimitNOFILE" in failure["fix"]


@pytest.mark.parametrize(("hard", "status"), [(1024, "error"), (1 << 20, "ok")])
def test_doctor_compares_the_need_with_the_hard_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard: int, status: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, hard))
    (tmp_path / "mine.toml").write_text(PROFILE)
    (tmp_path / "study.toml").write_text(STUDY)
    study = load_study(tmp_path / "study.toml")
    assert open_files.most_open_files() == hard
    checks = check_study(study.study, make_plan(study), tmp_path)
    (found,) = [check for check in checks if check.name == "open files"]
    assert found.status == status
    assert "3,1" in found.what  # 3,000 of the checkpoint, plus storlab's own
