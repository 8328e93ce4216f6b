"""Child program of a preprocessing run: executes the job with a data frame library.

``result.json`` is written after every stage; ``run.py`` turns it into an outcome.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from storlab.base.clock import monotonic_ns
from storlab.base.locks import lock_exclusive
from storlab.engines.dataframe.encode import Journal, encode_units
from storlab.engines.dataframe.layout import (
    CATEGORICAL,
    CATEGORIES,
    Part,
    clear_aside,
    feature_spec,
    fingerprint,
    flush,
    parts_of,
    prepare,
    states,
)
from storlab.engines.dataframe.library import Library
from storlab.engines.dataframe.units import Done, Unit, carry_out, pool_of
from storlab.engines.dataframe.worker import Worker, mean_row_bytes
from storlab.process.child_result import failure_of, store_result
from storlab.process.device_counter import counter_of, moved_bytes
from storlab.process.session_cpu import TICK_NS, family

_LOOK_S = 0.25  # seconds between two readings of memory
_VOCABULARY = ("values", "counts")
_SKIP = 'correct the file, or set malformed = "skip"'
_UNCHANGED = "stop whatever writes to this file, and start over in another directory"


class RunError(Exception):
    """Error that ends a preprocessing run and is reported in ``result.json``."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.failure = {"message": message, "fix": fix}


class Memory(Protocol):
    """Interface that measures the peak memory of a run's processes in each stage."""

    def start_stage(self) -> None:
        """Reset the peak, at the start of a stage."""
        ...

    def peak_bytes(self) -> int:
        """Return the peak since the stage began, in bytes."""
        ...


class MemoryWatch(threading.Thread):
    """Thread that samples the memory of this process and its workers and keeps the maximum."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()
        self._most = 0
        self.start()

    def run(self) -> None:
        """Sample memory use until ``end`` is called."""
        while not self._ended.wait(_LOOK_S):
            self._look()

    def start_stage(self) -> None:
        """Reset the peak, at the start of a stage."""
        self._most = 0

    def peak_bytes(self) -> int:
        """Return the peak since the stage began, in bytes."""
        self._look()
        return self._most

    def end(self) -> None:
        """Stop sampling memory and wait for the thread to end."""
        self._ended.set()
        self.join()

    def _look(self) -> None:
        pids = [os.getpid(), *(process.pid for process in multiprocessing.active_children())]
        self._most = max(self._most, sum(map(_resident_bytes, filter(None, pids))))


def _resident_bytes(pid: int) -> int:
    """Return the proportional set size (PSS) of a process, or its resident set size, in bytes."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


class Run:
    """Preprocessing run of three stages: ingest, vocabulary, encode.

    The content of ``result.json``, in ``result``, is updated when a stage ends.
    """

    def __init__(
        self,
        library: Library,
        job: dict[str, Any],
        work_dir: Path,
        worker: Callable[[Library, dict[str, Any], int], Worker] = Worker,
    ) -> None:
        self._worker = worker(library, job, mean_row_bytes(job["inputs"]))
        self._job = job
        self._work_dir = work_dir
        self._directory = Path(job["directory"])
        self._parts = parts_of(self._directory, job["inputs"], job["part_bytes"])
        self._inputs = states(job["inputs"])
        self._counter = counter_of(self._directory)
        self._stages: list[dict[str, Any]] = []
        self.result: dict[str, Any] = {
            "stages": self._stages,
            "events": {},
            "input_bytes": sum(part.end - part.start for part in self._parts),
            "rows": 0,
            "lines": 0,
            "malformed": {"count": 0, "by_reason": {}, "samples": []},
            "device_counters": self._counter is not None,
        }

    def run_stages(self, memory: Memory, pool: Executor | None = None) -> None:
        """Run the stages ingest, vocabulary and encode.

        Args:
            memory: Measures peak memory per stage.
            pool: Executes the work; not needed by subclasses that override ``carried_out``.

        Raises:
            RunError: An input changed, has malformed lines that the job refuses, or has no rows.
            OSError: A file cannot be read or written.
        """
        self._pool, self._memory = pool, memory
        self._ingest()
        self._vocabulary()
        self._encode()

    def carried_out(self, units: Sequence[Unit], at_once: int) -> Iterator[Done]:
        """Execute units of work, ``at_once`` at a time, and yield each as it finishes."""
        if self._pool is None:
            raise TypeError(f"{type(self).__name__} needs a pool, or must override carried_out()")
        return carry_out(self._pool, units, at_once, self._worker.library.release)

    def drop_page_cache(self, inputs: Iterable[Path]) -> None:
        """Flush the input files of a stage and drop them from the page cache."""
        flush(inputs, drop=True)

    def cpu_ns(self) -> int:
        """Return the CPU time of this process and its workers so far, in nanoseconds."""
        ticks = sum(user + system for user, system, _ in family(os.getpid()).values())
        return ticks * TICK_NS

    def vocabulary_units(self, columns: Sequence[str]) -> Sequence[Unit]:
        """Return one unit of work per column, which builds the column's vocabulary of values."""
        files = self._files()
        return [Unit(name, self._worker.vocabulary, (name, files), 0, (name,)) for name in columns]

    def _stage(
        self,
        name: str,
        units: Sequence[Unit],
        parts: tuple[int, int],
        inputs: Iterable[Path],
        at_once: int,
        journal: Journal | None = None,
    ) -> None:
        """Execute the units of a stage and start its entry in the result.

        ``_ended`` completes the entry.

        Args:
            name: The name of the stage.
            units: The units that are not finished yet.
            parts: The number of parts in the whole stage, and how many of them were already
                finished by an earlier process.
            inputs: Files to drop from the page cache, if the job asks for a cold start.
            at_once: The largest number of units in flight.
            journal: The journal of finished units, for a stage that can resume.
        """
        if self._job["cold"]:
            self.drop_page_cache(inputs)
        self._memory.start_stage()
        moved = moved_bytes(self._counter)
        cpu_ns = self.cpu_ns()
        start_ns = monotonic_ns()
        events: list[tuple[Any, ...]] = []
        passes = 1
        for done in self.carried_out(units, at_once):
            unit, latency_ns = done.unit, done.end_ns - done.start_ns
            read = (unit.bytes, unit.columns, done.passes, unit.share)
            events.append((done.end_ns, latency_ns, *read))
            passes = max(passes, done.passes)
            if journal is not None:
                journal.add(unit.name)
        self.result["events"][name] = events
        self._stages.append(
            {
                "name": name,
                "start_ns": start_ns,
                "cpu_ns": -cpu_ns,
                "device": moved,
                "parts": parts[0],
                "tasks": len(units),
                "resumed_parts": parts[1],
                "passes": passes,
                # Raw input only. account() adds Parquet input, whose size it reads from footers.
                "input_bytes": sum(unit.bytes for unit in units),
            }
        )

    def _ended(self, output: Iterable[Path], rows: int) -> None:
        """Complete the last stage's entry in the result, once its output is durable."""
        stage = self._stages[-1]
        moved, before = moved_bytes(self._counter), stage.pop("device")
        read, written = (None, None)
        if moved is not None and before is not None:
            read, written = moved[0] - before[0], moved[1] - before[1]
        stage |= {
            "end_ns": monotonic_ns(),
            "rows": rows,
            "output_bytes": sum(path.stat().st_size for path in output),
            "cpu_ns": stage["cpu_ns"] + self.cpu_ns(),
            "peak_memory_bytes": self._memory.peak_bytes(),
            "device_read_bytes": read,
            "device_written_bytes": written,
        }
        store_result(self._work_dir, self.result)

    def _ingest(self) -> None:
        places = sorted({part.parquet.parent for part in self._parts})
        for place in places:
            place.mkdir(exist_ok=True)
        left = [part for part in self._parts if not part.is_done()]
        units = [
            Unit(str(part.parquet), self._worker.ingest, (part,), part.end - part.start)
            for part in left
        ]
        inputs = [Path(source) for source in self._job["inputs"]]
        done = (len(self._parts), len(self._parts) - len(left))
        self._stage("ingest", units, done, inputs, self._worker.parts_at_once)
        flush([*places, self._directory / "parquet"])
        for before, now in zip(self._inputs, states(self._job["inputs"]), strict=True):
            if before != now:
                raise RunError(f"input {now[0]} has changed since the run began", _UNCHANGED)
        self._summaries = [json.loads(part.sidecar.read_text()) for part in self._parts]
        self.result |= {
            "rows": sum(part["rows"] for part in self._summaries),
            "lines": sum(part["lines"] for part in self._summaries),
            "malformed": _malformed(self._parts, self._summaries, self._job["malformed_samples"]),
        }
        self._ended((part.parquet for part in self._parts), self.result["rows"])
        malformed = self.result["malformed"]
        if malformed["count"] and self._job["malformed"] == "refuse":
            raise RunError(_refusal(malformed, self._parts, self._summaries), _SKIP)
        if not self.result["rows"]:
            names = ", ".join(self._job["inputs"])
            raise RunError(f"inputs: {names} have no valid rows", "name files with click logs")

    def _vocabulary(self) -> None:
        place = self._directory / "vocabulary"
        left = [name for name in CATEGORIES if not (place / f"{name}.json").exists()]
        paths = [part.parquet for part in self._parts]
        clear_aside(place)
        units = self.vocabulary_units(left)
        done = (len(CATEGORIES), len(CATEGORIES) - len(left))
        self._stage("vocabulary", units, done, paths, self._job["workers"])
        flush([place])
        files_out = (place / f"{name}.{kind}" for name in CATEGORIES for kind in _VOCABULARY)
        self._ended(files_out, self.result["rows"])
        kept = [json.loads((place / f"{name}.json").read_text())["kept"] for name in CATEGORIES]
        self.result["cardinalities"] = [size + 1 for size in kept]

    def _encode(self) -> None:
        whole, partial = self._directory / "binary", self._directory / "binary.partial"
        train = partial / "train"
        units = encode_units(self._worker, self._files(), self.result["cardinalities"], train)
        left: list[Unit] = []
        journal = None
        if not whole.exists():
            train.mkdir(parents=True, exist_ok=True)
            for name in ("label.bin", "numerical.bin", *CATEGORICAL):
                (train / name).touch()
            journal = Journal(partial / "journal", units)
            left = [unit for unit in units if unit.name not in journal.done]
        paths = [part.parquet for part in self._parts]
        vocabulary = [self._directory / "vocabulary" / f"{name}.values" for name in CATEGORIES]
        inputs = [*paths, *vocabulary]
        done = (len(units), len(units) - len(left))
        self._stage("encode", left, done, inputs, self._job["workers"], journal)
        if journal is not None:
            spec = feature_spec(self.result["cardinalities"], self._job["numerical"])
            (partial / "feature_spec.yaml").write_text(spec)
            try:
                flush([*train.iterdir(), partial / "feature_spec.yaml", train])
            finally:
                journal.remove()
            flush([partial])
            partial.replace(whole)
            flush([self._directory])
        files = (path for path in whole.rglob("*") if path.is_file())
        self._ended(files, self.result["rows"])

    def _files(self) -> list[tuple[Path, int]]:
        """Return the Parquet files, each with its number of rows."""
        summaries = zip(self._parts, self._summaries, strict=True)
        return [(part.parquet, summary["rows"]) for part, summary in summaries]

    def account(self) -> None:
        """Compute how many bytes each unit of work read, and store them in the run's events.

        This reads the footers of all Parquet files, so call it after the last measured stage.
        """
        sizes = _column_bytes(part.parquet for part in self._parts)
        events = self.result["events"]
        for kind, rows in events.items():
            events[kind] = [
                (end_ns, ns, raw + round(passes * share * sum(sizes[name] for name in columns)))
                for end_ns, ns, raw, columns, passes, share in rows
            ]
        self.result["parquet_bytes"] = sum(part.parquet.stat().st_size for part in self._parts)
        for stage in self._stages:
            stage["input_bytes"] = sum(row[2] for row in events[stage["name"]])


def _column_bytes(paths: Iterable[Path]) -> Counter[str]:
    """Return the compressed bytes of each column, summed over Parquet files."""
    import pyarrow.parquet as pq

    sizes: Counter[str] = Counter()
    for path in paths:
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                column = metadata.row_group(group).column(number)
                sizes[column.path_in_schema] += column.total_compressed_size
    return sizes


def _malformed(
    parts: Sequence[Part], summaries: Sequence[dict[str, Any]], most: int
) -> dict[str, Any]:
    """Return counts and samples of malformed lines, numbered from 1 within each input file.

    Args:
        parts: The parts of all input files.
        summaries: The counts and samples of each part.
        most: The largest number of samples to return.
    """
    reasons: Counter[str] = Counter()
    samples: list[dict[str, Any]] = []
    lines: Counter[int] = Counter()
    for part, summary in zip(parts, summaries, strict=True):
        reasons.update(summary["malformed"])
        for sample in summary["samples"]:
            line = lines[part.file] + sample["line"] + 1
            samples.append({"file": part.source, **sample, "line": line})
        lines[part.file] += summary["lines"]
    by_reason = dict(sorted(reasons.items()))
    return {"count": reasons.total(), "by_reason": by_reason, "samples": samples[:most]}


def _refusal(
    malformed: dict[str, Any], parts: Sequence[Part], summaries: Sequence[dict[str, Any]]
) -> str:
    """Return an error message with the number of malformed lines and the place of the first one.

    If no samples were kept, the message names only the file and the kinds of errors.
    """
    count, lines = malformed["count"], sum(summary["lines"] for summary in summaries)
    if malformed["samples"]:
        first = malformed["samples"][0]
        where = f"{first['file']}, line {first['line']}: {first['reason']}"
    else:
        at = next(n for n, summary in enumerate(summaries) if summary["malformed"])
        where = f"{parts[at].source}: {', '.join(sorted(summaries[at]['malformed']))}"
    return f"{count} of {lines} lines are malformed; the first is in {where}"


def _library(engine: str) -> Library:
    if engine == "pandas":
        from storlab.engines.dataframe.with_pandas import PandasLibrary

        return PandasLibrary()
    from storlab.engines.dataframe.with_polars import PolarsLibrary

    return PolarsLibrary()


def _await_others(directory: Path) -> None:
    """Lock the directory; wait until processes of an earlier, killed run have released it.

    Without the lock, two processes could write the same files.
    """
    held = os.open(directory / "parquet", os.O_RDONLY)  # never closed: inherited by forked workers
    lock_exclusive(held)


def begin(job: dict[str, Any], engine: str) -> None:
    """Prepare and lock the directory of a run.

    Raises:
        RunError: The job asks to resume, but the directory holds output of a different run.
        OSError: A file cannot be read, written or removed.
    """
    directory = Path(job["directory"])
    why = prepare(directory, fingerprint(job, engine), resume=job["resume"])
    if why is not None:
        raise RunError(why, "continue with the same study, or start over without resume")
    _await_others(directory)


def _carry_out(run: Run, library: Library, job: dict[str, Any], engine: str) -> None:
    begin(job, engine)
    pool = pool_of(library, job["workers"])
    memory = MemoryWatch()
    try:
        run.run_stages(memory, pool)
    finally:
        memory.end()
    pool.shutdown()
    run.account()


def guarded(work_dir: Path, make: Callable[[], Run], carry_out: Callable[[Run], None]) -> int:
    """Create a run, execute it and write its result. Return the exit status, 1 if it failed.

    ``result.json`` holds the reason for a failure.
    """
    result: dict[str, Any] = {}
    failure: dict[str, Any] | None = None
    try:
        run = make()
        result = run.result
        carry_out(run)
    except RunError as error:
        failure = error.failure
    except OSError as error:
        failure = failure_of(error)
    store_result(work_dir, {**result, "failure": failure})
    return 0 if failure is None else 1


def main(order_file: str) -> int:
    """Execute the job in a JSON file and return the exit status.

    Status 1 means that the run failed; ``result.json`` holds the reason.
    """
    path = Path(order_file)
    order: dict[str, Any] = json.loads(path.read_text())
    job = order["job"]
    if job["cpus"]:
        os.sched_setaffinity(0, job["cpus"])
    library = _library(order["engine"])
    if library.threads:  # the library's threads and the workers share one core per worker
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job["workers"]])
    return guarded(
        path.parent,
        lambda: Run(library, job, path.parent),
        lambda run: _carry_out(run, library, job, order["engine"]),
    )


def _abort(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback and exit at once; worker processes end with this process."""
    sys.__excepthook__(kind, error, trace)
    sys.stderr.flush()
    os._exit(1)


def end_at_once(main: Callable[[str], int]) -> None:
    """Run ``main`` and exit without waiting for workers that are still busy after a failure."""
    sys.excepthook = _abort
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    end_at_once(main)
