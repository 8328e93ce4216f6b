"""One object job by one engine, in a process of its own; prints what it did as JSON.

``python benches/object_run.py ENGINE`` with {"job": ..., "secrets": ...} on stdin: keys are in no
argument. The CPU time in the outcome is that of this process (native) or of the tool (warp), inside
the measure window.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from storlab.contracts.registry import get_engine
from storlab.model.s3 import Credentials
from storlab.workloads.object.job import ObjectJob


def main(engine: str) -> None:
    """Carry out the order on stdin."""
    order = json.load(sys.stdin)
    job = ObjectJob.model_validate(order["job"])
    store = job.store.model_copy(update={"credentials": Credentials(**order["secrets"])})
    job = job.model_copy(update={"store": store})
    with tempfile.TemporaryDirectory() as place:
        outcome = get_engine(engine).start(job, Path(place)).wait()
    if outcome is None or outcome.status != "finished" or outcome.cpu is None:
        raise SystemExit(f"{engine} failed: {outcome and outcome.failure}")
    json.dump(
        {
            "window_ns": outcome.window_end_ns - outcome.window_start_ns,
            "user_ns": outcome.cpu.user_ns,
            "system_ns": outcome.cpu.system_ns,
            "totals": {name: total.model_dump() for name, total in outcome.totals.items()},
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1])
