"""The checkpoint workload from study file to metrics, through the command."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.engines.native.engine import NativeEngine
from storlab.model.place import DataPlace
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob

PROFILE = """\
title = "a small one"
ranks = 2

[[file]]
name = "rank{rank}/layer_{number}.pt"
bytes = "3MB"
count = 2

[[file]]
name = "rank{rank}/optimizer.pt"
bytes = "16KiB"
ranks = [1]
"""
SIZE = 2 * 2 * 3_000_000 + 16_384

STUDY = """\
[study]
name = "checkpoints"
repeats = 2
interval = "50ms"

[[target]]
name = "folder"
directory = "data"

[[target]]
name = "buffered"
directory = "data"
direct = false

[[target]]
name = "bucket"
s3 = "embedded:objects"

[[workload]]
kind = "checkpoint"
name = "mine"
profile = "profiles/mine.toml"
layout = ["profile", "file_per_rank", "safetensors"]
writes = 3
restores = 2
keep_last = 2
io_size = "256KiB"
io_depth = 4
mtbf = "24h"
targets = ["folder", "buffered"]

[[workload]]
kind = "checkpoint"
name = "objects"
profile = "profiles/mine.toml"
scale = 0.5
writes = 2
part_size = "5MiB"
layout = ["profile", "file_per_rank"]
keep_last = 1
targets = ["bucket"]

[[workload]]
kind = "checkpoint"
name = "scaled"
profile = "llama3-405b-352-files"
scale = 0.00001
sync = ["fsync", "none"]
publish = "in_place"
writes = 1
pause = "10ms"
cold = "drop"
targets = ["buffered"]
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    """Return the runs of the study, executed once."""
    place = tmp_path_factory.mktemp("checkpoints")
    (place / "study.toml").write_text(STUDY)
    (place / "data").mkdir()
    (place / "profiles").mkdir()
    (place / "profiles" / "mine.toml").write_text(PROFILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        code = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert code == ExitCode.OK
    assert list((place / "data").iterdir()) == []  # the checkpoints and their home are removed
    assert not [path for path in place.glob("objects/**/*") if path.is_file()]
    (place / "profiles" / "mine.toml").unlink()  # a result can be read without the profile
    return ResultStore.open(place / "results").records()


def of(records: list[RunRecord], workload: str, **params: Any) -> list[RunRecord]:
    return [
        record
        for record in records
        if record.workload == workload
        and all(record.params[name] == value for name, value in params.items())
    ]


def test_every_run_finished(records: list[RunRecord]) -> None:
    assert len(records) == 2 * (2 * 3 + 2 + 2)
    for record in records:
        assert record.status == "finished", record.failure


def test_every_byte_is_counted(records: list[RunRecord]) -> None:
    for record in of(records, "mine"):
        headers = 5 * 4096 if record.params["layout"] == "safetensors" else 0
        assert record.totals["write"].bytes == 3 * (SIZE + headers)
        assert record.totals["read"].bytes == 2 * (SIZE + headers)
        kinds = [span.kind for span in record.spans]
        assert kinds == ["write", "write", "write", "delete", "restore", "restore"]
    for record in of(records, "scaled"):
        assert record.totals["write"].bytes == record.details["writes"][0]["bytes"]
        assert len(record.details["writes"][0]["ranks"]) == 8


def test_metrics_agree_with_the_clock_readings_they_come_from(records: list[RunRecord]) -> None:
    for record in of(records, "mine"):
        writes, restores = record.details["writes"], record.details["restores"]
        durable_s = [(w["durable_ns"] - w["start_ns"]) / 1e9 for w in writes]
        written_s = [(w["written_ns"] - w["start_ns"]) / 1e9 for w in writes]
        restored_s = [(r["end_ns"] - r["start_ns"]) / 1e9 for r in restores]
        size = writes[0]["bytes"]
        assert record.metric("durable_time_s") == pytest.approx(sum(durable_s) / 3)
        assert record.metric("write_time_s") == pytest.approx(sum(written_s) / 3)
        assert record.metric("durable_mb_s") == pytest.approx(3 * size / sum(durable_s) / 1e6)
        assert record.metric("restore_mb_s") == pytest.approx(2 * size / sum(restored_s) / 1e6)
        assert record.metric("span_time_s", "write") == pytest.approx(sum(durable_s) / 3)
        slowest = record.metric("slowest_rank_time_s")
        assert slowest is not None
        assert slowest <= sum(durable_s) / 3
        for name in ("write_time_s", "restore_time_s", "cpu_s_per_gb", "optimal_interval_daly_s"):
            assert (record.metric(name) or 0) > 0, name
        assert all(w["written_ns"] <= w["durable_ns"] for w in writes)


def test_restores_read_the_newest_one_and_prove_it(records: list[RunRecord]) -> None:
    for record in of(records, "mine"):
        assert [restore["number"] for restore in record.details["restores"]] == [3, 3]
        assert all(restore["verified"] for restore in record.details["restores"])
        if record.details["device_counters"]:
            assert record.metric("restore_device_ratio") is not None


def test_a_bucket_holds_checkpoints_too(records: list[RunRecord]) -> None:
    for record in of(records, "objects"):
        assert [restore["number"] for restore in record.details["restores"]] == [2]
        assert record.details["restores"][0]["verified"] is True
        assert record.totals["write"].bytes == 2 * record.details["writes"][0]["bytes"]
        assert (record.metric("durable_mb_s") or 0) > 0
        assert (record.metric("restore_time_s") or 0) > 0


def test_flags_say_what_the_numbers_do_not(records: list[RunRecord]) -> None:
    for record in records:
        kinds = {flag.kind for flag in record.flags}
        assert ("scaled" in kinds) == (record.workload in ("scaled", "objects"))
        assert ("page-cache" in kinds) == (record.target in ("buffered", "bucket"))
        assert ("embedded-server" in kinds) == (record.target == "bucket")
        assert "verify-failed" not in kinds
        if record.params["sync"] == "none":
            assert "not-durable" in kinds
            assert record.metric("durable_time_s") is None
        else:
            assert record.metric("durable_time_s") is not None


def test_a_profile_that_is_not_there_stops_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["run", "study.toml", "--no-report", "--quiet"]) == ExitCode.STUDY
    assert "profiles/mine.toml: the profile cannot be read" in capsys.readouterr().err


def parsed(path: Path) -> tuple[dict[str, Any], bytes]:
    """Parse a safetensors file: header length, JSON, data."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    assert content[8:9] == b"{"
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    return header, content[8 + length :]


@pytest.fixture
def tensors(tmp_path: Path) -> list[Path]:
    """Files of all sizes: empty, below one I/O, of many I/Os, and uneven."""
    sizes = [0, 1, 4096, 65_536, 1_000_001]
    job = CheckpointJob(
        place=DataPlace(directory=str(tmp_path / "checkpoints")),
        files=[
            CheckpointFile(name=f"rank{n}/layer_{n}.safetensors", rank=n, bytes=size + 4096)
            for n, size in enumerate(sizes)
        ],
        ranks=len(sizes),
        format="safetensors",
        writes=2,
        io_bytes=65_536,
        queue_depth=2,
    )
    outcome = NativeEngine().start(job, tmp_path).wait()
    assert outcome is not None
    assert outcome.status == "finished", outcome.failure
    home = tmp_path / "checkpoints" / "checkpoint-000002"
    return [home / file.name for file in job.files]


def test_safetensors_files_are_what_they_say(tensors: list[Path]) -> None:
    contents = []
    for number, path in enumerate(tensors):
        header, data = parsed(path)
        del header["__metadata__"]
        assert header == {
            f"layer_{number}": {
                "dtype": "U8",
                "shape": [len(data)],
                "data_offsets": [0, len(data)],
            }
        }
        contents.append(data)
    assert [len(data) for data in contents] == [0, 1, 4096, 65_536, 1_000_001]
    assert contents[4][:4096] != contents[3][:4096]


def test_the_library_reads_safetensors_files(tensors: list[Path]) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    for number, path in enumerate(tensors):
        (tensor,) = library.load_file(path).values()
        assert tensor.tobytes() == parsed(path)[1]
        assert list(library.load_file(path)) == [f"layer_{number}"]
