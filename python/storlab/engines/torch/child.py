"""What runs in the Python that has PyTorch: a coordinator, and one process for each accelerator or
rank.

That Python need not have storlab installed: of storlab only modules without other needs are
imported here, and ``storlab/__init__.py`` is not run (see ``BOOT`` in ``torch.py``). Results go to
``result.json`` after every epoch or checkpoint, and every operation to ``events-<rank>.bin``: rows
of kind, end (ns), latency (ns) and bytes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from storlab.base.clock import monotonic_ns
from storlab.process.parent_death import end_with

Order = dict[str, Any]
KINDS = ("read", "step", "write", "sync")
"""Operations, as they are numbered in the files of events."""
FORK = multiprocessing.get_context("fork")  # so that PyTorch is imported once


class ChildError(Exception):
    """What ended the run: a document for ``result.json``."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(said["message"])
        self.said = said


class Log:
    """Operations of one process, kept in memory until ``save``."""

    def __init__(self, work_dir: Path, rank: int) -> None:
        self._path = work_dir / f"events-{rank}.bin"
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, kind: str, start_ns: int, end_ns: int, size: int) -> None:
        """One operation."""
        self._rows.append((KINDS.index(kind), end_ns, end_ns - start_ns, size))

    def save(self) -> None:
        """Append them to the file."""
        with self._path.open("ab") as file:
            file.write(np.array(self._rows, dtype=np.int64).tobytes())
        self._rows.clear()


class Crew:
    """The processes, one for each rank: they get orders, and answer each with a document."""

    def __init__(self, count: int, work: Callable[[int, Connection], None]) -> None:
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(count):
            mine, theirs = FORK.Pipe()
            process = FORK.Process(
                target=_guarded, args=(work, rank, theirs, os.getpid()), daemon=False
            )
            process.start()
            theirs.close()
            self._pipes.append(mine)
            self._processes.append(process)

    def all(self, order: Order) -> list[dict[str, Any]]:
        """Every rank carries out the order. Raises ChildError with the first error of one."""
        for pipe in self._pipes:
            pipe.send(order)
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < len(self._pipes):
            open_pipes = [p for rank, p in enumerate(self._pipes) if rank not in answers]
            ready = wait(open_pipes)
            for rank, pipe in enumerate(self._pipes):
                if pipe in ready:
                    answers[rank] = self._answer(rank)
        return [answers[rank] for rank in sorted(answers)]

    def _answer(self, rank: int) -> dict[str, Any]:
        try:
            said: dict[str, Any] = self._pipes[rank].recv()
        except EOFError:
            self._processes[rank].join()
            code = self._processes[rank].exitcode
            raise ChildError({"message": f"process {rank} ended with exit code {code}"}) from None
        if "failure" in said:
            raise ChildError(said["failure"])
        return said

    def end(self, *, kill: bool = False) -> None:
        """They end; at once where one of them has failed, since others wait for it."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if kill:
                process.kill()
            else:
                pipe.send(None)
        for process in self._processes:
            process.join()


def _guarded(
    work: Callable[[int, Connection], None], rank: int, pipe: Connection, parent: int
) -> None:
    end_with(parent)
    try:
        work(rank, pipe)
    except OSError as error:
        pipe.send({"failure": said_of(error)})
    except ChildError as error:
        pipe.send({"failure": error.said})


def said_of(error: OSError, operation: str | None = None) -> dict[str, Any]:
    """An error of the system as a document. One from a worker of a loader has its traceback on."""
    words = error.strerror or str(error).strip().rpartition("\n")[2]
    return {
        "message": f"{error.filename or ''}: {words}".removeprefix(": "),
        "errno": error.errno,
        "operation": operation,
        "path": None if error.filename is None else str(error.filename),
    }


def store(work_dir: Path, result: Order) -> None:
    """``result.json``, whole or not at all."""
    aside = work_dir / "result.json.part"
    aside.write_text(json.dumps(result))
    aside.replace(work_dir / "result.json")


def drop_caches(paths: Sequence[Path]) -> None:
    """Ask the kernel to drop what it holds of files. What is not written back yet stays."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def main(order_file: str) -> int:
    """Carry out the order in a file; 1 where it failed, and ``result.json`` says why."""
    path = Path(order_file)
    order: Order = json.loads(path.read_text())
    result: Order = {"details": {}, "spans": [], "notes": []}
    if order["kind"] == "training":
        from storlab.engines.torch.loader import run
    else:
        from storlab.engines.torch.writer import run
    failure: dict[str, Any] | None = None
    try:
        run(order, path.parent, result)
    except ChildError as error:
        failure = error.said
    except OSError as error:
        failure = said_of(error)
    result.setdefault("start_ns", monotonic_ns())
    result.setdefault("end_ns", monotonic_ns())
    result["failure"] = failure
    store(path.parent, result)
    return 0 if failure is None else 1
