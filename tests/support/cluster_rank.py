"""Rank program for transport tests: rank 0's order names the function that all ranks run.

Rank 0 stores its results in the file named by the order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.cluster.link import ClientsSilent, Link
from storlab.cluster.order import read_order
from storlab.cluster.rank import join, live

ORDER, ANSWER, READY = 1, 2, 3
PATIENCE_NS = 60_000_000_000


def main() -> None:
    link = join()
    later = monotonic_ns() + PATIENCE_NS
    link.warm_up(later)
    order = read_order(link) if link.is_controller else None
    job = json.loads(link.broadcast(ORDER, order, later))
    answer = globals()[f"do_{job['do']}"](link, job)
    if link.is_controller:
        part = Path(job["result"] + ".part")
        part.write_text(json.dumps(answer))
        part.rename(job["result"])
    if job.get("abort"):
        link.abort()
    link.finish(monotonic_ns() + PATIENCE_NS)


def do_echo(link: Link, job: dict[str, Any]) -> Any:
    """Each client answers with its own payload, of its own length, and its host."""
    later = monotonic_ns() + PATIENCE_NS
    payload = bytes([link.rank]) * (job["bytes"] * link.rank)
    answers = link.gather(ANSWER, payload, later)
    link.barrier(later)
    again = link.gather(ANSWER, str(os.getpid()).encode(), later)
    same = {rank: bytes([rank]) * (job["bytes"] * rank) for rank in link.clients}
    pids = [int(again[rank]) for rank in sorted(again)]
    mapped = Path("/proc/self/maps").read_text().splitlines()
    files = {line.split(maxsplit=5)[-1] for line in mapped if "/dev/shm/" in line}
    left = [file for file in files if not file.endswith("(deleted)")]
    return {"same": answers == same, "pids": pids, "left": left}


def do_offsets(link: Link, job: dict[str, Any]) -> Any:
    later = monotonic_ns() + PATIENCE_NS
    hosts = link.gather(ANSWER, os.uname().nodename.encode(), later)
    if not link.is_controller:
        link.answer_offsets(later)
        return None
    return {
        hosts[rank].decode() if job.get("by_host") else rank: [o.offset_ns, o.round_trip_ns]
        for rank, o in link.measure_offsets(later).items()
    }


def do_silent(link: Link, job: dict[str, Any]) -> Any:
    """Some clients stop themselves; the gather, then the barrier, must name them."""
    if link.rank in job["stopped"]:
        os.kill(os.getpid(), signal.SIGSTOP)
    if not link.is_controller:
        link.gather(ANSWER, str(link.rank).encode(), monotonic_ns() + PATIENCE_NS)
        link.gather(READY, b"", monotonic_ns() + PATIENCE_NS)
        sleep_s(600)
    # When these have arrived, earlier answers have as well.
    link.gather(READY, None, monotonic_ns() + PATIENCE_NS, set(link.clients) - set(job["stopped"]))
    link.names = {rank: f"host{rank}" for rank in link.clients}
    answer: dict[str, Any] = {}
    begin = monotonic_ns()
    try:
        link.gather(ANSWER, None, begin + job["patience_ns"])
    except ClientsSilent as error:
        answer = {"gather": error.ranks, "text": str(error), "received": sorted(error.received)}
    answer["waited_ns"] = monotonic_ns() - begin
    try:
        link.broadcast(ORDER, b"x", monotonic_ns(), set(job["stopped"]))
    except ClientsSilent as error:
        answer["broadcast"] = error.ranks
    return answer


def do_silent_clocks(link: Link, job: dict[str, Any]) -> Any:
    """Some clients stop themselves before the clocks are measured."""
    if link.rank in job["stopped"]:
        os.kill(os.getpid(), signal.SIGSTOP)
    if not link.is_controller:
        link.answer_offsets(monotonic_ns() + PATIENCE_NS)
        sleep_s(600)
    try:
        link.measure_offsets(monotonic_ns() + job["patience_ns"])
    except ClientsSilent as error:
        return error.ranks
    return None


class Lingering:
    """Object whose finaliser runs late in interpreter shutdown, reports that, and blocks."""

    def __init__(self, told: str) -> None:
        # Objects that Python destroys earlier are gone by then.
        self._write, self._nap, self._told = Path.write_text, sleep_s, Path(told)

    def __del__(self) -> None:
        self._write(self._told, "[]")
        self._nap(600)


def do_linger(link: Link, job: dict[str, Any]) -> Any:
    """The first client fails and hangs during shutdown; the others stay."""
    pids = link.gather(READY, str(os.getpid()).encode(), monotonic_ns() + PATIENCE_NS)
    if link.is_controller:
        told = {"pids": [os.getpid(), *(int(pid) for pid in pids.values())]}
        Path(job["told"] + ".part").write_text(json.dumps(told))
        Path(job["told"] + ".part").rename(job["told"])
    if link.rank == 1:
        while not Path(job["told"]).exists():  # a failed rank ends the others
            sleep_s(0.01)
        globals()["lingering"] = Lingering(job["lingers"])
        raise RuntimeError("as a test wants it")
    sleep_s(600)


def do_sleep(link: Link, job: dict[str, Any]) -> Any:
    """Report the process ids of all ranks and stay."""
    sys.stderr.write(f"a line of rank {link.rank}\n")
    sys.stderr.flush()
    pids = link.gather(READY, str(os.getpid()).encode(), monotonic_ns() + PATIENCE_NS)
    if link.is_controller:
        told = {"pids": [os.getpid(), *(int(pid) for pid in pids.values())]}
        Path(job["told"] + ".part").write_text(json.dumps(told))
        Path(job["told"] + ".part").rename(job["told"])
    sleep_s(600)


if __name__ == "__main__":
    live(main)
