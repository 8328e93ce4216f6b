"""An interrupted checkpoint run, on a file system that is just large enough."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.results.store import ResultStore
from support.mounts import mounted

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]
PROFILE = """
title = "small"
ranks = 1
[[file]]
name = "model.pt"
bytes = "4MB"
"""
STUDY = """
[study]
name = "interrupted"
repeats = 1
interval = "50ms"
[[target]]
name = "folder"
directory = "{place}"
direct = false
[[workload]]
kind = "checkpoint"
profile = "{profile}"
writes = 6
restores = 0
pause = "300ms"
"""


@pytest.mark.root
def test_it_begins_anew_in_the_room_that_it_had(tmp_path: Path) -> None:
    profile = tmp_path / "small.toml"
    profile.write_text(PROFILE)
    study, out = tmp_path / "study.toml", tmp_path / "out"
    with mounted(tmp_path / "fs", "-t", "tmpfs", "-o", "size=27m", "storlab-test") as place:
        study.write_text(STUDY.format(place=place, profile=profile))
        words = [*COMMAND, "run", str(study), "--out", str(out), "--no-report"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            while len(left(place)) < 3 and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            process.communicate()
        assert process.returncode == ExitCode.INTERRUPTED
        assert len(left(place)) >= 2  # the one being written may be removed
        assert main(["resume", str(out), "--no-report"]) == ExitCode.OK
        assert not list(place.iterdir())
    (record,) = ResultStore.open(out).records()
    assert [entry["number"] for entry in record.details["writes"]] == [1, 2, 3, 4, 5, 6]


def left(place: Path) -> list[Path]:
    return list(place.glob("storlab-data/checkpoints-*/*"))
