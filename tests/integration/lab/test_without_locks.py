"""A campaign on a file system without locks, such as Lustre without ``-o flock``."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode
from support.system_calls import FLOCK, refuse

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]
STUDY = """
[study]
name = "unlocked"
repeats = 1
ramp = 0
runtime = "200ms"
interval = "20ms"
[[target]]
name = "file"
path = "{place}/one.dat"
size = "1MiB"
direct = false
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = [0, 100]
"""
OBJECTS = """
[study]
name = "unlocked"
repeats = 1
ramp = 0
runtime = "200ms"
interval = "50ms"
[[target]]
name = "own"
s3 = "embedded:{place}/s3"
[[workload]]
kind = "object"
object_size = "4KiB"
objects = 8
concurrency = 2
"""


def storlab(*words: str | Path, error: int) -> Any:
    """Return the JSON output of storlab; flock(2) fails with this errno."""
    done = subprocess.run(
        [*COMMAND, *words, "--json"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=refuse(FLOCK, error),
    )
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_nobody_is_kept_out_and_all_goes_on(tmp_path: Path, error: int) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(STUDY.format(place=tmp_path))
    told = storlab("run", study, "--out", out, "--no-report", error=error)
    assert told["runs"]["finished"] == 2, os.strerror(error)
    assert not storlab("status", out, error=error)["running"]
    storlab("resume", out, "--no-report", error=error)
    assert not (tmp_path / "one.dat").exists()


def test_nor_for_the_server_of_storlab_itself(tmp_path: Path) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(OBJECTS.format(place=tmp_path))
    storlab("run", study, "--out", out, "--no-report", error=errno.ENOSYS)
    assert not (tmp_path / "s3").exists()
