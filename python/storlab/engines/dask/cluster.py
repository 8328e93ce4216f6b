"""Dask cluster of a run: one started on this machine, or an existing one.

Every wait has a timeout: a run fails if the cluster stops answering or has no worker left.
"""

from __future__ import annotations

import os
import queue
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future, LocalCluster, wait
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker
from distributed.security import Security

from storlab import __version__
from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.engines.dask import tasks
from storlab.engines.dask.cluster_workers import WorkerSet
from storlab.engines.dask.tasks import ClusterWorker, Result
from storlab.engines.dataframe.child import RunError
from storlab.engines.dataframe.units import Done, Unit

CONNECT_S = 20
"""Seconds to wait for a scheduler to answer and for its workers to appear."""
LOST_S = 300
"""Seconds without any worker, or without an answer from the scheduler, until a run fails."""
_LOOK_S = 1.0
_NONCE = "nonce.partial"  # a resumed run removes it
_CONFIG = {
    # Only running units use memory, because their results are a few numbers. So Dask would free
    # nothing by spilling data to disk or by pausing workers.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 1.0,
    "distributed.scheduler.worker-ttl": f"{LOST_S}s",
    # LocalCluster gives up a restarting worker after this time. Dask's default of 15 s is too
    # short: on a busy machine the restart takes longer.
    "distributed.deploy.lost-worker-timeout": f"{LOST_S}s",
    "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": 1,
    "distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": 1,
}
_SAME_STORLAB = "install the same version of storlab[scale] on all machines of the cluster"


def started_here(workers: int, limit_bytes: int, work_dir: Path) -> LocalCluster:
    """Start a local cluster of single-threaded worker processes, with TLS on loopback.

    The certificates are temporary, so other processes on this machine cannot connect.
    """
    dask.config.set(_CONFIG)
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=limit_bytes,
        security=Security.temporary(),
        protocol="tls://",
        host="127.0.0.1",
        dashboard_address=None,
        local_directory=str(work_dir),
    )


def connected(address: str) -> Client:
    """Connect to an existing Dask scheduler.

    The connection is made in a thread, because Dask waits for ever if the address accepts
    connections but does not answer.

    Raises:
        RunError: No scheduler answers at the address in time.
    """
    answers: queue.SimpleQueue[Client | BaseException] = queue.SimpleQueue()

    def connect() -> None:
        try:
            answers.put(Client(address, timeout=CONNECT_S))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            answers.put(error)

    threading.Thread(target=connect, name="connect", daemon=True).start()
    try:
        client = answers.get(timeout=2 * CONNECT_S)
    except queue.Empty:
        client = TimeoutError(f"no response for {2 * CONNECT_S} s")
    if isinstance(client, BaseException):
        raise RunError(
            f"no Dask scheduler answers at {address}: {_words(client)}",
            "correct the field scheduler, or start one there with `dask scheduler`; for a tls:// "
            "address, name the certificates in Dask's own configuration",
        ) from client
    return client


class Cluster:
    """Dask cluster that executes units of work and tracks its workers' CPU and memory use."""

    def __init__(self, client: Client, job: Mapping[str, Any], limit_bytes: int) -> None:
        """Wait until the cluster has enough worker threads.

        Raises:
            RunError: The workers do not appear in time.
        """
        self._client = client
        self._local = job.get("scheduler") is None
        self._name = "the local cluster" if self._local else f"the scheduler {job['scheduler']}"
        self._workers = int(job["workers"])
        self._limit_bytes = limit_bytes
        self._directory = Path(job["directory"])
        self.crew = WorkerSet(tasks.host())
        self._answered_ns = self._manned_ns = self._looked_ns = monotonic_ns()
        self._await_workers()

    def check(self) -> None:
        """Check that every worker can take part in the run, and register it.

        A worker needs the same storlab version, access to the shared directory, and enough memory
        per unit.

        Raises:
            RunError: A worker fails one of these checks; the message names the worker.
        """
        for address, why in self.everywhere(_probe()).items():
            if why is not None:
                raise RunError(f"worker {address} cannot import storlab: {why}", _SAME_STORLAB)
        nonce, text = self._directory / "vocabulary" / _NONCE, uuid.uuid4().hex
        nonce.write_text(text)
        try:
            for address, worker in self.everywhere(tasks.about, str(nonce)).items():
                where = f"worker {address} on {worker['host'].split()[0]}"
                self._check_worker(where, worker, text)
                self.crew.add(address, worker)
        finally:
            nonce.unlink(missing_ok=True)

    def _check_worker(self, where: str, worker: Mapping[str, Any], text: str) -> None:
        if worker["storlab"] != __version__:
            raise RunError(
                f"{where} has storlab {worker['storlab']}, but this machine has {__version__}",
                _SAME_STORLAB,
            )
        if worker["nonce"] != text:
            raise RunError(
                f"{where} does not see this machine's files in {self._directory}",
                "mount the shared file system at this path on all machines of the cluster",
            )
        limit = worker["memory_limit_bytes"]
        if limit is not None and limit // worker["threads"] < self._limit_bytes:
            raise RunError(
                f"{where} has a memory limit of {format_bytes_si(limit)} for {worker['threads']} "
                f"threads, but each thread needs up to {format_bytes_si(self._limit_bytes)}",
                "start this worker with more memory or fewer threads, or reduce the field memory",
            )

    def _await_workers(self) -> None:
        end_ns = monotonic_ns() + CONNECT_S * NS_PER_S * (3 if self._local else 1)
        while (slots := sum((self._threads() or {}).values())) < self._workers:
            if monotonic_ns() > end_ns:
                raise RunError(
                    f"{self._name} has {slots} worker threads, but the study asks for "
                    f"{self._workers} workers",
                    "start more workers there, or reduce the field workers",
                )
            with suppress(TimeoutError):
                self._client.wait_for_workers(self._workers, timeout=_LOOK_S)

    def _threads(self) -> dict[str, int] | None:
        """Return each worker's number of threads by address, or None if no answer came.

        Raises:
            RunError: The scheduler has not answered for ``LOST_S`` seconds.
        """
        try:
            scheduler: Any = self._client.scheduler
            threads: dict[str, int] = self._client.sync(
                scheduler.ncores, callback_timeout=CONNECT_S
            )
        except (OSError, AttributeError) as error:
            if monotonic_ns() - self._answered_ns > LOST_S * NS_PER_S:
                raise self._silent(error) from error
            return None
        self._answered_ns = monotonic_ns()
        return threads

    def _silent(self, error: BaseException) -> RunError:
        return RunError(
            f"{self._name} no longer answers: {_words(error)}",
            "read the scheduler's log; if the study has resume = true, storlab resume continues",
        )

    def everywhere(
        self, task: Callable[..., Any], *arguments: Any, workers: list[str] | None = None
    ) -> dict[str, Any]:
        """Call a function on connected Dask workers and return the results by address.

        Args:
            task: The function, from module ``tasks``.
            arguments: Arguments of the function.
            workers: Addresses of the workers; None for all.

        Raises:
            RunError: The scheduler does not answer, or the function fails on a worker.
        """
        try:
            answers: dict[str, Any] = self._client.run(
                task, *arguments, workers=workers, on_error="return"
            )
        except (TimeoutError, CommClosedError, CancelledError) as error:
            raise self._silent(error) from error
        for address, value in list(answers.items()):
            if isinstance(value, OSError):  # the connection to the worker was lost during the call
                answers.pop(address)
            elif isinstance(value, BaseException):
                what = f"worker {address} cannot execute {task.__name__}: {_words(value)}"
                raise RunError(what, _SAME_STORLAB)
        return answers

    def read(self) -> None:
        """Ask every worker for its CPU and memory use and record the answers."""
        threads = self._threads()
        if threads is not None:
            self.crew.lose(set(threads))
        for reading in self.everywhere(tasks.reading).values():
            self.crew.tell(reading)

    def drop_page_cache(self, paths: Sequence[Path]) -> None:
        """Flush files and drop them from the page cache, on this host and on each worker's host."""
        tasks.drop_page_cache(paths)
        by_host = {host: address for address, host in self.crew.hosts().items()}
        others = [address for host, address in by_host.items() if host != self.crew.here]
        if others:
            self.everywhere(tasks.drop_page_cache, list(paths), workers=others)

    def carry_out(
        self,
        worker: ClusterWorker,
        units: Iterable[Unit],
        at_once: int,
        after: Mapping[str, Sequence[str]],
    ) -> Iterator[Done]:
        """Execute units of work on the cluster and yield each as it finishes.

        Args:
            worker: The settings that all units share.
            units: The units, in the order in which they should start.
            at_once: The largest number of units in flight.
            after: Dependencies: by unit name, the names of units that must finish first.
        """
        waiting = deque(units)
        names = {unit.name for unit in waiting}
        left = {unit.name: names.intersection(after.get(unit.name, ())) for unit in waiting}
        going: dict[Future[Any], Unit] = {}
        while waiting or going:
            for unit in _ready(waiting, left, at_once - len(going)):
                key = f"{unit.work.__name__}-{uuid.uuid4().hex}"
                future = self._client.submit(tasks.carry_out, worker, unit, key=key, pure=False)
                going[future] = unit
            for future in self._ended(going):
                unit = going.pop(future)
                result = self._result(future, unit)
                for others in left.values():
                    others.discard(unit.name)
                end_ns = monotonic_ns()  # clocks of hosts differ: only durations can be used
                yield Done(unit, end_ns - result.latency_ns, end_ns, result.passes)

    def _ended(self, going: Mapping[Future[Any], Unit]) -> list[Future[Any]]:
        while True:
            if monotonic_ns() - self._looked_ns > _LOOK_S * NS_PER_S:
                self._look()
            try:
                waited = wait(list(going), timeout=_LOOK_S, return_when="FIRST_COMPLETED")
            except TimeoutError:
                continue
            except CancelledError as error:
                raise self._silent(error) from error
            self._manned_ns = self._answered_ns = monotonic_ns()
            return list(waited.done)

    def _look(self) -> None:
        """Check that workers are still connected, and run ``check`` if new ones have joined.

        Raises:
            RunError: No worker has been connected for ``LOST_S`` seconds, or a new worker fails
                its checks.
        """
        threads = self._threads()
        self._looked_ns = monotonic_ns()
        if threads:
            self._manned_ns = self._looked_ns
        elif self._looked_ns - self._manned_ns > LOST_S * NS_PER_S:
            raise RunError(
                f"{self._name} has had no worker for {LOST_S} s",
                "start workers there; raw/stderr.txt and the workers' logs show why they ended",
            )
        if threads is not None:
            self.crew.lose(set(threads))
            if not threads.keys() <= self.crew.members.keys():
                self.check()

    def _result(self, future: Future[Any], unit: Unit) -> Result:
        try:
            result = self._gathered(future)
        except KilledWorker as error:
            raise RunError(
                f"{error.allowed_failures + 1} workers ended while they executed {unit.name}, each "
                f"limited to {format_bytes_si(self._limit_bytes)} of memory",
                "increase memory, or reduce part_size; raw/stderr.txt shows why workers ended",
            ) from error
        except (CancelledError, CommClosedError) as error:
            raise self._silent(error) from error
        except (ImportError, RuntimeError, AttributeError) as error:
            message = f"a worker cannot execute {unit.name}: {_words(error)}"
            raise RunError(message, _SAME_STORLAB) from error
        except MemoryError as error:
            message = f"a worker ran out of memory while it executed {unit.name}"
            raise RunError(message, "increase memory, or reduce part_size") from error
        self.crew.tell(result.reading, unit=True)
        return result

    def _gathered(self, future: Future[Any]) -> Result:
        """Wait for the result of a unit and return it.

        Dask executes the unit again if its worker was lost before the result was transferred.
        """
        while True:
            try:
                result: Result = future.result(timeout=_LOOK_S)
            except TimeoutError:
                if future.status == "error":  # raised by the unit, not by the wait
                    raise
                self._look()
            else:
                return result


def _probe() -> Callable[[], str | None]:
    """Return a function that tests the import of storlab and returns the error text, or None.

    The function is a closure, because Dask sends closures as code. To run a module's function, a
    worker would have to import storlab first.
    """

    def probe() -> str | None:
        try:
            import storlab.engines.dask.tasks
            import storlab.engines.dataframe.with_pandas  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    return probe


def _ready(waiting: deque[Unit], left: Mapping[str, set[str]], most: int) -> Iterator[Unit]:
    """Remove up to ``most`` units whose dependencies are finished, and yield them in order.

    Args:
        waiting: The units that have not started.
        left: By unit name, the names of its unfinished dependencies.
        most: The largest number of units to yield.
    """
    blocked: list[Unit] = []
    while waiting and most > 0:
        unit = waiting.popleft()
        if left[unit.name]:
            blocked.append(unit)
        else:
            most -= 1
            yield unit
    waiting.extendleft(reversed(blocked))


def _words(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2] or type(error).__name__


def limit_of(job: Mapping[str, Any], base_bytes: int) -> int:
    """Return the memory that each worker may use, in bytes."""
    return max(0, int(job["memory_bytes"]) - base_bytes) // int(job["workers"])


def own_cpu_ns() -> tuple[int, int]:
    """Return the user and the system CPU time of this process, in nanoseconds."""
    times = os.times()
    return round(times.user * NS_PER_S), round(times.system * NS_PER_S)
