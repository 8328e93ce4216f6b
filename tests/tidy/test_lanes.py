"""Of several processes that run tests one has those of clusters: tests/support/lanes.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.lanes import BEHIND

TESTS = Path(__file__).parent.parent
TELLS = """
import os
import pytest

@pytest.mark.parametrize("number", range(3))
def test_tells(number):
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with open("told", "a") as told:
        told.write(f"{__name__} {os.environ['PYTEST_XDIST_WORKER']} {nice}\\n")
"""


def test_clusters_have_a_process_that_the_others_stand_behind(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.lanes"]\n')
    for place in ("brief", "cluster", "lab"):
        (tmp_path / "tests/integration" / place).mkdir(parents=True)
        for number in (1, 2):
            file = tmp_path / f"tests/integration/{place}/test_{place}_{number}.py"
            file.write_text(TELLS)
    spread = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *spread],
        check=True,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert len(told) == 18
    clusters = [(worker, int(nice)) for name, worker, nice in told if "cluster" in name]
    others = {(worker, int(nice)) for name, worker, nice in told if "cluster" not in name}
    assert len(clusters) == 6
    assert len(set(clusters)) == 1
    assert {nice for _, nice in others} == {max(BEHIND, clusters[0][1])}
    assert len({worker for worker, _ in others}) > 1
