"""Of several processes that run tests one has those of clusters: tests/support/lanes.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


ENDS = """
import os
import signal
import pytest

@pytest.mark.parametrize("number", range(4))
def test_ends(number):
    if number == ENDS_AT:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_clusters_have_a_process_that_the_others_stand_behind(tmp_path: Path) -> None:
    for place in ("brief", "cluster", "lab"):
        (tmp_path / "tests/integration" / place).mkdir(parents=True)
        for number in (1, 2):
            file = tmp_path / f"tests/integration/{place}/test_{place}_{number}.py"
            file.write_text(TELLS)
    done = run_spread(tmp_path)
    assert done.returncode == 0, done.stdout
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert len(told) == 18
    clusters = [(worker, int(nice)) for name, worker, nice in told if "cluster" in name]
    others = {(worker, int(nice)) for name, worker, nice in told if "cluster" not in name}
    assert len(clusters) == 6
    assert len(set(clusters)) == 1
    assert {nice for _, nice in others} == {max(BEHIND, clusters[0][1])}
    assert len({worker for worker, _ in others}) > 1


@pytest.mark.parametrize("processes", [1, 3])
def test_a_process_that_ends_fails_the_test_it_was_at_and_no_other(
    tmp_path: Path, processes: int
) -> None:
    for number in range(6):
        ends_at = {0: 0, 1: 3, 4: 1}.get(number)
        (tmp_path / f"test_{number}.py").write_text(ENDS.replace("ENDS_AT", str(ends_at)))
    printed = run_spread(tmp_path, processes).stdout
    assert "3 failed, 21 passed" in printed
    for test in ("test_0.py::test_ends[0]", "test_1.py::test_ends[3]", "test_4.py::test_ends[1]"):
        assert f"crashed while running '{test}'" in printed


def run_spread(folder: Path, processes: int = 3) -> subprocess.CompletedProcess[str]:
    """The tests of a folder, as ``make test-python`` spreads them."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\n")
    (folder / "conftest.py").write_text('pytest_plugins = ["support.lanes"]\n')
    spread = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *spread],
        check=False,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
