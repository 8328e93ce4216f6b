"""A data set file with its final name and size is complete, even after a power loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.engines.native.engine import NativeEngine
from storlab.model.place import DataPlace
from storlab.model.result import RunOutcome
from storlab.workloads.training.job import Records, TrainingJob
from support.mounts import cut_power, loop_device, make_image, mounted

MIB = 1 << 20
FILES = 20


def run(job: TrainingJob) -> RunOutcome:
    outcome = NativeEngine().start(job, Path()).wait()
    assert outcome is not None
    assert outcome.status == "finished", outcome.failure
    return outcome


@pytest.mark.root
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "buffered"])
def test_a_data_set_that_was_made_survives_a_loss_of_power(tmp_path: Path, direct: bool) -> None:
    image = make_image(tmp_path / "disk.img", 96 * MIB)
    with loop_device(image) as loop:
        place = tmp_path / "fs" / "data"
        make = TrainingJob(
            task="generate",
            place=DataPlace(directory=str(place), direct=direct),
            records=Records(format="npz", files=FILES, record_bytes=MIB, seed=4),
        )
        with mounted(tmp_path / "fs", loop, "-o", "commit=300") as fs:
            assert run(make).totals["write"].bytes > FILES * MIB
            cut_power(fs)
        with mounted(tmp_path / "fs", loop):
            again = run(make)
            assert again.totals["write"].bytes == 0, "made twice"
            read = run(make.model_copy(update={"task": "run", "check": "crc"}))
            assert read.totals["read"].operations == FILES
