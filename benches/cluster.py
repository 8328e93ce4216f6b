"""Measure the goals of client clusters on this machine: goal, value, met or MISSED.

``python benches/cluster.py`` takes the start-up from ``cluster_rank.py`` (ranks of a study) and
``cluster_start.py`` (MPI and clocks only) and the merge from ``cluster_merge.py``. It runs the same
load with native and fio on several local clients in turns, then once with fio's own client mode
(which checks rates and responding hosts only), and kills or stops a client by SIGKILL and SIGSTOP.
Returns 1 if a goal is missed. All clients share the machine's cores, so other work on it affects
every figure.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster_tools import loading, ranks_of

from storlab.analysis.agreement import agreement
from storlab.base.clock import monotonic_ns, sleep_s
from storlab.engines.fio.engine import find_fio
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

HERE = Path(__file__).parent
LOST_S = 10.0
LATE_MS = 10.0
PATIENCE_S = 60.0
STUDY = """
[study]
name = "clients on this machine"
repeats = 1
ramp = "500ms"
runtime = "{seconds}s"
{mpi}
[[target]]
name = "shared"
directory = "{directory}"
size = "64MiB"
keep_data = true
[[workload]]
kind = "block"
jobs = 1
queue_depth = {depth}
block_size = "4KiB"
read_percent = 100
"""


@dataclass(frozen=True, slots=True)
class Line:
    """Result for one goal."""

    name: str
    goal: str
    value: str
    met: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=4, help="that make load (4)")
    parser.add_argument("--depth", type=int, default=16, help="I/Os in flight of each (16)")
    parser.add_argument("--seconds", type=int, default=5, help="of each window (5)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each engine (5)")
    parser.add_argument("--directory", type=Path, help="where the data go (a temporary one)")
    parser.add_argument("--mpiexec", help="the only one to measure")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="(all)")
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before")
    lines = []
    with tempfile.TemporaryDirectory(dir=asked.directory) as place:
        for part in asked.parts:
            for line in PARTS[part](asked, Path(place)):
                mark = "met" if line.met else "MISSED"
                print(f"{line.name:<46} {line.goal:>16} {line.value:>34}  {mark}", flush=True)
                lines.append(line)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores after")
    return 0 if all(line.met for line in lines) else 1


def _most(name: str, goal: float, value: float, unit: str) -> Line:
    return Line(name, f"<= {goal:g} {unit}", f"{value:.4g} {unit}", value <= goal)


def _start(asked: argparse.Namespace, place: Path) -> Iterator[Line]:
    """Measure the start of a study's clients, and the part of it that is due to MPI."""
    del place
    given = ["--mpiexec", asked.mpiexec] if asked.mpiexec else []
    report = _report("cluster_rank.py", given)
    yield _most("12 clients of a study up", 3.0, report["bring_up_s"], "s")
    yield _most("start skew as recorded, median", 2.0, report["skew_ms"], "ms")
    yield _most("first I/O late, median", LATE_MS, report["first_io_late_ms"], "ms")
    yield _most("CPU beside the load per client and s", 1.0, report["beside_cpu_ms"], "ms")
    for name, alone in _report("cluster_start.py", given).items():
        if name != "goals" and isinstance(alone, dict) and "bring_up_s" in alone:
            yield _most(f"{name} alone: 12 clients up", 3.0, alone["bring_up_s"], "s")
            yield _most(f"{name} alone: error of clocks, worst", 50.0, alone["offset_us"], "us")


def _merge(asked: argparse.Namespace, place: Path) -> Iterator[Line]:
    del asked, place
    report = _report("cluster_merge.py", [])
    built = "" if report["optimised"] else " (not optimised)"
    yield _most(f"merge of 1,000 clients x 60 s{built}", 3.0, report["seconds"], "s")
    yield _most("likewise, memory", 1000.0, report["peak_of_the_process_mb"], "MB")


def _report(script: str, given: list[str]) -> dict[str, Any]:
    words = [sys.executable, str(HERE / script), *given]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{script}: {done.stderr}")
    return dict(json.loads(done.stdout))


def _load(asked: argparse.Namespace, place: Path) -> Iterator[Line]:
    """Compare native and fio, run in turns."""
    study = _study(asked, place, asked.seconds)
    results = place / "crosscheck"
    words = ["crosscheck", str(study), "--repeats", str(asked.repeats), "--out", str(results)]
    _storlab(*words, "--reference", "fio", "--quiet")
    store = ResultStore.open(results)
    records = [record for record in store.records() if record.status == "finished"]
    for engine in ("native", "fio"):
        yield _lateness(engine, [r for r in records if r.engine.name == engine])
    (point,) = agreement(store).points
    metrics = {(m.name, m.operation): m for m in point.metrics}
    rate = metrics["iops", "all"]
    low, high = rate.ratio.low or 0.0, rate.ratio.high or float("inf")
    yield Line(
        f"sum of {asked.clients} clients over that of fio, 4 KiB reads",
        "1 in the interval",
        f"{rate.ratio.estimate:.3f} ({low:.3f} to {high:.3f})",
        low <= 1 <= high or rate.ratio.estimate > 1,
    )
    cpu = metrics["cpu_us_per_io", "all"]
    value = f"{cpu.ratio.estimate:.3f} ({cpu.native:.2f} / {cpu.reference:.2f} us)"
    yield Line("CPU per I/O of the clients over fio's", "< 1", value, cpu.ratio.estimate < 1)
    yield _client_mode(asked, place, rate.reference)


def _lateness(engine: str, records: list[RunRecord]) -> Line:
    lates = [c.first_io_late_ns for r in records if r.cluster for c in r.cluster.clients]
    known = [late / 1e6 for late in lates if late is not None]
    if not known or len(known) < len(lates):
        return Line(f"{engine}: first I/O late", "in every result", "not known", False)
    value = f"{statistics.median(known):.3g} ms, worst {max(known):.3g} ms"
    name = f"{engine}: first I/O late, median of clients"
    return Line(name, f"<= {LATE_MS:g} ms", value, statistics.median(known) <= LATE_MS)


def _client_mode(asked: argparse.Namespace, place: Path, expected: float) -> Line:
    """Measure fio --client and --server on the same files; fio does not report lost hosts."""
    ports = [_free_port() for _ in range(asked.clients)]
    jobs = {port: _job(asked, place, number) for number, port in enumerate(ports, 1)}
    with _servers(ports, place):
        words = [f"--client=ip:127.0.0.1,{port}" for port in ports]
        command = [str(find_fio()), "--output-format=json"]
        for word, port in zip(words, ports, strict=True):
            command += [word, str(jobs[port])]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=place
        )
    text = done.stdout[done.stdout.find("{") :]
    stats = json.loads(text)["client_stats"] if text else []
    answered = {int(stat["port"]) for stat in stats if stat.get("jobname") == "load"}
    rate = sum(stat["read"]["iops"] for stat in stats if stat.get("jobname") == "load")
    whole = answered == set(ports)
    value = f"{rate:,.0f} / {expected:,.0f} IOPS, {len(answered)} of {len(ports)} hosts"
    return Line("fio --client beside fio by MPI (a check)", "all hosts", value, whole)


def _job(asked: argparse.Namespace, place: Path, number: int) -> Path:
    data = place / "data" / f"client-{number}" / "job-0" / "storlab.dat"
    job = place / f"client-{number}.fio"
    job.write_text(
        f"[load]\nfilename={data}\nsize=64m\nrw=randread\nbs=4k\ndirect=1\nioengine=io_uring\n"
        f"iodepth={asked.depth}\nruntime={asked.seconds}\ntime_based=1\nnorandommap=1\n"
        "allow_file_create=0\n"
    )
    return job


@contextmanager
def _servers(ports: list[int], place: Path) -> Iterator[None]:
    quiet: Mapping[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = []
    try:
        for port in ports:
            words = [str(find_fio()), f"--server=ip:127.0.0.1,{port}"]
            running.append(subprocess.Popen(words, cwd=place, start_new_session=True, **quiet))
        for port in ports:
            _await_port(port)
        yield
    finally:
        for server in running:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _await_port(port: int) -> None:
    deadline_ns = monotonic_ns() + round(PATIENCE_S * 1e9)
    while monotonic_ns() < deadline_ns:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        sleep_s(0.05)


def _losses(asked: argparse.Namespace, place: Path) -> Iterator[Line]:
    """Measure the time from the signal to the record of the failed run, with default timeouts."""
    for name in ("SIGKILL", "SIGSTOP"):
        taken_s = _loss(asked, place, signal.Signals[name])
        yield _most(f"a client lost by {name} is recorded", LOST_S, taken_s, "s")


def _loss(asked: argparse.Namespace, place: Path, number: signal.Signals) -> float:
    study, results = _study(asked, place, 40), place / f"lost-{number.name}"
    command = [sys.executable, "-m", "storlab", "run", str(study), "--out", str(results)]
    quiet: Mapping[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "--no-report", "--quiet"], **quiet) as lab:
        lost_ns = None
        while lab.poll() is None and not _records(results):
            ranks = _loading(results, lab.pid) if lost_ns is None else []
            if ranks:
                sleep_s(1.0)
                lost_ns = monotonic_ns()
                os.kill(ranks[-1], number)
            sleep_s(0.02)
        recorded_ns = monotonic_ns()
    if lost_ns is None or not _records(results):
        raise SystemExit(f"no client could be lost by {number.name}")
    return (recorded_ns - lost_ns) / 1e9


def _records(results: Path) -> list[Path]:
    return [p for p in results.glob("runs/*/run.json") if not p.parent.name.startswith(".")]


def _loading(results: Path, lab: int) -> list[int]:
    """Return the lab's ranks, rank 0 first, once all clients are under load; else an empty list."""
    tasks = [live.parent for live in results.glob("work/**/live.json")]
    return ranks_of(lab) if any(map(loading, tasks)) else []


def _study(asked: argparse.Namespace, place: Path, seconds: int) -> Path:
    (place / "data").mkdir(exist_ok=True)
    path = place / f"study-{seconds}.toml"
    mpi = f'[cluster]\nhosts = ["localhost"]\nclients = {asked.clients}'
    if asked.mpiexec:
        mpi += f'\nmpiexec = "{asked.mpiexec}"'
    text = STUDY.format(seconds=seconds, mpi=mpi, directory=place / "data", depth=asked.depth)
    path.write_text(text)
    return path


def _storlab(*words: str) -> None:
    command = [sys.executable, "-m", "storlab", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 10, 12):
        raise SystemExit(f"storlab {words[0]} ended with {done.returncode}:\n{done.stderr}")


PARTS = {"start": _start, "merge": _merge, "load": _load, "losses": _losses}

if __name__ == "__main__":
    raise SystemExit(main())
