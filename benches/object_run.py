"""Run one object job with one engine in its own process; print the outcome as JSON.

``python benches/object_run.py ENGINE`` reads {"job": ..., "secrets": ...} from stdin, so that keys
never appear in arguments. CPU time is that of this process (native) or of the tool (warp) within
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
