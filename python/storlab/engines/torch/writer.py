"""Checkpoints written by PyTorch, in the child program (``child.py``).

As in a real training, each rank holds its files as tensors in memory. It writes them with
``torch.save``, or together with all other ranks with ``torch.distributed.checkpoint``. As in the
native engine, a checkpoint is written to a temporary directory, flushed, then renamed. The content
of every 4 KiB changes from one checkpoint to the next.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.units import NS_PER_S
from storlab.engines.torch.ranks import Log, Order, RankProcesses, drop_caches
from storlab.process.child_result import ChildError, failure_of, store_result
from storlab.process.device_counter import counter_of, moved_bytes

TENSOR_BYTES = 256 << 20  # largest tensor; a file holds several
PAGE = 4096
MANIFEST = "storlab-checkpoint.json"  # names as in crates/families/checkpoint/src/publish.rs
PARTIAL = ".partial-"
WHOLE = "checkpoint-"


def run(order: Order, work_dir: Path, result: Order) -> None:
    """Write and restore the checkpoints of a job, and update ``result`` after each.

    Raises:
        ChildError: The process of a rank failed.
        OSError: A file cannot be read or written.
    """
    torch: Any = import_module("torch")  # before the fork, so that it is imported once
    job = order["job"]

    def work(rank: int, pipe: Connection) -> None:
        torch.set_num_threads(1)
        kind = Distributed if order["format"] == "dcp" else Rank
        kind(torch, job, rank, work_dir).serve(pipe)

    shelf = CheckpointDirectory(
        Path(job["place"]["directory"]), job["sync"] == "fsync", job["publish"]
    )
    shelf.open()
    crew = RankProcesses(job["ranks"], work)
    names = [] if order["format"] == "dcp" else [file["name"] for file in job["files"]]
    run_of = Coordinator(job, shelf, crew, names, result, work_dir)
    try:
        run_of.work()
    except BaseException:
        crew.end(kill=True)
        raise
    crew.end()


class CheckpointDirectory:
    """Directory that holds all checkpoints of a run."""

    def __init__(self, home: Path, sync: bool, publish: str) -> None:
        self.home = home
        self.sync = sync
        self.aside = publish == "rename"

    def open(self) -> None:
        """Create the directory if needed, and remove incomplete checkpoints of a crashed run."""
        self.home.mkdir(exist_ok=True)
        for path in self.home.glob(f"{PARTIAL}*"):
            shutil.rmtree(path)

    def whole(self, number: int) -> Path:
        """Return the final path of a checkpoint by its number."""
        return self.home / f"{WHOLE}{number:06}"

    def partial(self, number: int) -> Path:
        """Return the path at which a checkpoint is written before it is renamed to its final one.

        Without renaming, this is the final path.
        """
        return self.home / f"{PARTIAL}{number:06}" if self.aside else self.whole(number)

    def numbers(self) -> list[int]:
        """Return the numbers of the complete checkpoints in ascending order."""
        whole = [p for p in self.home.glob(f"{WHOLE}*") if (p / MANIFEST).exists()]
        return sorted(int(path.name.removeprefix(WHOLE)) for path in whole)

    def prepare(self, number: int, names: list[str]) -> Path:
        """Create the directories of a new checkpoint, replacing one of the same number.

        Args:
            number: The number of the checkpoint.
            names: The relative paths of its files, whose parent directories are created.
        """
        place = self.partial(number)
        for old in {place, self.whole(number)}:
            if old.exists():
                shutil.rmtree(old)
        for name in ("", *names):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(exist_ok=True)
        return place

    def publish(self, number: int, manifest: dict[str, Any]) -> None:
        """Complete a checkpoint whose files are written: flush, write the manifest, rename."""
        place = self.partial(number)
        # The manifest marks the checkpoint as complete, so its files must be durable before it.
        for directory, _, _ in os.walk(place, topdown=False) if self.sync else ():
            flush(Path(directory))
        unnamed = place / f"{MANIFEST}.partial"
        unnamed.write_text(json.dumps(manifest))
        if self.sync:
            flush(unnamed)
        unnamed.rename(place / MANIFEST)
        if self.sync:
            flush(place)
        if self.aside:
            place.rename(self.whole(number))
        if self.sync:
            flush(self.home)

    def discard(self, number: int) -> None:
        """Remove a failed checkpoint from its temporary path and from its final path."""
        with suppress(OSError):
            self.delete(number)
        shutil.rmtree(self.partial(number), ignore_errors=True)

    def delete(self, number: int) -> None:
        """Delete a complete checkpoint.

        It is renamed first, so that after a crash no partial checkpoint has a final name.
        """
        gone = self.home / f"{PARTIAL}{number:06}"
        self.whole(number).rename(gone)
        shutil.rmtree(gone)


class Coordinator:
    """Coordinator of a checkpoint run, which makes all ranks write and restore checkpoints."""

    def __init__(
        self,
        job: dict[str, Any],
        shelf: CheckpointDirectory,
        crew: RankProcesses,
        names: list[str],
        result: Order,
        work_dir: Path,
    ) -> None:
        self.job = job
        self.names = names  # empty if PyTorch chooses them itself
        self.shelf = shelf
        self.crew = crew
        self.work_dir = work_dir
        self.result = result
        self.counter = counter_of(shelf.home)
        result["details"] |= {
            "writes": [],
            "restores": [],
            "device_counters": self.counter is not None,
        }

    def work(self) -> None:
        """Run all writes and restores of the job."""
        self.crew.carry_out({"ready": True})  # creates the tensors before the window begins
        self.result["start_ns"] = monotonic_ns()
        first = max(self.shelf.numbers(), default=0) + 1
        for number in range(first, first + self.job["writes"]):
            if number > first:
                sleep_s(self.job["pause_ns"] / NS_PER_S)
            self.crew.carry_out({"prepare": number})  # changes the weights, as a training step does
            try:
                self.write(number)
            except BaseException:
                self.discard(number)
                raise
            self.delete_old()
            store_result(self.work_dir, self.result)
        for _ in range(self.job["restores"]):
            self.restore()
            store_result(self.work_dir, self.result)

    def write(self, number: int) -> None:
        """Make all ranks write one checkpoint, complete it, and record its times."""
        place = self.shelf.prepare(number, self.names)
        before = moved_bytes(self.counter)
        start_ns = monotonic_ns()
        ranks = self.crew.carry_out({"write": str(place)})
        names = sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())
        sizes = [(name, (place / name).stat().st_size) for name in names]
        manifest = {"number": number, "seed": self.job["seed"], "io_bytes": 0, "slots": 0}
        self.shelf.publish(number, {**manifest, "files": sizes})
        end_ns = monotonic_ns()
        after = moved_bytes(self.counter)
        total = sum(size for _, size in sizes)
        self.result["details"]["writes"].append(
            {
                "number": number,
                "start_ns": start_ns,
                "written_ns": max(rank["moved_ns"] for rank in ranks),
                "durable_ns": end_ns,
                "bytes": total,
                "device_written_bytes": None if not before or not after else after[1] - before[1],
                "ranks": ranks,
            }
        )
        self.span("write", f"checkpoint {number}", start_ns, end_ns, total)
        self.crew.carry_out({"record": True})

    def discard(self, number: int) -> None:
        """Remove a failed checkpoint, and add a note that names the newest complete one."""
        self.shelf.discard(number)
        left = [whole for whole in self.shelf.numbers() if whole != number]
        what = (
            f"checkpoint {left[-1]} is the newest complete one"
            if left
            else "no checkpoint is complete"
        )
        self.result["notes"].append(f"checkpoint {number} was not published; {what}")

    def delete_old(self) -> None:
        """Delete all checkpoints except the newest ``keep_last``."""
        keep = self.job["keep_last"]
        old = self.shelf.numbers()[:-keep] if keep else []
        start_ns = monotonic_ns()
        for number in old:
            self.shelf.delete(number)
        if old:
            self.span("delete", f"{len(old)} older", start_ns, monotonic_ns(), 0)

    def restore(self) -> None:
        """Make all ranks restore the newest checkpoint, and record its times."""
        number = self.shelf.numbers()[-1]
        place = self.shelf.whole(number)
        files = [p for p in sorted(place.rglob("*")) if p.is_file() and p.name != MANIFEST]
        if self.job["cold"] != "as_is":
            drop_caches(files)
        resident = sum(resident_bytes(path) for path in files)
        before = moved_bytes(self.counter)
        start_ns = monotonic_ns()
        ranks = self.crew.carry_out({"restore": str(place)})
        end_ns = max(rank["moved_ns"] for rank in ranks)
        after = moved_bytes(self.counter)
        total = sum(path.stat().st_size for path in files)
        self.result["details"]["restores"].append(
            {
                "number": number,
                "start_ns": start_ns,
                "end_ns": end_ns,
                "bytes": total,
                "resident_before_bytes": resident,
                "device_read_bytes": None if not before or not after else after[0] - before[0],
                "verified": self.job["verify"],
                "ranks": ranks,
            }
        )
        self.span("restore", f"checkpoint {number}", start_ns, end_ns, total)
        self.crew.carry_out({"record": True})

    def span(self, kind: str, name: str, start_ns: int, end_ns: int, size: int) -> None:
        """Append a time span of the run, such as one checkpoint, to the result."""
        self.result["spans"].append(
            {"kind": kind, "name": name, "start_ns": start_ns, "end_ns": end_ns, "bytes": size}
        )
        self.result["end_ns"] = end_ns


class Rank:
    """One rank, which writes its files with ``torch.save`` and reads them with ``torch.load``."""

    def __init__(self, torch: Any, job: dict[str, Any], rank: int, work_dir: Path) -> None:
        self.torch = torch
        self.job = job
        self.rank = rank
        self.log = Log(work_dir, rank)
        self.files = [file for file in job["files"] if file["rank"] == rank]
        draw = np.random.default_rng([job["seed"] % (1 << 63), rank])
        self.state = {file["name"]: self._tensors(draw, file["bytes"]) for file in self.files}

    def _tensors(self, draw: np.random.Generator, size: int) -> dict[str, Any]:
        parts = [min(TENSOR_BYTES, size - at) for at in range(0, size, TENSOR_BYTES)]
        return {
            f"tensor{n}": self.torch.from_numpy(draw.integers(0, 256, part, dtype=np.uint8))
            for n, part in enumerate(parts)
        }

    def serve(self, pipe: Connection) -> None:
        """Execute orders that arrive in the pipe, and answer each, until None arrives."""
        while (order := pipe.recv()) is not None:
            (name, value), *_ = order.items()
            try:
                answer = getattr(self, name)(value)
            except RuntimeError as error:  # PyTorch's reader and writer raise it without errno
                message = f"rank {self.rank}, {name}: {str(error).strip().splitlines()[0]}"
                failure = {"message": message, "operation": name}
                raise ChildError(
                    {**failure, "fix": "check that the file system is not full"}
                ) from error
            pipe.send(answer)

    def ready(self, _: bool) -> dict[str, Any]:
        """Return an empty answer, which shows that this rank has created its tensors."""
        return {}

    def record(self, _: bool) -> dict[str, Any]:
        """Save the log of operations, by an order of its own, so that this I/O is not measured."""
        self.log.save()
        return {}

    def prepare(self, number: int) -> dict[str, Any]:
        """Change the tensors as training would: store ``number`` in one word of each 4 KiB."""
        for tensors in self.state.values():
            for tensor in tensors.values():
                words = tensor.numpy()[: len(tensor) // 8 * 8].view(np.uint64)
                words[:: PAGE // 8] = number
        return {}

    def write(self, place: str) -> dict[str, Any]:
        """Write this rank's part of a checkpoint into a directory and return its times."""
        start_ns = monotonic_ns()
        paths = self.save(Path(place))
        moved_ns = monotonic_ns()
        if self.job["sync"] == "fsync":
            for path in paths:
                begin_ns = monotonic_ns()
                flush(path)
                self.log.add("sync", begin_ns, monotonic_ns(), 0)
        end_ns = monotonic_ns()
        size = sum(path.stat().st_size for path in paths)
        return self.times(start_ns, moved_ns, end_ns, size)

    def save(self, place: Path) -> list[Path]:
        """Save this rank's tensors and return the paths of the files written."""
        paths = []
        for name, tensors in self.state.items():
            path = place / name
            begin_ns = monotonic_ns()
            self.torch.save(tensors, path)
            end_ns = monotonic_ns()
            self.log.add("write", begin_ns, end_ns, path.stat().st_size)
            paths.append(path)
        return paths

    def restore(self, place: str) -> dict[str, Any]:
        """Load this rank's part of a checkpoint, compare it if required, and return the times."""
        start_ns = monotonic_ns()
        size = 0
        for name, tensors in self.state.items():
            path = Path(place) / name
            begin_ns = monotonic_ns()
            loaded = self.torch.load(path, mmap=False, weights_only=True)
            self.log.add("read", begin_ns, monotonic_ns(), path.stat().st_size)
            size += path.stat().st_size
            self.compare(path, tensors, loaded)
        end_ns = monotonic_ns()
        return self.times(start_ns, end_ns, end_ns, size)

    def compare(self, path: Path, tensors: dict[str, Any], loaded: dict[str, Any]) -> None:
        """Raise ChildError if loaded tensors differ from the ones written."""
        if not self.job["verify"]:
            return
        same = tensors.keys() == loaded.keys()
        if not same or not all(bool(self.torch.equal(t, loaded[n])) for n, t in tensors.items()):
            failure = {"message": f"{path}: the data read differs from the data written"}
            raise ChildError({**failure, "operation": "verify", "path": str(path)})

    def times(self, start_ns: int, moved_ns: int, end_ns: int, size: int) -> dict[str, Any]:
        """Return this rank's bytes and times, with the field names of the native engine."""
        return {
            "rank": self.rank,
            "bytes": size,
            "start_ns": start_ns,
            "moved_ns": moved_ns,
            "end_ns": end_ns,
        }


class Distributed(Rank):
    """One rank, which writes its tensors into a distributed checkpoint shared by all ranks."""

    def __init__(self, torch: Any, job: dict[str, Any], rank: int, work_dir: Path) -> None:
        super().__init__(torch, job, rank, work_dir)
        dist: Any = import_module("torch.distributed")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meeting = f"file://{work_dir / 'rendezvous'}"
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=job["ranks"])
        self.dcp: Any = import_module("torch.distributed.checkpoint")
        self.flat = {
            f"{name}/{part}": tensor
            for name, tensors in self.state.items()
            for part, tensor in tensors.items()
        }

    def save(self, place: Path) -> list[Path]:
        """Save this rank's tensors and return its files; rank 0 also returns the index file."""
        begin_ns = monotonic_ns()
        writer = self.dcp.FileSystemWriter(place, sync_files=False)
        self.dcp.save(self.flat, storage_writer=writer)
        end_ns = monotonic_ns()
        paths = self._own(place)
        self.log.add("write", begin_ns, end_ns, sum(path.stat().st_size for path in paths))
        return paths

    def _own(self, place: Path) -> list[Path]:
        paths = sorted(place.glob(f"__{self.rank}_*.distcp"))
        return [*paths, place / ".metadata"] if self.rank == 0 else paths

    def restore(self, place: str) -> dict[str, Any]:
        """Load this rank's tensors into newly allocated ones and return the times."""
        loaded = {name: self.torch.empty_like(tensor) for name, tensor in self.flat.items()}
        start_ns = monotonic_ns()
        reader = self.dcp.FileSystemReader(place)
        self.dcp.load(loaded, storage_reader=reader)
        loaded_ns = monotonic_ns()
        self.compare(Path(place), self.flat, loaded)
        end_ns = monotonic_ns()
        size = sum(path.stat().st_size for path in self._own(Path(place)))
        self.log.add("read", start_ns, loaded_ns, size)
        return self.times(start_ns, end_ns, end_ns, size)


def flush(path: Path) -> None:
    """Call fsync on a file or directory. Raises ChildError if it fails."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise ChildError(failure_of(error, "sync")) from error
    finally:
        os.close(descriptor)


def resident_bytes(path: Path) -> int:
    """Return how many bytes of a file are in the page cache. Source: mincore(2)."""
    size = path.stat().st_size
    if size == 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as view:
        pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
        start = np.frombuffer(view, dtype=np.uint8)
        failed = libc.mincore(start.ctypes.data, size, pages)
        del start  # a mapping that is still referenced cannot be closed
    if failed:
        return 0
    return min(size, mmap.PAGESIZE * sum(byte & 1 for byte in pages.raw))
