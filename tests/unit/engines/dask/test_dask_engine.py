"""The Dask engine: refusals, accounting, and leftovers of a worker's attempt."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storlab.base.errors import EngineError
from storlab.contracts.registry import get_engine
from storlab.engines.dask.cluster_workers import WorkerSet
from storlab.engines.dask.tasks import (
    ATTEMPT,
    ClusterWorker,
    Reading,
    clear_attempts,
    host,
    peak_bytes,
    reset_peak,
)
from storlab.engines.dask.tree import Stored
from storlab.engines.dataframe.layout import parts_of
from storlab.engines.dataframe.with_pandas import PandasLibrary
from storlab.engines.dataframe.worker import Worker
from storlab.workloads.preprocess.job import ScaledJob
from support.preprocess_runs import clicks, order


def test_an_engine_tells_its_versions() -> None:
    found = get_engine("dask").describe()
    assert found.version == metadata.version("distributed")
    assert any(feature.startswith("pandas ") for feature in found.features)


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", gone)
    with pytest.raises(EngineError, match=r"storlab\[scale\]"):
        get_engine("dask").describe()


def test_only_runs_are_carried_out(tmp_path: Path) -> None:
    job = order([], tmp_path)
    engine = get_engine("dask")
    assert engine.refuse(job) is None
    scaled = ScaledJob(**job.model_dump(), scheduler="tcp://10.0.0.1:8786")
    assert engine.refuse(scaled) is None
    notes: Any = engine
    assert "tcp://10.0.0.1:8786" in " ".join(notes.notes(scaled))
    assert "on this machine" in " ".join(notes.notes(job))
    assert "native" in (engine.refuse(job.model_copy(update={"task": "generate"})) or "")


def reading(worker: str, user_ns: int, peak: int = 0, where: str = "here") -> Reading:
    return Reading(worker, where, user_ns, 1, peak)


def test_a_crew_counts_what_was_used_for_the_run_alone() -> None:
    crew = WorkerSet("here")
    crew.begin({"a": reading("a", 100), "b": reading("b", 50, where="there")})
    crew.tell(reading("a", 130, peak=7), unit=True)
    crew.tell(reading("b", 70, peak=9))
    crew.tell(reading("late", 25, peak=3))  # start-up does not count for the run
    assert crew.used_ns() == (30 + 20 + 25, 1)
    assert crew.peak_bytes() == 19
    crew.lose({"a", "late"})
    assert (crew.lost(), crew.peak_bytes()) == (1, 10)
    assert crew.used_ns()[0] == 75  # the lost worker's reported time is kept
    assert set(crew.hosts()) == {"a", "late"}
    crew.reset_peaks()
    assert crew.peak_bytes() == 0
    document = {entry["address"]: entry for entry in crew.document()}
    assert [entry["remote"] for entry in document.values()] == [False, True, False]
    assert [entry["lost"] for entry in document.values()] == [False, True, False]
    assert document["a"]["units"] == 1


def test_peak_memory_is_forgotten() -> None:
    block = np.ones(64 << 20, dtype=np.uint8)
    before = peak_bytes()
    assert before > len(block)
    del block
    reset_peak()
    assert 0 < peak_bytes() <= before
    assert host()


def _worker(tmp_path: Path, kind: type[Worker], **changes: Any) -> Any:
    job = order([], tmp_path / kind.__name__, **changes).model_dump(mode="json")
    return kind(PandasLibrary(), job, 245)


@pytest.mark.parametrize("kept", [3, 9000])  # ids found by one pass, and more
def test_an_attempt_encodes_as_one_machine_does(tmp_path: Path, kept: int) -> None:
    source = clicks(tmp_path, "day_0", 300)
    for kind in (Worker, ClusterWorker):
        worker = _worker(tmp_path, kind, memory_bytes=1)
        (part,) = parts_of(worker.directory, [str(source)], 1 << 30)
        for place in (part.parquet.parent, worker.directory / "vocabulary"):
            place.mkdir(parents=True)
        worker.ingest(part)
        draw = np.random.default_rng(1)
        values = draw.permutation(1 << 16)[:kept].astype("<u4")
        values[:3] = [977, (2_654_435_761 + 977) % 2**32, (2 * 2_654_435_761 + 977) % 2**32]
        values.tofile(worker.directory / "vocabulary" / "C2.values")
        train = worker.directory / "binary.partial" / "train"
        train.mkdir(parents=True)
        (train / "cat_1.bin").write_bytes(b"\x7f" * 4000)
        assert worker.encode_column("C2", [(part.parquet, 300)], 17, train) == (
            1 + (kept > 4096) * 2
        )
        assert not list(worker.directory.rglob(f"*{ATTEMPT}"))
    found = [
        (tmp_path / kind.__name__ / "binary.partial" / "train" / "cat_1.bin").read_bytes()
        for kind in (Worker, ClusterWorker)
    ]
    assert found[0] == found[1]
    assert found[0].strip(b"\x7f")  # not only the previous content


def test_a_leaf_counts_and_the_root_makes_the_files(tmp_path: Path) -> None:
    source = clicks(tmp_path, "day_0", 200)
    worker = _worker(tmp_path, ClusterWorker, threshold=2)
    other = _worker(tmp_path, Worker, threshold=2)
    for each in (worker, other):
        (part,) = parts_of(each.directory, [str(source)], 1 << 30)
        for place in (part.parquet.parent, each.directory / "vocabulary" / "trees"):
            place.mkdir(parents=True)
        each.ingest(part)
        files = [(part.parquet, 200)]
        if each is worker:
            leaf = Stored(each.directory / "vocabulary" / "trees", "C1.0-0")
            branch = leaf.moved(leaf.place / "..")
            each.count("C1", files, leaf)
            each.merge([leaf], branch)
            each.finish("C1", [branch])
        else:
            each.vocabulary("C1", files)
    for kind in ("values", "counts", "json"):
        name = f"vocabulary/C1.{kind}"
        assert (worker.directory / name).read_bytes() == (other.directory / name).read_bytes()


def test_what_lost_workers_leave_is_removed(tmp_path: Path) -> None:
    lost = tmp_path / "parquet" / f"x{ATTEMPT}"
    lost.mkdir(parents=True)
    (lost / "half").write_bytes(b"x")
    (tmp_path / "parquet" / "part").write_bytes(b"y")
    clear_attempts(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["parquet", "part"]
