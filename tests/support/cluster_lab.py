"""Campaigns on clients as real processes, and faults injected while they run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from storlab._native import Histogram
from storlab.base.clock import monotonic_ns, sleep_s
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

PATIENCE_S = 600.0
RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
STORLAB = (sys.executable, "-m", "storlab")
_NO_REPORT = ("--no-report",)  # a brief takes more CPU time than the lab of a short campaign


def wait_for(what: str, done: Callable[[], Any], lab: Lab | None = None) -> Any:
    """Poll until ``done`` returns a true value while the campaign runs, and return that value."""
    deadline_ns = monotonic_ns() + round(PATIENCE_S * 1e9)
    while not (result := done()):
        assert lab is None or lab.process.poll() is None, f"ended before {what}: {lab.printed}"
        assert monotonic_ns() < deadline_ns, f"in vain: {what}"
        sleep_s(0.02)
    return result


def variables(pid: int) -> dict[str, str]:
    """Return the initial environment of a process."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(line.partition("=")[::2] for line in lines)
    return {}


def words(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def is_rank(pid: int) -> bool:
    command = words(pid)
    return "storlab.lab.site.rank" in command and Path(command[0]).name.startswith("python")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Record of a run, and the seconds from the fault until it was stored."""

    record: RunRecord
    after_s: float

    @property
    def message(self) -> str:
        assert self.record.failure is not None, self.record
        return self.record.failure.message


class Lab:
    """``storlab run`` or ``storlab resume`` as a process."""

    def __init__(
        self, out: Path, arguments: Sequence[str | Path], command: Sequence[str | Path] = STORLAB
    ) -> None:
        self.out = out
        self._mark = ""
        self._log = out.with_name(f"{out.name}.log")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @classmethod
    def run(
        cls,
        study: Path,
        out: Path,
        *more: str,
        command: Sequence[str | Path] = STORLAB,
        report: bool = False,
    ) -> Lab:
        return cls(out, ["run", study, "--out", out, *more, *_NO_REPORT[report:]], command)

    @classmethod
    def resume(cls, out: Path, *more: str, command: Sequence[str | Path] = STORLAB) -> Lab:
        return cls(out, ["resume", out, *more, *_NO_REPORT], command)

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def printed(self) -> str:
        return self._log.read_text(errors="replace")

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def records(self) -> list[RunRecord]:
        return ResultStore.open(self.out).records()

    def loading(self, finished: int) -> str:
        """Wait until a client measures in run ``finished`` + 1; return the task's name."""

        def look() -> str | None:
            with suppress(OSError):  # the folder is removed with the run
                for file in list((self.out / "work").glob("*/cluster/live.json")):
                    if loads(file):
                        return file.parent.parent.name
            return None

        def loads(file: Path) -> bool:
            with suppress(OSError, ValueError):
                live = json.loads(file.read_bytes())
                at_it = any(c.get("phase") == "measure" for c in live["clients"].values())
                return len(self._stored()) == finished and live["phase"] == "load" and at_it
            return False

        return str(wait_for(f"the load of run {finished + 1}", look, self))

    def fault(
        self, finished: int, do: Callable[[], object], mend: Callable[[], object] | None = None
    ) -> Recorded:
        """Inject a fault while run ``finished`` + 1 is under load, and return its record.

        ``mend`` is called once the campaign waits for a client.
        """
        name = self.loading(finished)
        begin_ns = monotonic_ns()
        do()
        place = self.out / "runs" / name / "run.json"
        if mend is not None:
            attempt = self.out / "attempts" / f"{name}.json"
            wait_for(f"the loss in {name}", lambda: attempt.exists() or place.exists(), self)
            mend()
        wait_for(f"the record of {name}", place.exists, self)
        after_s = (monotonic_ns() - begin_ns) / 1e9
        return Recorded(RunRecord.model_validate_json(place.read_bytes()), after_s)

    def _stored(self) -> list[Path]:
        return list((self.out / "runs").glob("[!.]*"))

    def ranks(self) -> dict[int, int]:
        """Return the process ids of the ranks on this machine by rank, even if the lab ended."""
        with suppress(StopIteration, KeyError, OSError):
            self._mark = variables(self.mpiexec())["STORLAB_MPI_JOB"]
        # One read per process, which may end between two reads.
        known = {pid: variables(pid) for pid in all_pids() if is_rank(pid)}
        return {
            int(environment[name]): pid
            for pid, environment in known.items()
            if environment.get("STORLAB_MPI_JOB") == self._mark
            for name in RANK_VARIABLES
            if name in environment
        }

    def mpiexec(self) -> int:
        """Return the launcher process of the current task."""
        lists = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = [int(pid) for file in lists for pid in file.read_text().split()]
        return next(pid for pid in children if "storlab.lab.site.rank" in words(pid))


def check_sum(out: Path, record: RunRecord) -> bool:
    """Check that the merged histograms equal the sum of the clients'; False if a window was cut."""
    assert record.cluster is not None
    totals = record.totals.values()
    clients = record.cluster.clients
    # Operations of intervals that not all clients share are not summed.
    assert 0 < sum(t.operations for t in totals) <= sum(c.operations for c in clients)
    for client in clients:
        assert client.by_worker is not None
        assert sum(client.by_worker.operations) == client.operations
        assert sum(client.by_worker.bytes) == client.bytes
    for total in totals:  # latencies include those of operations that ended after their window
        count = total.latency.count if total.latency else 0
        assert total.operations <= count <= total.operations + total.late_operations
    run = out / "runs" / record.run_id
    whole = pq.read_table(run / "samples.parquet").to_pylist()
    parts = pq.read_table(run / "raw" / "clients.parquet").to_pylist()
    assert {row["client"] for row in parts} == {c.name for c in clients}
    for operation in record.totals:
        merged, added = Histogram(), Histogram()
        for row in whole:
            if row["operation"] == operation:
                merged.add(Histogram.from_v2(row["latency_hist"]))
        for row in parts:
            if row["operation"] == operation and row["end_ns"] <= whole[-1]["end_ns"]:
                added.add(Histogram.from_v2(row["latency_hist"]))
        if record.cluster.window_kept == 1.0:
            assert merged.to_v2() == added.to_v2()
    return record.cluster.window_kept == 1.0


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
