"""A hanging file system blocks only the run's own thread, which is monitored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import need_root
from storlab import _native
from storlab.engines.native.start import start_in_thread
from storlab.model.place import DataPlace
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from support.mounts import make_image, mounted, sh

LIMIT_S = 60.0  # for calls that return at once unless they hang


@contextmanager
def frozen(mount_point: Path) -> Iterator[None]:
    """Freeze the file system: writers block uninterruptibly, as with a dead server."""
    sh("fsfreeze", "--freeze", mount_point)
    try:
        yield
    finally:
        sh("fsfreeze", "--unfreeze", mount_point)


@pytest.mark.root
def test_a_run_is_started_though_its_directory_cannot_be_made(tmp_path: Path) -> None:
    need_root("fsfreeze")
    image = make_image(tmp_path / "image", 64 << 20)
    with mounted(tmp_path / "mount", "-o", "loop", image) as root:
        job = CheckpointJob(
            place=DataPlace(directory=str(root / "checkpoints")),
            files=[CheckpointFile(name="rank0.bin", rank=0, bytes=1 << 20)],
            ranks=1,
            writes=1,
        )
        text = job.model_dump_json()
        with frozen(root):
            run = start_in_thread(lambda: _native.Run("checkpoint", text, {}, False), LIMIT_S)
            assert not run.wait(0.0)
            assert json.loads(run.snapshot())["phase"] == "prepare"
        assert run.wait(LIMIT_S)
        outcome, _ = run.outcome()
        assert json.loads(outcome)["status"] == "finished"
