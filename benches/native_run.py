"""Run one job with the native engine and print its outcome as JSON.

A separate program, so that it can be pinned and measured like other tools: ``benches/native_run.py
JOB_JSON [KIND]``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from storlab._native import Run
from storlab.base.clock import monotonic_ns, sleep_s


def run_job(
    job_json: str, cancel_after_s: float | None = None, kind: str = "block"
) -> dict[str, Any]:
    """Run a job; return its outcome, and the times to open the window and to stop, in ns."""
    before = monotonic_ns()
    run = Run(kind, job_json)
    stop_ns = None
    if cancel_after_s is not None:
        sleep_s(cancel_after_s)
        asked = monotonic_ns()
        run.cancel()
        run.wait()
        stop_ns = monotonic_ns() - asked
    run.wait()
    outcome, _rows = run.outcome()
    document: dict[str, Any] = json.loads(outcome)
    return {
        "outcome": document,
        "start_ns": document["window_start_ns"] - before,
        "stop_ns": stop_ns,
    }


if __name__ == "__main__":
    print(json.dumps(run_job(sys.argv[1], kind=(*sys.argv[2:], "block")[0])))
