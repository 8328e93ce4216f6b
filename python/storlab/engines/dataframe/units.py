"""Units of work, and the workers that carry them out: processes, or threads of one process."""

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
    """What a worker does at once, and what it reads for it."""

    name: str
    work: Callable[..., int]  # says how many passes over its input it took
    arguments: tuple[Any, ...]
    bytes: int = 0  # of raw input
    columns: tuple[str, ...] = ()  # of Parquet files, of which it reads ``share``
    share: float = 1.0


class Done(NamedTuple):
    """A unit that a worker has carried out."""

    unit: Unit
    start_ns: int
    end_ns: int
    passes: int


def pool_of(library: Library, workers: int) -> Executor:
    """Workers that have been started."""
    if library.threads:
        return ThreadPoolExecutor(workers)
    context = multiprocessing.get_context("fork")  # so that libraries are imported once
    pool = ProcessPoolExecutor(workers, context, initializer=_follow, initargs=(os.getpid(),))
    pool.submit(os.getpid).result()
    return pool


def _follow(parent: int) -> None:
    """A worker ends with the coordinator, which alone hears of interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def carry_out(
    pool: Executor, units: Iterable[Unit], at_once: int, release: Callable[[], None]
) -> Iterator[Done]:
    """Units as they end. The first error of one is raised.

    A worker calls ``release`` after each, so that nothing is held by workers that have no other.
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
