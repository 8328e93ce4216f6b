"""Training reads through PyTorch's DataLoader, in the child that has PyTorch (``torch_child``).

A map-style data set over the files, one worker process for each reader, whole batches by the
sampler in the job's order: what a training script does. Compute is emulated, as everywhere.
"""

from __future__ import annotations

import io
import mmap
import os
import random
import zipfile
from collections.abc import Iterator
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.units import NS_PER_S
from storlab.engines.torch.ranks import FORK, Crew, Log, Order, drop_caches
from storlab.process.child_side import ChildError, store_result
from storlab.process.device_counter import counter_of, moved_bytes
from storlab.process.parent_death import end_with

Bytes = npt.NDArray[np.uint8]
SECTOR = 4096
FRAME = 12  # of a TFRecord: length and its checksum; behind the payload, 4 bytes more


class Window(io.RawIOBase):
    """A part of memory as a file to read, without a copy of it."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go there."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._data)}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Bytes that were copied into ``buffer``."""
        part = self._data[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


class Samples:
    """A map-style data set: sample ``i`` of file ``i // samples_per_file``.

    An item is the sample, and when its read ended, how long it took (ns) and how many bytes it
    moved; 0 bytes where the file was at hand from the sample before. Belongs to a worker.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.records = job["records"]
        self.home = Path(job["place"]["directory"])
        self.direct = job["place"]["direct"]
        self.read_bytes = job["read_bytes"]
        self._buffer: mmap.mmap | None = None
        self._open: tuple[int, Bytes] | None = None  # an NPZ of several samples

    def __len__(self) -> int:
        return int(self.records["files"] * self.records["samples_per_file"])

    def __getitem__(self, index: int) -> tuple[Bytes, tuple[int, int, int]]:
        start_ns = monotonic_ns()
        sample, moved = self.read(index)
        size = self.records["resize_bytes"]
        if size:
            sample = fitted(sample, size)
        end_ns = monotonic_ns()
        return sample, (end_ns, end_ns - start_ns, moved)

    def path(self, number: int) -> Path:
        """Of a file, by its number."""
        records = self.records
        files = records["files"]
        name = f"{records['prefix']}_{number:0{len(str(files))}}_of_{files}.{records['format']}"
        return Path(self.home / records["folder"] / name)

    def read(self, index: int) -> tuple[Bytes, int]:
        """A sample, and the bytes that were moved for it."""
        number, place = divmod(index, self.records["samples_per_file"])
        path = self.path(number)
        if self.records["format"] == "npz":
            return self._npz(number, path, place)
        if self.records["format"] == "tfrecord":
            return self._record(path, place)
        data = np.frombuffer(self._whole(path), dtype=np.uint8)
        return data, len(data)

    def _npz(self, number: int, path: Path, place: int) -> tuple[Bytes, int]:
        moved = 0
        if self._open is None or self._open[0] != number:
            moved = path.stat().st_size
            source: Any = Window(self._direct(path)) if self.direct else path
            with np.load(source) as arrays:
                self._open = (number, arrays["x"])
        array = self._open[1]
        sample = array[..., place].reshape(-1)
        if self.records["samples_per_file"] == 1:
            self._open = None
        return sample, moved

    def _record(self, path: Path, place: int) -> tuple[Bytes, int]:
        """All records of a file are of one length."""
        stride = path.stat().st_size // self.records["samples_per_file"]
        if self.direct:
            begin = place * stride // SECTOR * SECTOR
            data = bytes(self._direct(path, begin, (place + 1) * stride))
            moved, skipped = len(data), place * stride - begin
        else:
            with path.open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), stride, place * stride)
            moved, skipped = len(data), 0
        length = int.from_bytes(data[skipped : skipped + 8], "little")
        if length + FRAME + 4 != stride:
            raise ValueError(f"{path} at {place * stride}: no record")
        return np.frombuffer(data, dtype=np.uint8, count=length, offset=skipped + FRAME), moved

    def _whole(self, path: Path) -> bytes:
        return bytes(self._direct(path)) if self.direct else path.read_bytes()

    def _direct(self, path: Path, begin: int = 0, end: int | None = None) -> memoryview:
        """A part of a file by O_DIRECT, in a buffer that the next call overwrites."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            stop = os.fstat(descriptor).st_size if end is None else end
            room = -(-(stop - begin) // SECTOR) * SECTOR
            if self._buffer is None or len(self._buffer) < room:
                self._buffer = mmap.mmap(-1, max(room, SECTOR))
            view, at = memoryview(self._buffer), 0
            while begin + at < stop:
                part = view[at : at + min(self.read_bytes, room - at)]
                got = os.preadv(descriptor, [part], begin + at)
                if got == 0:
                    break
                at += got
            return view[: min(at, stop - begin)]
        finally:
            os.close(descriptor)


def fitted(sample: Bytes, size: int) -> Bytes:
    """Cut to ``size`` bytes, or filled up with zeros."""
    if len(sample) >= size:
        return sample[:size]
    whole = np.zeros(size, dtype=np.uint8)
    whole[: len(sample)] = sample
    return whole


class Sampler:
    """The samples of one accelerator in the epoch that is set: its share, whole batches only.

    Files are permuted and samples of a file stay together, as with the native reader; the
    permutation comes from Python's generator, so that it is another one.
    """

    def __init__(self, job: dict[str, Any], accelerator: int) -> None:
        self.job = job
        self.accelerator = accelerator
        self.epoch = 0

    def __len__(self) -> int:
        return steps_of(self.job) * int(self.job["batch"])

    def __iter__(self) -> Iterator[int]:
        job, per_file = self.job, self.job["records"]["samples_per_file"]
        files = list(range(job["records"]["files"]))
        shard = len(files) * per_file // job["accelerators"]
        begin = shard * self.accelerator
        if not job["reshard"] and job["shuffle"] != "none":
            # Always the same files: whole ones, so that shards need not be cut anew.
            files = files[begin // per_file : -(-(begin + shard) // per_file)]
            begin = 0
        if job["shuffle"] != "none":
            turn = self.epoch if job["shuffle"] == "epoch" else 0
            random.Random(f"{job['seed']}/{turn}").shuffle(files)  # noqa: S311  (no secret)
        for at in range(begin, begin + len(self)):
            yield files[at // per_file] * per_file + at % per_file


def steps_of(job: dict[str, Any]) -> int:
    """Of one accelerator in an epoch."""
    records = job["records"]
    whole = records["files"] * records["samples_per_file"] // job["accelerators"] // job["batch"]
    return int(whole if job["max_steps"] is None else min(whole, job["max_steps"]))


class Collate:
    """Samples to a batch: one tensor where they are of one length, and otherwise a list."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __call__(self, items: list[tuple[Bytes, tuple[int, int, int]]]) -> Any:
        """The batch, and a tensor with the times of its samples."""
        times = self._torch.tensor([times for _, times in items], dtype=self._torch.int64)
        own = [sample if sample.flags.writeable else sample.copy() for sample, _ in items]
        tensors = [self._torch.from_numpy(sample) for sample in own]
        if len({len(sample) for sample, _ in items}) == 1:
            return self._torch.stack(tensors), times
        return tensors, times


def run(order: Order, work_dir: Path, result: Order) -> None:
    """All epochs. Raises ChildError and OSError; ``result`` has what was done by then."""
    torch: Any = import_module("torch")  # before the fork: once for all processes
    job = order["job"]
    meeting = FORK.Barrier(job["accelerators"])
    samples = Samples(job)

    def accelerate(index: int, pipe: Connection) -> None:
        torch.set_num_threads(1)
        Accelerator(torch, job, index, meeting, Log(work_dir, index)).serve(pipe)

    crew = Crew(job["accelerators"], accelerate)
    counter = counter_of(samples.home)
    details = result["details"]
    details |= {"epochs": [], "steps": steps_of(job), "device_counters": counter is not None}
    files = [samples.path(number) for number in range(job["records"]["files"])]
    dropped = files if job["drop_caches"] else []
    try:
        crew.carry_out({"ready": True})  # their loaders are made before the window begins
        drop_caches(dropped)
        result["start_ns"] = monotonic_ns()
        for number in range(1, job["epochs"] + 1):
            if number > 1:
                drop_caches(dropped)
            before = moved_bytes(counter)
            times = crew.carry_out({"epoch": number})
            after = moved_bytes(counter)
            read = None if before is None or after is None else after[0] - before[0]
            epoch = _epoch(number, times, job["batch"], read)
            details["epochs"].append(epoch)
            span = {key: epoch[key] for key in ("start_ns", "end_ns", "bytes")}
            result["spans"].append({"kind": "epoch", "name": f"epoch {number}", **span})
            result["end_ns"] = epoch["end_ns"]
            store_result(work_dir, result)
    except BaseException:
        crew.end(kill=True)
        raise
    crew.end()


def _epoch(
    number: int, times: list[dict[str, Any]], batch: int, device_read: int | None
) -> dict[str, Any]:
    return {
        "number": number,
        "start_ns": min(accelerator["start_ns"] for accelerator in times),
        "end_ns": max(accelerator["end_ns"] for accelerator in times),
        "bytes": sum(accelerator["bytes"] for accelerator in times),
        "samples": sum(accelerator["steps"] for accelerator in times) * batch,
        "device_read_bytes": device_read,
        "accelerators": times,
    }


class Accelerator:
    """Takes a batch, computes for its time, takes the next one."""

    def __init__(self, torch: Any, job: dict[str, Any], index: int, meeting: Any, log: Log) -> None:
        self._job = job
        self._index = index
        self._meeting = meeting
        self._log = log
        self._sampler = Sampler(job, index)
        rank_pid = os.getpid()
        self._loader = torch.utils.data.DataLoader(
            Samples(job),
            batch_size=job["batch"],
            sampler=self._sampler,
            num_workers=job["reader_threads"],
            collate_fn=Collate(torch),
            drop_last=True,
            prefetch_factor=-(-job["prefetch"] // job["reader_threads"]),
            persistent_workers=True,
            multiprocessing_context="fork",
            worker_init_fn=lambda _: end_with(rank_pid),
        )

    def serve(self, pipe: Connection) -> None:
        """Epochs as they are ordered, until there are no more."""
        while (order := pipe.recv()) is not None:
            if "ready" in order:
                pipe.send({})
                continue
            self._sampler.epoch = order["epoch"] - 1
            try:
                times = self.run_epoch()
            except (RuntimeError, ValueError, zipfile.BadZipFile) as error:  # of a worker, too
                words = str(error).strip().rpartition("\n")[2]
                raise ChildError({"message": words, "operation": "read"}) from error
            self._log.save()
            pipe.send(times)

    def run_epoch(self) -> dict[str, Any]:
        """Its times, as the native engine tells them."""
        job, log = self._job, self._log
        computing_s = job["computation_ns"] / NS_PER_S
        names = ("steps", "compute_ns", "wait_ns", "barrier_ns", "bytes")
        times: dict[str, Any] = {"accelerator": self._index, **dict.fromkeys(names, 0)}
        times["start_ns"] = times["end_ns"] = monotonic_ns()
        batches = iter(self._loader)
        for step in range(steps_of(job)):
            asked_ns = monotonic_ns()
            _, reads = next(batches)
            taken_ns = monotonic_ns()
            sleep_s(computing_s)
            computed_ns = monotonic_ns()
            if job["barrier"]:
                self._meeting.wait()
            times["end_ns"] = monotonic_ns()
            rows = reads.tolist()
            moved = sum(size for _, _, size in rows)
            log.add("step", asked_ns, taken_ns, 0)
            for end_ns, length_ns, size in rows:
                if size:
                    log.add("read", end_ns - length_ns, end_ns, size)
            times["steps"] += 1
            times["bytes"] += moved
            times["wait_ns"] += taken_ns - asked_ns
            times["compute_ns"] += computed_ns - taken_ns
            times["barrier_ns"] += times["end_ns"] - computed_ns
            if step == 0:
                times["first_end_ns"] = times["end_ns"]
                times["first_compute_ns"] = computed_ns - taken_ns
                times["first_wait_ns"] = taken_ns - asked_ns
        return times
