"""Test distribution keeps cluster tests in one process: tests/support/lanes.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import need_root
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

MOUNTS = """
import time
from pathlib import Path
import pytest
from support.mounts import mounted

HERE = Path(__file__)

def meet(moment):
    (HERE.parent / f"{HERE.stem}.{moment}").touch()
    end = time.monotonic() + 100
    while len(list(HERE.parent.glob(f"*.{moment}"))) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)

@pytest.mark.parametrize("number", range(3))
def test_mounts(number):
    place = HERE.parent / HERE.stem
    with mounted(place, "-t", "tmpfs", "none"):
        meet(f"mounted-{number}")
        seen = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        assert [mount for mount in seen if mount.startswith(str(HERE.parent))] == [str(place)]
        meet(f"seen-{number}")
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


@pytest.mark.root
def test_a_copy_of_all_mounts_keeps_none_of_another_process(tmp_path: Path) -> None:
    """Check that host namespaces copy no mounts of another test process."""
    need_root("mount")
    for name in ("first", "second"):
        (tmp_path / f"test_{name}.py").write_text(MOUNTS)
    done = run_spread(tmp_path, processes=2)
    assert done.returncode == 0, done.stdout


def run_spread(folder: Path, processes: int = 3) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder in parallel, like ``make test-python``."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\n")
    (folder / "conftest.py").write_text('pytest_plugins = ["support.lanes"]\n')
    plugins = ["-p", "xdist"]  # no other: they would be imported by each process
    spread = [*plugins, "-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *spread],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
