"""Units of work and the pool that executes them: processes, or threads of one process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from itertools import islice
from typing import Any, NamedTuple

from storlab.base.clock import monotonic_ns
from storlab.engines.dataframe.library import Library
from storlab.process.parent_death import end_with


class Unit(NamedTuple):
    """Unit of work of a preprocessing run: a function call, and the input that it reads."""

    name: str
    work: Callable[..., int]  # returns the number of passes over its input
    arguments: tuple[Any, ...]
    bytes: int = 0  # of raw input
    columns: tuple[str, ...] = ()  # columns of Parquet files, of which it reads ``share``
    share: float = 1.0


class Done(NamedTuple):
    """Executed unit of work, with its start, its end and its passes over the input."""

    unit: Unit
    start_ns: int
    end_ns: int
    passes: int


def pool_of(library: Library, workers: int) -> Executor:
    """Start the worker processes or threads of a run and return their pool."""
    if library.threads:
        return ThreadPoolExecutor(workers)
    context = multiprocessing.get_context("fork")  # fork, so that libraries are imported only once
    pool = ProcessPoolExecutor(workers, context, initializer=_follow, initargs=(os.getpid(),))
    pool.submit(os.getpid).result()
    return pool


def _follow(parent: int) -> None:
    """Make a worker ignore SIGINT and end with its parent, the coordinator."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def carry_out(
    pool: Executor, units: Iterable[Unit], at_once: int, release: Callable[[], None]
) -> Iterator[Done]:
    """Execute units of work in a pool, ``at_once`` at a time, and yield each as it finishes.

    An exception of a unit is raised here. Workers call ``release`` after each unit, which returns
    cached memory, so that idle workers hold none.
    """
    left = iter(units)
    going: dict[Future[Any], Unit] = {}
    while True:
        for unit in islice(left, at_once - len(going)):
            going[pool.submit(_timed, unit.work, unit.arguments, release)] = unit
        if not going:
            return
        ended, _ = wait(going, return_when=FIRST_COMPLETED)
        for future in ended:
            yield Done(going.pop(future), *future.result())


def _timed(
    work: Callable[..., int], arguments: tuple[Any, ...], release: Callable[[], None]
) -> tuple[int, int, int]:
    start_ns = monotonic_ns()
    passes = work(*arguments)
    end_ns = monotonic_ns()
    release()
    return start_ns, end_ns, passes
