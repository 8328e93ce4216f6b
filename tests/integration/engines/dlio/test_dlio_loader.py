"""The adapter's configuration, read by DLIO's own loader.

``make setup`` installs the PyPI release next to the environment, without frameworks. The main
branch is on no package index: the tests also use its loader if ``DLIO_CHECKOUT`` names a checkout
of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import need_dlio_loader
from storlab.engines.dlio import config as dlio_config
from storlab.engines.dlio.engine import ask
from storlab.model.place import DataPlace
from storlab.workloads.training.job import TrainingJob
from support.torch_data import job_of, make_set

TESTS = Path(__file__).parents[3]
CHECKOUT = os.environ.get("DLIO_CHECKOUT")
VERSIONS = ["release", *(["checkout"] if CHECKOUT else [])]


def site_of(version: str, tmp_path: Path) -> str:
    """Return PYTHONPATH with this DLIO and its loader's imports."""
    installed = need_dlio_loader()
    if version == "release":
        return str(installed)
    about = tmp_path / "about" / "dlio_benchmark-2.0.0.dist-info"  # a checkout has no metadata
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dlio_benchmark\nVersion: 2.0.0\n")
    return os.pathsep.join([str(CHECKOUT), str(about.parent), str(installed)])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    script = tmp_path / "dlio_benchmark"
    source = (TESTS / "support" / "dlio_loader.py").read_text()
    script.write_text(f"#!{sys.executable}\n{source}")
    script.chmod(0o755)
    return script


def read_back(program: Path, job: TrainingJob, work: Path, table: bool) -> Any:
    """Run DLIO's loader on the configuration with the adapter's own command line."""
    work.mkdir()
    dlio_config.prepare(job, work, model_table=table)
    command = dlio_config.command(program, None, job, work)
    environment = {**os.environ, **dlio_config.environment()}
    return subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def arguments_of(program: Path, job: TrainingJob, work: Path) -> dict[str, Any]:
    done = read_back(program, job, work, ask(program).has_model_table)
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = json.loads(done.stdout)
    return values


@pytest.mark.parametrize("version", VERSIONS)
def test_dlio_understands_what_is_written(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", site_of(version, tmp_path))
    home = tmp_path / "set"
    records = make_set(home, record_stdev_bytes=700, resize_bytes=1024)
    job = job_of(home, records, seed=77, max_steps=2, shuffle="epoch", prefetch=3)
    found = arguments_of(program, job, tmp_path / "work")
    wanted = {
        "framework": "PYTORCH",
        "data_loader": "PYTORCH",
        "format": "NPZ",
        "num_files_train": records.files,
        "num_samples_per_file": records.samples_per_file,
        "record_length": records.record_bytes,
        "record_length_stdev": 700,
        "record_length_resize": 1024,
        "file_prefix": records.prefix,
        "data_folder": str(tmp_path / "work" / "data"),
        "output_folder": str(tmp_path / "work" / dlio_config.OUTPUT),
        "batch_size": job.batch,
        "read_threads": job.reader_threads,
        "prefetch_size": 3,
        "epochs": job.epochs,
        "total_training_steps": 2,
        "seed": 77,
        "seed_change_epoch": True,
        "generate_data": False,
        "do_checkpoint": False,
        "do_eval": False,
        "shuffles_files": True,
        "shuffles_samples": True,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found.get("do_train", True)  # the release always trains
    mean = found["computation_time"]
    seconds = mean["mean"] if isinstance(mean, dict) else mean
    assert seconds == pytest.approx(job.computation_ns / 1e9)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["npz", "tfrecord"])
def test_without_a_shuffle_dlio_keeps_the_order(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch, version: str, kind: str
) -> None:
    """Check that DLIO does not shuffle; it takes even "off" as a kind of shuffle."""
    monkeypatch.setenv("PYTHONPATH", site_of(version, tmp_path))
    home = tmp_path / "set"
    job = job_of(home, make_set(home, kind), shuffle="none")
    found = arguments_of(program, job, tmp_path / "work")
    assert found["format"] == kind.upper()
    assert (found["shuffles_files"], found["shuffles_samples"]) == (False, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_direct_reads_reach_a_dlio_that_has_them(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", site_of(version, tmp_path))
    home = tmp_path / "set"
    place = DataPlace(directory=str(home), direct=True)
    found = arguments_of(program, job_of(home, make_set(home), place=place), tmp_path / "work")
    assert ask(program).has_direct == (found.get("odirect") is True)


@pytest.mark.parametrize(("recorded", "table"), [("2.0.0", False), ("main-e1919d7", True)])
def test_hydra_takes_only_the_form_that_each_schema_asks_for(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch, recorded: str, table: bool
) -> None:
    """Check the model option against both recorded schemas; runs of main once failed."""
    site = tmp_path / "site"
    shutil.copytree(need_dlio_loader(), site)
    schema = TESTS / "golden" / "dlio-configs" / f"{recorded}.yaml"
    shutil.copy(schema, site / "dlio_benchmark" / "configs" / "config.yaml")
    monkeypatch.setenv("PYTHONPATH", str(site))
    home = tmp_path / "set"
    job = job_of(home, make_set(home))
    assert ask(program).has_model_table == table
    right = read_back(program, job, tmp_path / "right", table)
    assert right.returncode == 0, right.stderr
    wrong = read_back(program, job, tmp_path / "wrong", not table)
    assert (wrong.returncode == 0) != table  # the older schema makes a path of either form
