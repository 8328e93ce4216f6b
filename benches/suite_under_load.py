"""Run the test suite on a busy or slow machine: beside busy loops, and with limited CPU.

``python benches/suite_under_load.py`` runs all tests three times in each environment, prints
seconds and failures, and returns 1 if a test failed. The output of make is written to
``target/suite`` as it appears; a round takes an hour. Arguments after ``--`` are passed to make::

    python benches/suite_under_load.py --times 1 -- test-python PYTEST_ARGS="-k process"

Limiting the CPU share needs root: it creates and removes a cgroup (version 2 or 1).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "suite"
CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
SUITE = ["test-rust", "test-python"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (.*)|^test (.*) \.\.\. FAILED$", re.MULTILINE)
SUMMARY = re.compile(r"^(?:=+ )?(\d+ (?:passed|failed).* in .*)", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=3, help="in each surrounding (3)")
    parser.add_argument("--loops", type=int, default=2, help="busy loops beside it (2)")
    parser.add_argument("--percent", type=int, default=40, help="of all cores, for the suite (40)")
    parser.add_argument("--only", choices=("loops", "share"), help="one of the surroundings")
    parser.add_argument("make", nargs="*", default=SUITE, help="arguments for make, behind --")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that busy loops are ended
    surroundings: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "loops": lambda: beside_loops(given.loops),
        "share": lambda: held_to(given.percent),
    }
    rounds = []
    for name, surrounding in surroundings.items():
        for turn in range(given.times if given.only in (None, name) else 0):
            with surrounding():
                log = LOGS / f"{name}-{turn + 1}.log"
                rounds.append({"surrounding": name, **run_make(given.make, log)})
            print(json.dumps(rounds[-1], indent=2), flush=True)
    failed = sum(run["exit_code"] != 0 for run in rounds)
    print(f"{failed} of {len(rounds)} rounds failed, on {os.cpu_count()} cores")
    return 1 if failed else 0


def run_make(arguments: list[str], log: Path) -> dict[str, object]:
    """Run make; return its wall and CPU seconds, failed tests and summaries."""
    begin, cpu_before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["make", "--keep-going", *arguments]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as printed:
        suite = subprocess.Popen(command, cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT)
        try:
            suite.wait()
        except BaseException:
            suite.send_signal(signal.SIGINT)
            suite.wait()
            raise
    cpu, text = resource.getrusage(resource.RUSAGE_CHILDREN), log.read_text()
    return {
        "seconds": round(time.monotonic() - begin, 1),
        "user_s": round(cpu.ru_utime - cpu_before.ru_utime, 1),
        "system_s": round(cpu.ru_stime - cpu_before.ru_stime, 1),
        "exit_code": suite.returncode,
        "failed": [python or rust for python, rust in FAILED.findall(text)],
        "sums": SUMMARY.findall(text),
    }


@contextmanager
def beside_loops(count: int) -> Iterator[None]:
    """Run ``count`` busy-looping processes."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def held_to(percent: int) -> Iterator[None]:
    """Limit this process to a percentage of the CPU time of all cores by a cgroup."""
    quota_us = PERIOD_US * percent * (os.cpu_count() or 1) // 100
    if (CGROUPS / "cgroup.controllers").exists():  # cgroup version 2
        (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
        parent, limits = CGROUPS, {"cpu.max": f"{quota_us} {PERIOD_US}"}
    else:
        parent, limits = CGROUPS / "cpu", {"cpu.cfs_quota_us": str(quota_us)}
        limits["cpu.cfs_period_us"] = str(PERIOD_US)
    group = parent / f"storlab-suite-{os.getpid()}"
    group.mkdir()
    try:
        for name, value in limits.items():
            (group / name).write_text(value)
        (group / "cgroup.procs").write_text(str(os.getpid()))  # inherited by child processes
        yield
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        group.rmdir()


if __name__ == "__main__":
    sys.exit(main())
