"""Training reads through PyTorch's DataLoader, in the child program (``child.py``).

As in a training script, a map-style data set reads the files, each reader is a worker process, and
a sampler yields whole batches in the job's order. Computation is emulated by sleeping.
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
from storlab.engines.torch.ranks import FORK, Log, Order, RankProcesses, drop_caches
from storlab.process.child_result import ChildError, store_result
from storlab.process.device_counter import counter_of, moved_bytes
from storlab.process.parent_death import end_with

Bytes = npt.NDArray[np.uint8]
SECTOR = 4096
FRAME = 12  # TFRecord header: length and its CRC; another 4 bytes follow the payload


class Window(io.RawIOBase):
    """Read-only file object over a block of memory, without copying it."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position of the next read and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._data)}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Copy the next bytes into ``buffer`` and return their number."""
        part = self._data[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


class Samples:
    """Map-style data set of PyTorch: index ``i`` is a sample of file ``i // samples_per_file``.

    An item is the sample and a tuple about its read: end (ns), duration (ns), and bytes read. The
    bytes are 0 if the file was already loaded for the previous sample. Each worker process has its
    own copy of the data set.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.records = job["records"]
        self.home = Path(job["place"]["directory"])
        self.direct = job["place"]["direct"]
        self.read_bytes = job["read_bytes"]
        self._buffer: mmap.mmap | None = None
        self._open: tuple[int, Bytes] | None = None  # last NPZ file, if it holds several samples

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
        """Return the path of the data file with the given number."""
        records = self.records
        files = records["files"]
        name = f"{records['prefix']}_{number:0{len(str(files))}}_of_{files}.{records['format']}"
        return Path(self.home / records["folder"] / name)

    def read(self, index: int) -> tuple[Bytes, int]:
        """Read a sample; return it with the number of bytes read from the file."""
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
        """Read one TFRecord and return it with the bytes read.

        The record's offset is computed from ``place``, its index in the file, because all records
        of a file have the same length.
        """
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
            at = place * stride
            raise ValueError(f"{path}: no TFRecord of {stride} bytes at offset {at}")
        return np.frombuffer(data, dtype=np.uint8, count=length, offset=skipped + FRAME), moved

    def _whole(self, path: Path) -> bytes:
        return bytes(self._direct(path)) if self.direct else path.read_bytes()

    def _direct(self, path: Path, begin: int = 0, end: int | None = None) -> memoryview:
        """Read bytes ``begin`` to ``end`` of a file with O_DIRECT.

        The returned buffer is overwritten by the next call.
        """
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
    """Return a sample truncated or zero-padded to ``size`` bytes."""
    if len(sample) >= size:
        return sample[:size]
    whole = np.zeros(size, dtype=np.uint8)
    whole[: len(sample)] = sample
    return whole


class Sampler:
    """PyTorch sampler of one accelerator: yields the indices of its samples in an epoch.

    As in the native engine, files are shuffled and the samples of a file stay together. The order
    differs from the native engine's, since it comes from Python's random generator.
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
            # Shuffle within this accelerator's own files, which stay the same in every epoch.
            files = files[begin // per_file : -(-(begin + shard) // per_file)]
            begin = 0
        if job["shuffle"] != "none":
            turn = self.epoch if job["shuffle"] == "epoch" else 0
            random.Random(f"{job['seed']}/{turn}").shuffle(files)  # noqa: S311  (no secret)
        for at in range(begin, begin + len(self)):
            yield files[at // per_file] * per_file + at % per_file


def steps_of(job: dict[str, Any]) -> int:
    """Return the number of training steps of one accelerator in an epoch."""
    records = job["records"]
    whole = records["files"] * records["samples_per_file"] // job["accelerators"] // job["batch"]
    return int(whole if job["max_steps"] is None else min(whole, job["max_steps"]))


class Collate:
    """Collate function of a DataLoader, which makes a batch of samples.

    A batch is one tensor if all samples have the same length, else a list of tensors.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __call__(self, items: list[tuple[Bytes, tuple[int, int, int]]]) -> Any:
        """Return the batch and a tensor with the read times of its samples."""
        times = self._torch.tensor([times for _, times in items], dtype=self._torch.int64)
        own = [sample if sample.flags.writeable else sample.copy() for sample, _ in items]
        tensors = [self._torch.from_numpy(sample) for sample in own]
        if len({len(sample) for sample, _ in items}) == 1:
            return self._torch.stack(tensors), times
        return tensors, times


def run(order: Order, work_dir: Path, result: Order) -> None:
    """Run all epochs of a training job, and update ``result`` after each.

    Raises:
        ChildError: The process of an accelerator failed.
        OSError: A file cannot be read or written.
    """
    torch: Any = import_module("torch")  # before the fork, so that it is imported once
    job = order["job"]
    meeting = FORK.Barrier(job["accelerators"])
    samples = Samples(job)

    def accelerate(index: int, pipe: Connection) -> None:
        torch.set_num_threads(1)
        Accelerator(torch, job, index, meeting, Log(work_dir, index)).serve(pipe)

    crew = RankProcesses(job["accelerators"], accelerate)
    counter = counter_of(samples.home)
    details = result["details"]
    details |= {"epochs": [], "steps": steps_of(job), "device_counters": counter is not None}
    files = [samples.path(number) for number in range(job["records"]["files"])]
    dropped = files if job["drop_caches"] else []
    try:
        crew.carry_out({"ready": True})  # starts the loaders before the window begins
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
    """Emulated accelerator: takes a batch, sleeps for the compute time, takes the next batch."""

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
        """Execute orders that arrive in the pipe, and answer each, until None arrives."""
        while (order := pipe.recv()) is not None:
            if "ready" in order:
                pipe.send({})
                continue
            self._sampler.epoch = order["epoch"] - 1
            try:
                times = self.run_epoch()
            # PyTorch re-raises exceptions of loader workers here.
            except (RuntimeError, ValueError, zipfile.BadZipFile) as error:
                words = str(error).strip().rpartition("\n")[2]
                raise ChildError({"message": words, "operation": "read"}) from error
            self._log.save()
            pipe.send(times)

    def run_epoch(self) -> dict[str, Any]:
        """Run one epoch and return its times, with the field names of the native engine."""
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
