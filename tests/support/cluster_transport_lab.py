"""Lab on its own host: starts ranks on other hosts, prints rank 0's results, ends them.

Its argument is JSON: mpiexec, agent, interface, hosts, the order (see ``cluster_rank``), and the
file to wait for. A line on standard input makes it end and print the outcome.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.cluster.launch import start
from storlab.cluster.mpiexec import Ranks, find_launcher

RANK = Path(__file__).with_name("cluster_rank.py")


def main() -> None:
    asked = json.loads(sys.argv[1])
    ranks = Ranks(
        asked["hosts"], len(asked["hosts"]), agent=asked["agent"], interface=asked["interface"]
    )
    with tempfile.TemporaryDirectory() as place:
        files = {name: str(Path(place) / name) for name in ("result", "told")}
        order = json.dumps(files | asked["order"]).encode()
        program = [sys.executable, str(RANK)]
        job = start(find_launcher(asked["mpiexec"]), ranks, program, order)
        stored = Path(files[asked["wait_for"]])
        while not stored.exists() and job.poll() is None:
            sleep_s(0.01)
        tell(stored.read_text() if stored.exists() else "null")
        sys.stdin.readline()
        job.wait(asked["wait_s"])
        begun = monotonic_ns()
        code = job.end(asked["grace_s"])
        took_s = (monotonic_ns() - begun) / 1e9
    tell(json.dumps({"code": code, "end_s": took_s, "printed": job.printed}))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
