"""Read result directories into records for a history site; unchanged directories are skipped."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from storlab.base.errors import ResultError, StorlabError
from storlab.base.files import directory_problem
from storlab.history.index import Kept
from storlab.history.record import fingerprint, read_record
from storlab.process.parent_death import end_with
from storlab.results.baselines import FOLDER as BASELINES
from storlab.results.files import GIVE_RESULT, unreadable

ALONE = 64  # fewer directories are read faster by a single process
MOST_READERS = 8
_CHUNK = 16


@dataclass(frozen=True, slots=True)
class Problem:
    """Result directory that could not be read, with the error; the others are still shown."""

    directory: str
    error: StorlabError


@dataclass(slots=True)
class Reading:
    """Records of all result directories of a history site, and problems in reading them."""

    kept: dict[str, Kept] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)  # new or changed directories
    problems: list[Problem] = field(default_factory=list)


def read_all(given: Sequence[Path], known: dict[str, Kept]) -> Reading:
    """Read all result directories, except those that have not changed since the last time.

    Args:
        given: Result directories, or folders that contain them.
        known: Records of the last time, by path of the directory.
    """
    reading, wanted = Reading(), []
    for directory in _directories(given):
        name = str(directory)
        try:
            now = fingerprint(directory)
        except OSError as error:
            reading.problems.append(Problem(name, _unreadable(name, error)))
            continue
        before = known.get(name)
        if before is not None and before.fingerprint == now:
            reading.kept[name] = before
        else:
            wanted.append((name, now))
    for name, outcome in _read(wanted):
        if isinstance(outcome, Kept):
            reading.kept[name] = outcome
            reading.read.append(name)
        else:
            reading.problems.append(Problem(name, outcome))
    return reading


def _directories(given: Iterable[Path]) -> Iterator[Path]:
    """Yield each result directory once; for a folder of them, those directly in it.

    The folder of saved gate baselines is skipped without an error, because it lies beside result
    directories and a shell's wildcard matches it, too.
    """
    seen: set[Path] = set()
    for path in given:
        directory = path.resolve()
        inside = [directory]
        # Both calls treat an inaccessible path as missing; reading the directory raises the error.
        if os.path.isdir(directory) and not os.path.exists(directory / "result.json"):  # noqa: PTH110, PTH112
            results = sorted(p.parent for p in directory.glob("*/result.json"))
            inside = results or ([] if directory.name == BASELINES else inside)
        for child in inside:
            if child not in seen:
                seen.add(child)
                yield child


def _read(wanted: list[tuple[str, str]]) -> Iterator[tuple[str, Kept | StorlabError]]:
    readers = min(MOST_READERS, len(os.sched_getaffinity(0)))
    if len(wanted) < ALONE or readers < 2:
        yield from map(_kept, wanted)
        return
    context = multiprocessing.get_context("fork")  # so that libraries are imported once
    with ProcessPoolExecutor(readers, context, end_with, (os.getpid(),)) as pool:
        yield from pool.map(_kept, wanted, chunksize=_CHUNK)


def _kept(place: tuple[str, str]) -> tuple[str, Kept | StorlabError]:
    name, now = place
    try:
        record = read_record(Path(name))
    except StorlabError as error:
        return name, error
    except OSError as error:
        return name, _unreadable(name, error)
    return name, Kept(now, record["plan_hash"], json.dumps(record, ensure_ascii=False))


def _unreadable(name: str, error: OSError) -> ResultError:
    with suppress(OSError):
        if problem := directory_problem(Path(name)):
            return ResultError(name, problem, GIVE_RESULT)
    return unreadable(Path(str(error.filename or name)), error)
