"""A DLIO process from start to outcome, with a stand-in: simulators/dlio.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import EngineError
from storlab.engines.dlio.engine import DlioEngine
from storlab.engines.dlio.run import DlioRun
from storlab.model.place import DataPlace
from storlab.model.result import RunOutcome
from storlab.workloads.training.job import TrainingJob
from support.torch_data import FILES, SAMPLE, job_of, make_set

STANDIN = Path(__file__).parents[3] / "simulators" / "dlio.py"
WAIT_S = 60


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the stand-in as installed by pip, with a package and an MPI."""
    package = tmp_path / "site" / "dlio_benchmark"
    for name in ("dlio_benchmark/reader", "torch", "dlio_benchmark-9.8.7.dist-info"):
        (tmp_path / "site" / name).mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "site" / "torch" / "__init__.py").touch()
    about = "Metadata-Version: 2.1\nName: dlio_benchmark\nVersion: 9.8.7\n"
    (tmp_path / "site" / "dlio_benchmark-9.8.7.dist-info" / "METADATA").write_text(about)
    scripts = tmp_path / "bin"
    scripts.mkdir()
    standin = scripts / "dlio_benchmark"
    standin.write_text(f"#!{sys.executable}\n{STANDIN.read_text()}")
    mpirun = scripts / "mpirun"
    mpirun.write_text(
        '#!/bin/sh\n[ "$1" = -n ] || exit 9\nexport STANDIN_RANKS=$2\nshift 2\n"$@"\n'
    )
    for script in (standin, mpirun):
        script.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("STORLAB_DLIO", str(standin))
    return standin


def job(tmp_path: Path, **changes: Any) -> TrainingJob:
    home = tmp_path / "set"
    return job_of(home, make_set(home), **{"epochs": 2, **changes})


def start(tmp_path: Path, made: TrainingJob) -> DlioRun:
    work = tmp_path / "work"
    work.mkdir()
    return DlioEngine().start(made, work)


def run(tmp_path: Path, **changes: Any) -> RunOutcome:
    outcome = start(tmp_path, job(tmp_path, **changes)).wait(WAIT_S)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("version", ["2.0.0", "main-e1919d7"])
def test_the_model_is_named_as_the_installed_version_wants_it(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Check that the model's name, a path for Hydra, fits the installed DLIO version."""
    configs = tmp_path / "site" / "dlio_benchmark" / "configs"
    configs.mkdir()
    recorded = Path(__file__).parents[3] / "golden" / "dlio-configs" / f"{version}.yaml"
    monkeypatch.setenv("STANDIN_HYDRA", str(recorded))
    (configs / "config.yaml").write_text(recorded.read_text())
    outcome = run(tmp_path)
    assert (outcome.status, outcome.failure) == ("finished", None), outcome.raw["stderr.txt"]


@pytest.mark.parametrize("accelerators", [1, 2])
def test_a_run_becomes_an_outcome(tmp_path: Path, program: Path, accelerators: int) -> None:
    outcome = run(tmp_path, accelerators=accelerators)
    assert (outcome.status, outcome.failure) == ("finished", None), outcome.raw["stderr.txt"]
    assert (outcome.engine.name, outcome.engine.version) == ("dlio", "9.8.7")
    epochs = outcome.details["epochs"]
    assert [len(epoch["accelerators"]) for epoch in epochs] == [accelerators] * 2
    assert outcome.totals["step"].operations == 2 * 3 * accelerators
    assert outcome.totals["read"].operations == 2 * 3 * accelerators * 2
    sizes = [path.stat().st_size for path in (tmp_path / "set" / "train").iterdir()]
    mean = sum(sizes) / FILES
    assert outcome.totals["read"].bytes == pytest.approx(12 * accelerators * mean, rel=0.01)
    assert mean > SAMPLE
    assert outcome.totals["read"].latency is None
    assert [span.kind for span in outcome.spans] == ["epoch", "epoch"]
    assert outcome.window_start_ns < outcome.window_end_ns
    kept = {"command.txt", "stdout.txt", "stderr.txt", "process.json", "workload.yaml"}
    assert set(outcome.raw) >= {*kept, "summary.json", "0_output.json", "0_per_epoch_stats.json"}
    assert (b"mpirun -n 2" in outcome.raw["command.txt"]) == (accelerators == 2)
    assert b"NaN" in outcome.raw["0_output.json"]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fails", "exit code 1: .*Not enough training dataset"),
        ("one-epoch", "finished 1 of 2 epochs"),
        ("half", "1 of 2 accelerators"),
    ],
)
def test_a_run_that_fails_says_why(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    monkeypatch.setenv("STANDIN_DLIO", mode)
    outcome = run(tmp_path)
    assert outcome.status == "failed"
    assert outcome.failure is not None
    with pytest.raises(AssertionError, match=f"(?s){words}"):
        raise AssertionError(outcome.failure.message)


def test_cancelling_ends_every_rank(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_DLIO", "hangs")
    going = start(tmp_path, job(tmp_path))
    while not (tmp_path / "work" / "ready").exists():
        assert going.wait(0.02) is None
    going.cancel()
    outcome = going.wait(WAIT_S)
    assert outcome is not None
    assert (outcome.status, outcome.failure) == ("cancelled", None)


def test_what_it_cannot_do_is_refused_before_it_starts(tmp_path: Path, program: Path) -> None:
    direct = job(tmp_path, place=DataPlace(directory=str(tmp_path / "set"), direct=True))
    assert "page cache only" in (DlioEngine().refuse(direct) or "")
    with pytest.raises(EngineError, match="cannot run this job"):
        start(tmp_path, direct)
    (tmp_path / "site" / "dlio_benchmark" / "reader" / "npz_reader_odirect.py").touch()
    program.touch()  # queried again, as after an update
    assert DlioEngine().refuse(direct) is None
    assert DlioEngine().describe().features == ["odirect"]


def test_a_missing_program_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORLAB_DLIO", str(tmp_path / "none"))
    with pytest.raises(EngineError) as caught:
        DlioEngine().describe()
    assert "pip install" in caught.value.fix
    assert DlioEngine().refuse(job(tmp_path)) is None


def test_another_program_of_that_name_is_named(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    program.write_text(f"#!{sys.executable}\n# another one\n")
    with pytest.raises(EngineError, match="is not DLIO"):
        DlioEngine().describe()


def test_a_missing_mpi_says_how_to_get_it(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORLAB_MPIRUN", str(tmp_path / "none"))
    with pytest.raises(EngineError, match="STORLAB_MPIRUN"):
        start(tmp_path, job(tmp_path))
