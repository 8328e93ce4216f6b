"""Refusals of the PyTorch engines, and their messages without PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import EngineError
from storlab.contracts.registry import get_engine
from storlab.engines.torch import engine as module
from storlab.engines.torch.dcp import TorchDcpEngine
from storlab.engines.torch.engine import TorchEngine
from storlab.model.job import Job
from storlab.model.place import DataPlace
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from storlab.workloads.training.job import Records, TrainingJob

GB = 1_000_000_000


def checkpoint(size: int = 1000, ranks: int = 2, **changes: Any) -> CheckpointJob:
    files = [CheckpointFile(name=f"r{rank}.pt", rank=rank, bytes=size) for rank in range(ranks)]
    place = DataPlace(directory="/d/checkpoints-x")
    return CheckpointJob(**{"place": place, "files": files, "ranks": ranks, **changes})


def training(**changes: Any) -> TrainingJob:
    place = DataPlace(directory="/d")
    records = Records(format="npz", files=10, record_bytes=1000)
    return TrainingJob(**{"place": place, "records": records, **changes})


def a_python(tmp_path: Path, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a fake Python that always gives this answer."""
    script = tmp_path / "python3"
    script.write_text(f"#!/bin/sh\necho '{answer}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("STORLAB_TORCH_PYTHON", str(script))
    module._ask.cache_clear()


def test_they_are_registered_for_their_kinds() -> None:
    assert get_engine("torch").kinds == ("training", "checkpoint")
    assert get_engine("torch_dcp").kinds == ("checkpoint",)


def test_a_python_without_it_is_an_error_that_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"python": "3.12.1", "torch": None, "numpy": "2.1"})
    a_python(tmp_path, text, monkeypatch)
    with pytest.raises(EngineError) as caught:
        TorchEngine().describe()
    assert "storlab[torch]" in caught.value.fix
    assert "STORLAB_TORCH_PYTHON" in caught.value.fix


def test_an_old_one_is_refused_and_a_new_one_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"python": "3.12.1", "torch": "2.3.1+cpu", "numpy": "2.1"}
    a_python(tmp_path, json.dumps(fields), monkeypatch)
    with pytest.raises(EngineError, match="too old"):
        TorchEngine().describe()
    a_python(tmp_path, json.dumps({**fields, "torch": "2.10.0+cpu"}), monkeypatch)
    info = TorchEngine().describe()
    assert (info.name, info.version) == ("torch", "2.10.0+cpu")


def test_a_python_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLAB_TORCH_PYTHON", "/no/such/python")
    with pytest.raises(EngineError, match="STORLAB_TORCH_PYTHON=/no/such/python"):
        TorchEngine().describe()


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (training(task="generate"), "native engine"),
        (training(place=DataPlace(prefix="p/")), "bucket"),
        (checkpoint(task="clean"), "native engine"),
        (checkpoint(format="safetensors"), "its own format"),
        (checkpoint(writes=0), "set writes"),
        (checkpoint(size=0), "empty"),
        (checkpoint(files=[CheckpointFile(name="a", rank=0, bytes=1)] * 2), "same name"),
    ],
)
def test_what_pytorch_cannot_do_is_refused(job: Job, words: str) -> None:
    assert words in (TorchEngine().refuse(job) or "")


def test_training_is_not_for_the_distributed_writer() -> None:
    assert TorchEngine().refuse(training()) is None
    assert "checkpoint" in (TorchDcpEngine().refuse(training()) or "")
    assert TorchDcpEngine().refuse(checkpoint()) is None


def test_a_checkpoint_that_memory_does_not_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "host_memory_bytes", lambda: 10 * GB)
    fits, twice = checkpoint(size=3 * GB, restores=0), checkpoint(size=3 * GB)
    assert TorchEngine().refuse(fits) is None
    reason = TorchEngine().refuse(twice)
    assert reason is not None
    assert "12 GB" in reason
    assert "scale" in reason
    small = [CheckpointFile(name=f"{n}.pt", rank=0, bytes=GB) for n in range(6)]
    one_by_one = checkpoint(files=small, ranks=1)
    assert TorchEngine().refuse(one_by_one) is None  # restored file by file
    assert TorchDcpEngine().refuse(one_by_one) is not None  # restored as one checkpoint
