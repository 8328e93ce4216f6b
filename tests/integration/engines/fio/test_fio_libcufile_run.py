"""fio's libcufile engine, with a stand-in that runs the real fio with POSIX I/O."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import need_fio
from storlab.base.errors import EngineError
from storlab.engines.fio import libcufile
from storlab.engines.fio.engine import FioEngine
from storlab.model.result import RunOutcome
from support.gpudirect_jobs import files, libcufile_standin, make_job


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_fio()
    program = libcufile_standin(tmp_path)
    monkeypatch.setenv("STORLAB_FIO", str(program))
    return program


def run(tmp_path: Path, count: int, **changes: Any) -> RunOutcome:
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    outcome = FioEngine().start(make_job(*files(tmp_path, count), **changes), work_dir).wait(120)
    assert outcome is not None
    return outcome


@pytest.mark.usefixtures("standin")
def test_a_run_has_what_other_runs_of_fio_have(tmp_path: Path) -> None:
    outcome = run(tmp_path, 2, ramp_ns=200_000_000)
    assert (outcome.status, outcome.failure) == ("finished", None)
    assert outcome.engine.backend == "libcufile"
    assert outcome.engine.features == ["ioengine=libcufile", "cuda_io=cufile"]
    read = outcome.totals["read"]
    assert read.bytes == read.operations * 65536 > 0
    assert read.latency is not None
    assert outcome.samples
    assert b"ioengine=libcufile" in outcome.raw["job.fio"]
    assert any("cuFile may have used POSIX" in note for note in outcome.notes)


@pytest.mark.usefixtures("standin")
def test_what_cufile_refuses_is_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_LIBCUFILE", "refused")
    outcome = run(tmp_path, 1)
    assert outcome.failure is not None
    assert "error 5001, nvidia-fs driver is not loaded" in outcome.failure.message
    assert "storlab doctor" in outcome.failure.fix


@pytest.mark.usefixtures("standin")
def test_a_fio_without_it_is_named_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_LIBCUFILE", "missing")
    with pytest.raises(EngineError, match="--enable-libcufile"):
        run(tmp_path, 1)


def test_the_real_one(tmp_path: Path) -> None:
    program = need_fio()
    if not libcufile.available(program):
        listed = subprocess.run([program, "--enghelp"], capture_output=True, text=True, check=True)
        assert "libcufile" not in listed.stdout
        pytest.skip("the installed fio has no libcufile engine")
    outcome = run(tmp_path, 1, path="bounce")
    assert outcome.failure is None, outcome.failure
