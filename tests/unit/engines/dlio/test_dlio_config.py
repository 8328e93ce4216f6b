"""A training job as DLIO configuration, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.dlio import config as dlio_config
from storlab.engines.dlio.config import Program
from storlab.engines.dlio.engine import python_of
from storlab.model.place import DataPlace
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from storlab.workloads.training.job import Records, TrainingJob


def job(records: dict[str, Any] | None = None, **changes: Any) -> TrainingJob:
    made: dict[str, Any] = {
        "place": DataPlace(directory="/data/set", direct=False),
        "records": Records(
            **{
                "format": "npz",
                "files": 168,
                "record_bytes": 146_600_628,
                "record_stdev_bytes": 68_341_808,
                "resize_bytes": 2_097_152,
                **(records or {}),
            }
        ),
        "batch": 7,
        "computation_ns": 323_000_000,
        "epochs": 5,
    }
    return TrainingJob(**{**made, **changes})


def test_the_published_profile_is_written_as_dlio_writes_it() -> None:
    settings = dlio_config.configuration(job(), Path("/w"))
    assert settings["framework"] == settings["reader"]["data_loader"] == "pytorch"
    assert settings["dataset"]["data_folder"] == "/w/data"
    assert settings["dataset"]["num_files_train"] == 168
    for name in ("record_length", "record_length_bytes"):
        assert settings["dataset"][name] == 146_600_628
        assert settings["dataset"][f"{name}_stdev"] == 68_341_808
        assert settings["dataset"][f"{name}_resize"] == 2_097_152
    assert settings["reader"]["batch_size"] == 7
    assert settings["reader"]["read_threads"] == 4
    assert settings["train"]["epochs"] == 5
    assert settings["train"]["computation_time"] == pytest.approx(0.323)
    assert "total_training_steps" not in settings["train"]
    assert settings["output"]["folder"] == "/w/output"


def test_steps_seed_shuffle_and_direct_reach_it() -> None:
    settings = dlio_config.configuration(
        job(
            max_steps=3,
            seed=2**40,
            shuffle="none",
            place=DataPlace(directory="/d", direct=True),
        ),
        Path("/w"),
    )
    assert settings["train"]["total_training_steps"] == 3
    assert 0 <= settings["train"]["seed"] < 2**31
    assert settings["reader"]["sample_shuffle"] == "off"
    assert "file_shuffle" not in settings["reader"]
    assert settings["reader"]["odirect"] is True
    tfrecord = dlio_config.configuration(job({"format": "tfrecord"}), Path("/w"))
    assert tfrecord["framework"] == tfrecord["reader"]["data_loader"] == "tensorflow"


def test_more_steps_than_there_are_would_end_dlio() -> None:
    settings = dlio_config.configuration(job(max_steps=10_000), Path("/w"))
    assert settings["train"]["total_training_steps"] == 168 // 7


def test_the_data_set_is_a_link_and_nothing_is_written_into_it(tmp_path: Path) -> None:
    home, work = tmp_path / "set", tmp_path / "work"
    (home / "train").mkdir(parents=True)
    work.mkdir()
    (home / "train" / "img_0_of_1.npz").write_bytes(b"x")
    dlio_config.prepare(job({"files": 1}, place=DataPlace(directory=str(home))), work)
    assert (work / "data" / "train" / "img_0_of_1.npz").read_bytes() == b"x"
    assert list((work / "data" / "valid").iterdir()) == []
    assert [path.name for path in home.iterdir()] == ["train"]
    document = json.loads((work / "config" / "workload" / "storlab.yaml").read_text())
    assert document["dataset"]["data_folder"] == str(work / "data")


def test_several_accelerators_are_ranks_of_mpi() -> None:
    program, work = Path("/b/dlio_benchmark"), Path("/w")
    alone = dlio_config.command(program, None, job(), work)
    assert alone == ["/b/dlio_benchmark", "--config-dir", "/w/config", "workload=storlab"]
    many = dlio_config.command(program, Path("/b/mpirun"), job(accelerators=3), work)
    assert many == ["/b/mpirun", "-n", "3", *alone]
    assert dlio_config.environment()["TZ"] == "UTC"


@pytest.mark.parametrize(
    ("records", "changes", "words"),
    [
        ({}, {"task": "generate"}, "native engine"),
        ({"format": "jpeg"}, {}, "plain bytes"),
        ({}, {"barrier": False}, "after every step"),
        ({}, {"drop_caches": True}, "drops no caches"),
        ({"folder": "other"}, {}, "train"),
        ({"format": "tfrecord"}, {"place": DataPlace(directory="/d")}, "direct = false"),
        ({}, {"place": DataPlace(prefix="p/")}, "bucket"),
    ],
)
def test_what_dlio_cannot_do_is_refused(
    records: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    assert dlio_config.refusal(job()) is None
    reason = dlio_config.refusal(job(records, **changes))
    assert reason is not None
    assert words in reason


def test_other_families_are_refused() -> None:
    other = CheckpointJob(
        place=DataPlace(directory="/d"),
        files=[CheckpointFile(name="a", rank=0, bytes=1)],
        ranks=1,
    )
    assert "training" in (dlio_config.refusal(other) or "")


def test_what_the_installed_one_cannot_do_is_refused() -> None:
    old = Program(Path("/b"), "2.0.0", has_direct=False, frameworks=("pytorch",))
    new = Program(Path("/b"), "2.0.0", has_direct=True, frameworks=("pytorch",))
    direct = job(place=DataPlace(directory="/d", direct=True))
    assert "page cache" in (dlio_config.misfit(direct, old) or "")
    assert dlio_config.misfit(direct, new) is None
    assert dlio_config.misfit(job(), old) is None
    assert "tensorflow" in (dlio_config.misfit(job({"format": "tfrecord"}), new) or "")


@pytest.mark.parametrize(
    ("head", "python"),
    [
        ("#!/v/bin/python3\n", "/v/bin/python3"),
        ("#!/v/bin/python3.11 -P\n", "/v/bin/python3.11"),
        (
            "#!/bin/sh\n'''exec' /very/long/bin/python \"$0\" \"$@\"\n' '''\n",
            "/very/long/bin/python",
        ),
        ("#!/bin/sh\n'''exec' \"/a b/bin/python\" \"$0\"", "/a b/bin/python"),
        ("#!/bin/bash\necho\n", None),
        ("\x7fELF", None),
    ],
)
def test_the_python_of_a_script_is_read_from_its_first_lines(
    tmp_path: Path, head: str, python: str | None
) -> None:
    script = tmp_path / "dlio_benchmark"
    script.write_text(head)
    assert python_of(script) == python
