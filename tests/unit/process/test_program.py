"""External programs: a run has its own directory, so they are named by absolute paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storlab.engines.dlio.engine import find_mpirun
from storlab.engines.torch.engine import _python
from storlab.process.program import find_program


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide programs of two names next to others of the same names on PATH."""
    for directory in ("path", "own"):
        for name in ("fio", "python3"):
            program = tmp_path / directory / name
            program.parent.mkdir(exist_ok=True)
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
    (tmp_path / "own" / "link").symlink_to("python3")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.chdir(tmp_path / "own")
    return tmp_path


@pytest.mark.parametrize(
    ("variable", "find"),
    [
        ("STORLAB_FIO", lambda: find_program("fio", "install it")),
        ("STORLAB_MPIRUN", lambda: find_mpirun(Path("/absent/dlio_benchmark"))),
        ("STORLAB_TORCH_PYTHON", lambda: Path(_python())),
    ],
)
def test_a_relative_path_is_told_whole(
    tools: Path, monkeypatch: pytest.MonkeyPatch, variable: str, find: Callable[[], Path]
) -> None:
    # A link to a Python is an environment of its own.
    for asked in ("./fio", "../own/fio", "./link"):
        monkeypatch.setenv(variable, asked)
        assert find().is_absolute()
        assert os.path.normpath(find()) == str(tools / "own" / Path(asked).name)


def test_a_bare_name_is_that_of_the_path(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["../path", "/absent"]))
    assert find_program("fio", "install it").samefile(tools / "path" / "fio")
    assert find_program("fio", "install it").is_absolute()
