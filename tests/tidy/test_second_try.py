"""Handling of failed integration tests in a build: tests/second_try.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SECOND_TRY = Path(__file__).parent.parent / "second_try.py"
STALLED_ONCE = """
from pathlib import Path

def test_stalled_once():
    seen = Path("seen")
    before = seen.exists()
    seen.touch()
    assert before
"""
DEFECT = "def test_defect():\n    assert False\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a project without tests."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "tests/integration").mkdir(parents=True)
    (tmp_path / "tests/unit").mkdir()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each process would import them
    return tmp_path


def second_try() -> subprocess.CompletedProcess[str]:
    """Return the second try's result after a first run with failures."""
    first = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], check=False, capture_output=True, text=True
    )
    assert first.returncode == 1, first.stdout
    return subprocess.run([sys.executable, SECOND_TRY], check=False, capture_output=True, text=True)


def test_a_test_that_stalled_passes_and_is_named(tree: Path) -> None:
    (tree / "tests/integration/test_stalled.py").write_text(STALLED_ONCE)
    done = second_try()
    assert done.returncode == 0, done.stdout
    assert "PASSED ONLY ON A SECOND TRY" in done.stdout
    assert done.stdout.rstrip().endswith("test_stalled.py::test_stalled_once")


def test_a_defect_fails_twice(tree: Path) -> None:
    (tree / "tests/integration/test_stalled.py").write_text(STALLED_ONCE)
    (tree / "tests/integration/test_broken.py").write_text(DEFECT)
    done = second_try()
    assert done.returncode == 1
    assert "PASSED ONLY" not in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_unit_tests_have_one_try(tree: Path) -> None:
    (tree / "tests/unit/test_broken.py").write_text(STALLED_ONCE)
    done = second_try()
    assert done.returncode == 1
    assert "tests/unit/test_broken.py is no integration test" in done.stderr


def test_a_build_that_fails_in_many_places_has_one_try(tree: Path) -> None:
    for name in "abcd":
        (tree / f"tests/integration/test_{name}.py").write_text(DEFECT)
    done = second_try()
    assert done.returncode == 1
    assert "4 files have failures" in done.stderr
