"""Child program of a Dask run: submits the run's units of work to a Dask cluster.

It writes ``result.json`` after every stage. As units finish, it prints progress lines, at most four
per second.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.engines.dask import tasks
from storlab.engines.dask.cluster import Cluster, connected, limit_of, own_cpu_ns, started_here
from storlab.engines.dask.costs import DASK
from storlab.engines.dask.tasks import ClusterWorker, clear_attempts
from storlab.engines.dask.tree import Stored, Tree, tree_of
from storlab.engines.dataframe.child import Run, RunError, begin, end_at_once, guarded
from storlab.engines.dataframe.layout import CATEGORIES, COLUMNS
from storlab.engines.dataframe.units import Done, Unit
from storlab.engines.dataframe.with_pandas import PandasLibrary

_TELL_NS = NS_PER_S // 4
_LEAVES = 4  # minimum per worker
_LEAF_ROWS = 1 << 22
_TREES = "trees"


class DaskLibrary(PandasLibrary):
    """``PandasLibrary`` with the memory needs of Dask workers, which exceed those of pandas."""

    base_bytes, worker_bytes = DASK.base_bytes, DASK.worker_bytes


class ClusterMemory:
    """Peak memory of a cluster: the sum of the peaks of its workers and of this process."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.worst_bytes = 0  # highest peak of a single worker over all stages

    def start_stage(self) -> None:
        """Reset the peaks of this process and of all workers."""
        tasks.reset_peak()
        self._cluster.everywhere(tasks.reset_peak)
        self._cluster.crew.reset_peaks()

    def peak_bytes(self) -> int:
        """Return the sum of the peak memory of all processes since the stage began, in bytes."""
        self._cluster.read()
        crew = self._cluster.crew
        worst = max((member.peak_bytes for member in crew.members.values()), default=0)
        self.worst_bytes = max(self.worst_bytes, worst)
        return tasks.peak_bytes() + crew.peak_bytes()


class Progress:
    """Writer of progress lines to standard output; the parent process reads them for display."""

    def __init__(self) -> None:
        self._told_ns = 0
        self._units = 0
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count a finished unit that read ``size`` bytes, and print a line if one is due."""
        self._units += 1
        self._bytes += size
        now_ns = monotonic_ns()
        if now_ns - self._told_ns >= _TELL_NS:
            self._told_ns = now_ns
            document = {"units": self._units, "bytes": self._bytes}
            sys.stdout.write(f"{json.dumps(document)}\n")
            sys.stdout.flush()


class ClusterRun(Run):
    """Preprocessing run whose units of work are executed by a Dask cluster."""

    _worker: ClusterWorker

    def __init__(self, job: dict[str, Any], work_dir: Path) -> None:
        super().__init__(DaskLibrary(), job, work_dir, ClusterWorker)
        self._after: dict[str, list[str]] = {}
        self._spent: dict[str, list[Path]] = {}
        self._progress = Progress()

    def on(self, cluster: Cluster) -> None:
        """Run all preprocessing stages on a cluster.

        Raises:
            RunError: The cluster failed, or an input is unusable or has changed.
            OSError: A file cannot be read or written.
        """
        self._cluster = cluster
        cluster.crew.begin(cluster.everywhere(tasks.reading))
        self._own_ns = own_cpu_ns()
        if any(host != cluster.crew.here for host in cluster.crew.hosts().values()):
            self._counter = None  # It counts I/O of this machine only, not that of remote workers.
            self.result["device_counters"] = False
        memory = ClusterMemory(cluster)
        try:
            self.run_stages(memory)
        finally:
            self._tell_crew(memory)
        self.account()

    def _tell_crew(self, memory: ClusterMemory) -> None:
        own = own_cpu_ns()
        crew = self._cluster.crew
        self.result["cluster"] = {
            "scheduler": self._job.get("scheduler"),
            "worker_limit_bytes": limit_of(self._job, DASK.base_bytes),
            "worker_peak_bytes": memory.worst_bytes,
            "lost_workers": crew.lost(),
            "cores": crew.cores(),
            "own_user_ns": own[0] - self._own_ns[0],
            "own_system_ns": own[1] - self._own_ns[1],
            "workers": crew.document(),
        }

    def drop_page_cache(self, inputs: Iterable[Path]) -> None:
        """Flush the inputs and drop them from the page cache of every host."""
        self._cluster.drop_page_cache(list(inputs))

    def cpu_ns(self) -> int:
        """Return the CPU time of this process and of the workers so far, in nanoseconds.

        Each worker measures its own CPU time; this method asks the workers for it.
        """
        self._cluster.read()
        return sum(own_cpu_ns()) + sum(self._cluster.crew.used_ns())

    def carried_out(self, units: Sequence[Unit], at_once: int) -> Iterator[Done]:
        """Execute units of work on the cluster and yield each as it finishes.

        A worker runs one unit at a time, so the limit ``at_once`` is not needed and is ignored.
        """
        del at_once
        workers = int(self._job["workers"])
        for done in self._cluster.carry_out(self._worker, units, workers, self._after):
            for path in self._spent.get(done.unit.name, ()):
                path.unlink(missing_ok=True)
            self._progress.add(self._about_bytes(done.unit))
            yield done
        clear_attempts(self._directory)

    def _about_bytes(self, unit: Unit) -> int:
        """Return an estimate of the bytes that a unit reads, for the progress line.

        For a unit that reads Parquet columns, the raw input is divided evenly among all columns.
        The actual column sizes are read from the Parquet footers after the run.
        """
        raw = int(self.result["input_bytes"])
        return unit.bytes or round(raw * unit.share * len(unit.columns) / len(COLUMNS))

    def vocabulary_units(self, columns: Sequence[str]) -> Sequence[Unit]:
        """Return the units that count and merge the values of each column, as a tree of tasks."""
        place = self._directory / "vocabulary" / _TREES
        clear_trees(self._directory)
        place.mkdir()
        files = self._files()
        total = sum(rows for _, rows in files)
        wanted = -(-_LEAVES * int(self._job["workers"]) // len(CATEGORIES))
        most = min(-(-total // wanted), _LEAF_ROWS, self._worker.most_values)
        trees = {column: tree_of(place, column, files, most) for column in columns}
        leaves = [unit for column, tree in trees.items() for unit in self._leaves(column, tree)]
        rest = [unit for column, tree in trees.items() for unit in self._branches(column, tree)]
        return [*leaves, *rest]

    def _leaves(self, column: str, tree: Tree) -> Iterator[Unit]:
        total = max(1, sum(rows for leaf in tree.leaves for _, rows in leaf.files))
        for leaf in tree.leaves:
            share = sum(rows for _, rows in leaf.files) / total
            arguments = (column, leaf.files, leaf.out)
            yield Unit(leaf.out.name, self._worker.count, arguments, columns=(column,), share=share)

    def _branches(self, column: str, tree: Tree) -> Iterator[Unit]:
        for branch in tree.branches:
            self._follow(branch.out.name, branch.tallies)
            yield Unit(branch.out.name, self._worker.merge, (branch.tallies, branch.out), share=0.0)
        self._follow(column, tree.last)
        yield Unit(column, self._worker.finish, (column, tree.last), share=0.0)

    def _follow(self, name: str, tallies: Sequence[Stored]) -> None:
        self._after[name] = [tally.name for tally in tallies]
        self._spent[name] = [path for tally in tallies for path in tally.paths]


def clear_trees(directory: Path) -> None:
    """Remove the files with intermediate value counts of the vocabulary stage."""
    place = directory / "vocabulary" / _TREES
    if place.is_dir():
        for path in place.iterdir():
            path.unlink()
        place.rmdir()


def _carry_out(run: ClusterRun, job: dict[str, Any], work_dir: Path) -> None:
    limit = limit_of(job, DASK.base_bytes)
    if limit < DASK.worker_bytes:
        raise RunError(
            f"memory leaves {format_bytes_si(limit)} per worker, but Dask and pandas alone take "
            f"{format_bytes_si(DASK.worker_bytes)}",
            "increase memory, or reduce workers",
        )
    scheduler = job.get("scheduler")
    own: LocalCluster | None = None
    if scheduler is None:
        own = started_here(int(job["workers"]), limit, work_dir)
        client = Client(own)
    else:
        client = connected(scheduler)
    cluster = Cluster(client, job, limit)
    begin({name: value for name, value in job.items() if name != "scheduler"}, "dask")
    cluster.check()
    run.on(cluster)
    clear_trees(Path(job["directory"]))
    close(client, own)


def close(client: Client, own: LocalCluster | None) -> None:
    """Close the Dask client, and the cluster if storlab started it.

    The results are complete, so the timeouts are short. Workers still running end with this
    process.
    """
    with suppress(OSError):
        client.close(timeout=2)
    if own is not None:
        with suppress(OSError):
            own.close(timeout=5)


def main(order_file: str) -> int:
    """Execute the job in a JSON file on a Dask cluster and return the exit status.

    Status 1 means that the run failed; ``result.json`` holds the reason.
    """
    path = Path(order_file)
    job: dict[str, Any] = json.loads(path.read_text())["job"]
    if job["cpus"]:
        os.sched_setaffinity(0, job["cpus"])
    made: list[ClusterRun] = []

    def make() -> Run:
        made.append(ClusterRun(job, path.parent))
        return made[0]

    return guarded(path.parent, make, lambda _: _carry_out(made[0], job, path.parent))


if __name__ == "__main__":
    end_at_once(main)
