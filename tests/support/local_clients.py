"""Studies whose clients all run on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.cli.main import main
from storlab.results.store import ResultStore

STUDY = """
[study]
name = "clients on one machine"
repeats = {repeats}
ramp = "{ramp}"
runtime = "{runtime}"
interval = "500ms"
{engine}

[cluster]
hosts = ["localhost"]
clients = {clients}

[[target]]
name = "shared"
directory = "{directory}"
size = "1MiB"
{target}

[[workload]]
kind = "block"
jobs = 2
queue_depth = {depth}
block_size = "4KiB"
{workload}
"""
_DEFAULTS = {
    "repeats": 1,
    "ramp": "200ms",
    "runtime": "3s",
    "engine": "",
    "clients": 2,
    "depth": 4,
    "target": "",
    # The rate leaves CPU time for other tests.
    "workload": "read_percent = 70\nrate_iops = 500",
}


def write_study(place: Path, **changes: Any) -> Path:
    """Write ``study.toml`` to a folder, with its data in ``shared/`` next to it."""
    directory = place / "shared"
    directory.mkdir(exist_ok=True)
    path = place / "study.toml"
    path.write_text(STUDY.format(**{**_DEFAULTS, "directory": directory, **changes}))
    return path


def run_verb(*arguments: str | Path) -> int:
    """Run a command in this process and return its exit code."""
    return int(main([str(argument) for argument in arguments]))


def run_study(place: Path, **changes: Any) -> ResultStore:
    """Run a study; its runs may fail."""
    study, directory = write_study(place, **changes), place / "results"
    code = run_verb("run", study, "--out", directory, "--no-report", "--quiet")
    if code not in (0, 3, 4):
        pytest.fail(f"storlab run ended with {code}")
    return ResultStore.open(directory)
