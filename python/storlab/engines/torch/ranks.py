"""Processes of a PyTorch run, one per accelerator or rank, and their logs of I/O operations.

They are started by ``child.py``, in a Python that has PyTorch.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from storlab.process.child_result import ChildError, failure_of
from storlab.process.parent_death import end_with

Order = dict[str, Any]
KINDS = ("read", "step", "write", "sync")
"""Kinds of operation; event files store a kind as its index in this tuple."""
FORK = multiprocessing.get_context("fork")  # fork, so that PyTorch is imported once


class Log:
    """Log of one process's operations, buffered in memory until ``save`` is called."""

    def __init__(self, work_dir: Path, rank: int) -> None:
        self._path = work_dir / f"events-{rank}.bin"
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, kind: str, start_ns: int, end_ns: int, size: int) -> None:
        """Record one operation with its start, end (ns) and bytes."""
        self._rows.append((KINDS.index(kind), end_ns, end_ns - start_ns, size))

    def save(self) -> None:
        """Append the buffered operations to the process's event file, and clear the buffer."""
        with self._path.open("ab") as file:
            file.write(np.array(self._rows, dtype=np.int64).tobytes())
        self._rows.clear()


class RankProcesses:
    """Processes of all ranks; they execute orders and answer each with a JSON-like dict."""

    def __init__(self, count: int, work: Callable[[int, Connection], None]) -> None:
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(count):
            parent_end, child_end = FORK.Pipe()
            process = FORK.Process(
                target=_guarded, args=(work, rank, child_end, os.getpid()), daemon=False
            )
            process.start()
            child_end.close()
            self._pipes.append(parent_end)
            self._processes.append(process)

    def carry_out(self, order: Order) -> list[dict[str, Any]]:
        """Send an order to every rank, wait, and return the answers by rank.

        Raises:
            ChildError: A rank failed; if several did, the first failure to arrive is raised.
        """
        for pipe in self._pipes:
            _tell(pipe, order)
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
            answer: dict[str, Any] = self._pipes[rank].recv()
        except (EOFError, ConnectionError):  # the pipe broke: not a storage error
            self._processes[rank].join()
            code = self._processes[rank].exitcode
            raise ChildError({"message": f"process {rank} ended with exit code {code}"}) from None
        if "failure" in answer:
            raise ChildError(answer["failure"])
        return answer

    def end(self, *, kill: bool = False) -> None:
        """End the processes of all ranks and wait until they have ended.

        Args:
            kill: Whether to kill the processes, because one failed and others may wait for it.
        """
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if kill:
                process.kill()
            else:
                _tell(pipe, None)
        for process in self._processes:
            process.join()


def _tell(pipe: Connection, order: Order | None) -> None:
    """Send an order to a process; ignore a broken pipe, which reading the answer will report."""
    with suppress(ConnectionError):
        pipe.send(order)


def _guarded(
    work: Callable[[int, Connection], None], rank: int, pipe: Connection, parent: int
) -> None:
    end_with(parent)
    try:
        work(rank, pipe)
    except OSError as error:
        pipe.send({"failure": failure_of(error)})
    except ChildError as error:
        pipe.send({"failure": error.failure})
    except BaseException as error:
        last = str(error).strip().rpartition("\n")[2]
        words = f"{type(error).__name__}: {last}".removesuffix(": ")
        pipe.send({"failure": {"message": f"process {rank}: {words}"}})
        raise  # prints the traceback on standard error


def drop_caches(paths: Sequence[Path]) -> None:
    """Ask the kernel to drop files from the page cache; unwritten (dirty) pages stay there."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
