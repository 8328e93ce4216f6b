"""Measure the cost of metering: CPU of five meters at 1 Hz, and the slowdown of a load.

The meters are real; they read files like those of sysfs and servers in another process. ``python
benches/meters.py`` prints the numbers and returns 1 if the goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from native_run import run_job
from tools import Load, job_json

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.meters import hwmon, rapl
from storlab.model.study import Target
from storlab.power.metering import Metering

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from simulators.redfish import Service, link, tree
from support.sysfs_trees import hwmon_tree, rapl_tree

GOAL_PERCENT = 1.0
SECRET = "STORLAB_BENCH_REDFISH"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of metering without load (30)")
    parser.add_argument("--rounds", type=int, default=7, help="loads with and without meters (7)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    with ExitStack() as stack:
        target = stack.enter_context(five_meters())
        percent, readings = cpu_percent(target, options.seconds)
        ratio = load_ratio(target, options.rounds)
    report = {
        "meters": len(target.meters),
        "rate_hz": 1,
        "readings": readings,
        "cpu_percent_of_one_core": round(percent, 3),
        "goal_percent": GOAL_PERCENT,
        "load_with_over_without": round(ratio, 4),
        "cores": os.cpu_count(),
    }
    print(json.dumps(report, indent=1))
    return int(percent >= GOAL_PERCENT)


@contextmanager
def five_meters() -> Iterator[Target]:
    """Provide a target with five meters of four kinds; some read files, others query a server."""
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE,
                              stdin=subprocess.PIPE, text=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        rapl_tree(root, packages=2)
        hwmon_tree(root, 0, "acpi_power_meter", "ACPI000D:00", power1_average=180_000_000)
        hwmon_tree(root, 1, "ina226", "1-0040", power1_input=9_000_000)
        rapl.ROOT = hwmon.ROOT = root
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        os.environ[SECRET] = ready["password"]
        try:
            yield Target.model_validate({"name": "null", "path": "null:", "meters": specs(ready)})
        finally:
            server.kill()
            server.communicate()


def specs(server: dict[str, str]) -> list[dict[str, Any]]:
    """Return the meters' entries of the study."""
    redfish = {"kind": "redfish", "url": server["redfish"], "user": "metering"}
    metric = {"kind": "prometheus", "url": server["exporter"], "metric": "power_watts"}
    return [
        {"kind": "rapl", "boundary": "host", "part_of": "x"},
        {"kind": "hwmon", "boundary": "host", "chip": "acpi_power_meter", "part_of": "y"},
        {"kind": "hwmon", "boundary": "host", "chip": "ina226"},
        {**redfish, "boundary": "host", "password_env": SECRET, "insecure": True},
        {**metric, "boundary": "host"},
    ]


def serve() -> int:
    """Run a Redfish service and a Prometheus exporter until the process is killed."""

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            lines = [f'other_series{{n="{n}"}} {n}' for n in range(500)]  # as many as node_exporter
            body = "\n".join([*lines, f"power_watts {180 + monotonic_ns() % 7}", ""]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    resources = tree(one={"EnvironmentMetrics": link("/Chassis/one/EnvironmentMetrics")})
    resources["/Chassis/one/EnvironmentMetrics"] = {"PowerWatts": {"Reading": 341.5}}
    service = Service(resources, "bench", None)
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    port = exporter.server_address[1]
    ready = {"redfish": service.url, "password": "bench", "exporter": f"http://localhost:{port}/"}
    print(json.dumps(ready), flush=True)
    exporter.serve_forever()
    return 0


def cpu_percent(target: Target, seconds: float) -> tuple[float, int]:
    """Return the CPU of a process that only meters, in percent of one core, and its readings."""
    with Metering([target], Path.cwd()) as metering:
        sleep_s(2)  # until connections are open and modules loaded
        before_ns, before_s = monotonic_ns(), cpu_s()
        sleep_s(seconds)
        used_s, passed_s = cpu_s() - before_s, (monotonic_ns() - before_ns) / 1e9
        meters = metering._meters[target.name]
        readings = sum(len(meter.thread.take(before_ns)) for meter in meters)
        ended = [meter.thread.ended for meter in meters if meter.thread.ended is not None]
        assert not ended, ended
    return 100 * used_s / passed_s, readings


def cpu_s() -> float:
    """Return the CPU time so far of this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in used)


def load_ratio(target: Target, rounds: int) -> float:
    """Return the median ratio of a CPU-bound load's rate with and without meters."""
    ratios = []
    for number in range(rounds):
        with_first = bool(number % 2)
        rates = {}
        for with_meters in (with_first, not with_first):
            with ExitStack() as stack:
                if with_meters:
                    stack.enter_context(Metering([target], Path.cwd()))
                    sleep_s(0.5)
                rates[with_meters] = rate()
        ratios.append(rates[True] / rates[False])
    return median(ratios)


def rate() -> float:
    """Return operations per second of a job on every core on the null backend."""
    load = Load(path="null:", size=1 << 30)
    outcome = run_job(job_json(load, seconds=3, batch=32, jobs=os.cpu_count() or 1))["outcome"]
    done = sum(totals["operations"] for totals in outcome["totals"].values())
    return float(done) * 1e9 / (outcome["window_end_ns"] - outcome["window_start_ns"])


if __name__ == "__main__":
    raise SystemExit(main())
