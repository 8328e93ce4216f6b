"""Parts of the PyTorch child that need no PyTorch: reading, order, publishing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.base.clock import monotonic_ns
from storlab.engines.torch import engine, loader, writer
from storlab.engines.torch.loader import Sampler, Samples, Window, fitted, steps_of
from storlab.engines.torch.ranks import RankProcesses, drop_caches
from storlab.engines.torch.writer import (
    MANIFEST,
    CheckpointDirectory,
    Coordinator,
    Rank,
    resident_bytes,
)
from storlab.process.child_result import ChildError
from storlab.stores.filesystems import supports_direct
from support.torch_data import FILES, job_of, make_set, payload


def plain(job: Any) -> dict[str, Any]:
    fields: dict[str, Any] = job.model_dump(mode="json")
    return fields


@pytest.fixture
def home(disk_path: Path) -> Path:
    return disk_path


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    ("kind", "per_file"), [("npz", 1), ("npz", 3), ("tfrecord", 4), ("jpeg", 1)]
)
def test_every_sample_is_what_was_written(
    home: Path, kind: str, per_file: int, direct: bool
) -> None:
    if direct and not supports_direct(home):
        pytest.skip(f"O_DIRECT does not work in {home}")
    records = make_set(home, kind, per_file)
    job = plain(job_of(home, records))
    job["place"]["direct"] = direct
    job["read_bytes"] = 4096
    samples = Samples(job)
    assert len(samples) == FILES * per_file
    for index in range(len(samples)):
        number, place = divmod(index, per_file)
        sample, (end_ns, length_ns, moved) = samples[index]
        assert sample.tobytes() == payload(number, place)
        assert 0 < length_ns <= end_ns
        size = samples.path(number).stat().st_size
        if kind == "tfrecord":
            assert moved >= size // per_file
        else:
            assert moved == (size if place == 0 else 0)


def test_a_record_that_is_none_is_named(tmp_path: Path) -> None:
    records = make_set(tmp_path, "tfrecord", 2)
    samples = Samples(plain(job_of(tmp_path, records)))
    path = samples.path(3)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(ValueError, match=r"img_03_of_12\.tfrecord: no TFRecord .* at offset 0"):
        samples[3 * 2]


def test_a_sample_is_cut_or_filled_up() -> None:
    sample = np.arange(1, 6, dtype=np.uint8)
    assert fitted(sample, 3).tolist() == [1, 2, 3]
    assert fitted(sample, 7).tolist() == [1, 2, 3, 4, 5, 0, 0]


def test_a_part_of_memory_is_a_file() -> None:
    window = Window(memoryview(b"0123456789"))
    assert window.read(3) == b"012"
    assert window.seek(-2, os.SEEK_END) == 8
    assert window.read() == b"89"
    assert (window.read(1), window.seek(1), window.seek(1, os.SEEK_CUR)) == (b"", 1, 2)


@given(
    files=st.integers(1, 30),
    per_file=st.integers(1, 5),
    accelerators=st.integers(1, 4),
    batch=st.integers(1, 4),
    shuffle=st.sampled_from(["none", "same", "epoch"]),
    reshard=st.booleans(),
)
def test_accelerators_share_the_samples(
    files: int, per_file: int, accelerators: int, batch: int, shuffle: str, reshard: bool
) -> None:
    job: dict[str, Any] = {
        "records": {"files": files, "samples_per_file": per_file},
        "accelerators": accelerators,
        "batch": batch,
        "shuffle": shuffle,
        "reshard": reshard,
        "seed": 5,
        "max_steps": None,
    }
    orders: dict[int, list[int]] = {}
    for epoch in range(2):
        orders[epoch] = []
        for index in range(accelerators):
            sampler = Sampler(job, index)
            sampler.epoch = epoch
            own = list(sampler)
            assert len(own) == len(sampler) == steps_of(job) * batch
            assert own == list(sampler)
            assert len(set(own)) == len(own)
            orders[epoch] += own
        assert set(orders[epoch]) <= set(range(files * per_file))
        whole_files = reshard or shuffle == "none" or per_file == 1
        if whole_files:
            assert len(set(orders[epoch])) == len(orders[epoch])
    if shuffle != "epoch":
        assert orders[0] == orders[1]
    if shuffle == "none" and accelerators == 1:
        assert orders[0] == list(range(len(orders[0])))


def test_epochs_are_shuffled_anew_and_resharded() -> None:
    job: dict[str, Any] = {
        "records": {"files": 100, "samples_per_file": 1},
        "accelerators": 2,
        "batch": 1,
        "shuffle": "epoch",
        "reshard": True,
        "seed": 5,
        "max_steps": 7,
    }
    first, second = Sampler(job, 0), Sampler(job, 0)
    second.epoch = 1
    assert len(first) == 7
    assert list(first) != list(second)
    assert set(first) != set(second)
    fixed, again = Sampler({**job, "reshard": False, "max_steps": None}, 1), None
    before = list(fixed)
    fixed.epoch = 1
    again = list(fixed)
    assert before != again
    assert set(before) == set(again) == set(range(50, 100))


def test_a_checkpoint_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    shelf = CheckpointDirectory(tmp_path / "checkpoints", sync=True, publish="rename")
    shelf.open()
    place = shelf.prepare(1, ["rank0/a.pt"])
    (place / "rank0" / "a.pt").write_bytes(b"x")
    assert shelf.numbers() == []
    shelf.publish(1, {"number": 1})
    assert shelf.numbers() == [1]
    assert (shelf.whole(1) / MANIFEST).read_text() == '{"number": 1}'
    assert not place.exists()
    left = shelf.prepare(2, [])
    CheckpointDirectory(tmp_path / "checkpoints", sync=True, publish="rename").open()
    assert not left.exists()
    shelf.delete(1)
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], list[str]]:
    """Record flushes with the names present at the time; flushing one path fails."""

    def watch(broken: Path) -> list[str]:
        names: list[str] = []

        def flush(path: Path) -> None:
            inside = sorted(p.name for p in path.iterdir()) if path.is_dir() else ""
            names.append(f"{path.name}: {inside}" if inside else path.name)
            if path == broken:
                raise ChildError({"message": f"{path}: broken"})

        monkeypatch.setattr(writer, "flush", flush)
        return names

    return watch


@pytest.mark.parametrize("publish", ["rename", "in_place"])
def test_what_a_manifest_lists_is_durable_before_it(
    tmp_path: Path, flushed: Callable[[Path], list[str]], publish: str
) -> None:
    shelf = CheckpointDirectory(tmp_path / "checkpoints", sync=True, publish=publish)
    shelf.open()
    (shelf.prepare(1, ["rank0/a.pt"]) / "rank0" / "a.pt").touch()
    names = flushed(Path("/nothing"))
    shelf.publish(1, {})
    place = shelf.partial(1).name
    assert names == [
        "rank0: ['a.pt']",
        f"{place}: ['rank0']",
        f"{MANIFEST}.partial",
        f"{place}: ['rank0', '{MANIFEST}']",
        "checkpoints: ['checkpoint-000001']",
    ]


class Answers:
    """Fake workers that have already finished."""

    RANKS = ({"moved_ns": 5, "end_ns": 9}, {"moved_ns": 7, "end_ns": 8})

    def __init__(self) -> None:
        self.orders: list[str] = []

    def carry_out(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        (what, value), *_ = order.items()
        self.orders.append(what)
        if what == "write":
            (Path(value) / "a.pt").write_bytes(b"x")
        return list(self.RANKS)


def coordinator(tmp_path: Path, writes: int) -> tuple[Coordinator, Answers, dict[str, Any]]:
    job = {"writes": writes, "restores": 1, "pause_ns": 0, "keep_last": None, "seed": 1}
    job |= {"cold": "as_is", "verify": True}
    shelf = CheckpointDirectory(tmp_path / "checkpoints", sync=True, publish="rename")
    shelf.open()
    crew = Answers()
    result: dict[str, Any] = {"details": {}, "spans": [], "notes": []}
    made = Coordinator(job, shelf, cast(RankProcesses, crew), ["a.pt"], result, tmp_path)
    return made, crew, result


def test_a_restore_ends_with_the_last_byte_of_the_last_rank(tmp_path: Path) -> None:
    made, crew, result = coordinator(tmp_path, 1)
    made.work()
    assert result["details"]["restores"][0]["end_ns"] == result["spans"][-1]["end_ns"] == 7
    assert crew.orders == ["ready", "prepare", "write", "record", "restore", "record"]


def test_a_checkpoint_whose_name_is_not_durable_is_none(
    tmp_path: Path, flushed: Callable[[Path], list[str]]
) -> None:
    made, _, _ = coordinator(tmp_path, 1)
    made.work()
    made, _, result = coordinator(tmp_path, 1)
    flushed(tmp_path / "checkpoints")
    with pytest.raises(ChildError):
        made.work()
    assert result["notes"] == [
        "checkpoint 2 was not published; checkpoint 1 is the newest complete one"
    ]
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-000001"]


def test_a_rank_answers_before_it_keeps_what_it_did(tmp_path: Path) -> None:
    class Quick(Rank):
        def restore(self, place: str) -> dict[str, Any]:
            self.log.add("read", 1, 2, 3)
            return {"place": place}

    orders: list[dict[str, Any] | None] = [{"restore": "there"}, {"record": True}, None]
    kept = []

    class Pipe:
        def recv(self) -> dict[str, Any] | None:
            return orders.pop(0)

        def send(self, answer: dict[str, Any]) -> None:
            kept.append((answer, len(list(tmp_path.iterdir()))))

    rank = Quick(None, {"files": [], "seed": 1}, 0, tmp_path)
    rank.serve(cast(Connection, Pipe()))
    assert kept == [({"place": "there"}, 0), ({}, 1)]


def test_what_lies_in_memory_is_counted(home: Path) -> None:
    path = home / "file"
    path.write_bytes(bytes(1_000_000))
    assert resident_bytes(path) == 1_000_000
    with path.open("rb") as file:
        os.fsync(file.fileno())
    drop_caches([path])
    assert resident_bytes(path) < 1_000_000
    (home / "empty").touch()
    assert resident_bytes(home / "empty") == 0


def test_the_child_needs_nothing_of_storlab_but_its_own_files() -> None:
    code = engine.BOOT.replace("sys.exit(main(order))", "print(sorted(sys.modules))")
    code += "\nfrom storlab.engines.torch import loader, writer\n"
    home = str(Path(engine.__file__).parents[2])
    missing = dict.fromkeys(("pydantic", "pyarrow", "storlab._native"))
    blocked = f"import sys\nsys.modules.update({missing})\n"
    done = subprocess.run(
        [sys.executable, "-c", blocked + code, home, "order"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "storlab.base.clock" in done.stdout


forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 and newer


@forks
def test_the_first_error_of_a_process_ends_all() -> None:
    def work(rank: int, pipe: Any) -> None:
        while pipe.recv() is not None:
            if rank == 1:
                raise FileNotFoundError(2, "No such file", "/some/file")
            pipe.recv()  # blocks for ever

    crew = RankProcesses(2, work)
    with pytest.raises(ChildError) as caught:
        crew.carry_out({})
    crew.end(kill=True)
    assert caught.value.failure["path"] == "/some/file"
    assert caught.value.failure["errno"] == 2


class InlineLoader:
    """Batches as from a DataLoader, made in the calling process."""

    def __init__(self, data: Samples, sampler: Sampler, batch_size: int, **options: Any) -> None:
        self._data, self._sampler, self._batch = data, sampler, batch_size
        self._collate = options["collate_fn"]
        data.home.joinpath(f"ready-{sampler.accelerator}").write_text(str(monotonic_ns()))

    def __iter__(self) -> Iterator[Any]:
        numbers = list(self._sampler)
        for at in range(0, len(numbers), self._batch):
            yield self._collate([self._data[n] for n in numbers[at : at + self._batch]])


@forks
def test_a_training_window_begins_when_all_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the window starts after loaders exist and first files are evicted."""
    torch = SimpleNamespace(
        set_num_threads=lambda _: None,
        tensor=np.array,
        from_numpy=lambda array: array,
        stack=np.stack,
        int64=np.int64,
        utils=SimpleNamespace(data=SimpleNamespace(DataLoader=InlineLoader)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    drops: list[tuple[int, int]] = []
    monkeypatch.setattr(loader, "drop_caches", lambda p: drops.append((monotonic_ns(), len(p))))
    job = job_of(tmp_path, make_set(tmp_path), accelerators=2, epochs=2, drop_caches=True)
    result: dict[str, Any] = {"details": {}, "spans": []}
    loader.run({"job": plain(job)}, tmp_path, result)
    ready_ns = [int((tmp_path / f"ready-{n}").read_text()) for n in range(2)]
    (first_ns, files), (later_ns, _) = drops
    assert max(ready_ns) < first_ns < result["start_ns"] < later_ns < result["end_ns"]
    assert files == FILES
    steps = result["details"]["steps"]
    epochs = result["details"]["epochs"]
    assert [[a["steps"] for a in e["accelerators"]] for e in epochs] == [[steps] * 2] * 2
    assert result["start_ns"] <= epochs[0]["start_ns"]


@forks
def test_a_process_that_vanishes_is_named() -> None:
    def work(rank: int, pipe: Any) -> None:
        pipe.recv()
        os._exit(7)

    crew = RankProcesses(1, work)
    with pytest.raises(ChildError, match="process 0 ended with exit code 7"):
        crew.carry_out({})
    crew.end(kill=True)


@forks
def test_a_process_that_ends_before_it_takes_its_order_is_named() -> None:
    """Check the message if a process ends early and its pipe breaks."""

    def work(rank: int, pipe: Any) -> None:
        pipe.poll(None)
        os._exit(7)

    crew = RankProcesses(1, work)
    for _ in ("reset", "broken"):
        with pytest.raises(ChildError, match="process 0 ended with exit code 7"):
            crew.carry_out({})
    crew.end()


@forks
@pytest.mark.parametrize("waits", [False, True])
def test_whatever_ends_a_process_is_told_in_its_words(waits: bool) -> None:
    def work(rank: int, pipe: Any) -> None:
        if waits:
            pipe.poll(None)
        raise RuntimeError("in gloo:\nno such host")

    crew = RankProcesses(1, work)
    if not waits:
        crew._processes[0].join()
    with pytest.raises(ChildError, match="process 0: RuntimeError: no such host"):
        crew.carry_out({})
    crew.end(kill=True)


@forks
def test_answers_come_in_order_of_ranks() -> None:
    def work(rank: int, pipe: Any) -> None:
        while (order := pipe.recv()) is not None:
            pipe.send({"rank": rank, "order": order})

    crew = RankProcesses(3, work)
    assert crew.carry_out({"a": 1}) == [{"rank": rank, "order": {"a": 1}} for rank in range(3)]
    crew.end()
