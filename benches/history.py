"""Measure ``storlab history`` over 1,000 result directories, and again with ten new ones.

``python benches/history.py`` creates the directories (12 runs of 4 points each; takes a while),
prints wall and CPU time of the command, and returns 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

from surroundings import machine, workplace

from storlab.base.clock import monotonic_ns

ROOT = Path(__file__).resolve().parent.parent
COLD_S, WARM_S = 10.0, 2.0
NEW = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directories", type=int, default=1000)
    parser.add_argument(
        "--scratch", type=Path, default=Path("/dev/shm"), help="where they are made"
    )
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.result_histories import ResultHistory

    with workplace(given.scratch) as place:
        history = ResultHistory(place / "results")
        _make(history, range(given.directories), given.directories)
        command = [sys.executable, "-m", "storlab", "history", str(place / "results")]
        command += ["--out", str(place / "site"), "--json"]
        cold = _timed(command)
        _make(history, range(given.directories, given.directories + NEW), given.directories)
        warm = _timed(command)
        again = _timed(command)
        size = sum(path.stat().st_size for path in (place / "site").rglob("*") if path.is_file())
    report = {
        **machine(),
        "directories": given.directories,
        "cold": cold,
        f"{NEW} more": warm,
        "nothing new": again,
        "site_mb": round(size / 1e6, 1),
        "goals_s": {"cold": COLD_S, f"{NEW} more": WARM_S},
    }
    print(json.dumps(report, indent=2))
    return 1 if cold["wall_s"] > COLD_S or warm["wall_s"] > WARM_S else 0


def _make(history: object, numbers: range, whole: int) -> None:
    for number in numbers:
        late = number >= 0.6 * whole
        history.make(  # type: ignore[attr-defined]
            number, {"Disk": 0.95 if late else 1.0}, firmware="FW2" if late else "FW1"
        )


def _timed(command: list[str]) -> dict[str, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), monotonic_ns()
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    wall, after = (monotonic_ns() - start) / 1e9, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    changes = sum(len(point["changes"]) for point in told["points"])
    return {
        "wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "read": len(told["read"]),
        "changes": changes,
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
