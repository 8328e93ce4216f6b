"""Run one preprocessing job with one engine in its own process; print the outcome as JSON.

``python benches/preprocess_run.py ENGINE`` reads a ``PreprocessJob`` from stdin.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from storlab.contracts.registry import get_engine
from storlab.workloads.preprocess.job import PreprocessJob


def main(engine: str) -> None:
    job = PreprocessJob.model_validate(json.load(sys.stdin))
    base_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with tempfile.TemporaryDirectory() as place:
        outcome = get_engine(engine).start(job, Path(place)).wait()
    if outcome is None or outcome.status != "finished":
        raise SystemExit(f"{engine} failed: {outcome and outcome.failure}")
    fields = {"stages": outcome.details["stages"], "version": outcome.engine.version}
    if engine == "native":  # native does not count the memory of this Python process
        fields["base_bytes"] = base_bytes
    json.dump(fields, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
