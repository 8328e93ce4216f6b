"""Stand-in for DLIO with its options, configuration and files, but no reads.

Started like ``dlio_benchmark``. ``STANDIN_DLIO`` selects its behaviour: ``ok``, ``fails``,
``hangs``, ``one-epoch`` (ends early), ``half`` (the second rank writes no file), ``direct`` (only
for its package: a DLIO with an O_DIRECT reader). Its steps last as long as configured; its files
are in the format of the main branch, including a bare NaN.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOAD_S, STEPS = 0.002, 3


def stamp() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"


def main() -> int:
    mode = os.environ.get("STANDIN_DLIO", "ok")
    arguments = sys.argv[1:]
    config = Path(arguments[arguments.index("--config-dir") + 1])
    name = next(a for a in arguments if a.startswith("workload=")).partition("=")[2]
    document: dict[str, Any] = json.loads((config / "workload" / f"{name}.yaml").read_text())
    hydra = os.environ.get("STANDIN_HYDRA")  # a DLIO file that asks for the model's name
    if hydra is not None:
        model = document["model"]
        for name in re.findall(r"\$\{workload\.model(\.name)?\}", Path(hydra).read_text()):
            if isinstance(model, dict) != bool(name):
                sys.stderr.write("InterpolationResolutionError: full_key: hydra.run.dir\n")
                return 1
    ranks = int(os.environ.get("STANDIN_RANKS", "1"))
    sys.stderr.write(f"[INFO] Running DLIO with {ranks} process(es)\n")
    if mode == "fails":
        sys.stderr.write("Exception: Not enough training dataset is found\n")
        return 1
    if mode == "hangs":
        Path("ready").touch()
        time.sleep(600)
    files = list((Path(document["dataset"]["data_folder"]) / "train").iterdir())
    assert len(files) == document["dataset"]["num_files_train"]
    assert not list((Path(document["dataset"]["data_folder"]) / "valid").iterdir())
    out = Path(document["output"]["folder"])
    out.mkdir()
    compute_s = document["train"]["computation_time"]
    epochs = 1 if mode == "one-epoch" else document["train"]["epochs"]
    times: dict[str, Any] = {}
    own: dict[str, Any] = {"host_memory_GB": 1.0}
    for epoch in range(1, epochs + 1):
        begin = stamp()
        time.sleep(STEPS * (LOAD_S + compute_s))
        times[str(epoch)] = {"start": begin, "block1": {"start": begin, "end": stamp()}}
        own[str(epoch)] = {
            "load": {"block1": [LOAD_S] * STEPS},
            "proc": {"block1": [LOAD_S + compute_s] * STEPS},
            "compute": {"block1": [compute_s, compute_s + 1e-4, compute_s]},
            "throughput": {"block1": float("nan")},
            "au": {"block1": float("nan")},
        }
    for rank in range(1 if mode == "half" else ranks):
        (out / f"{rank}_output.json").write_text(json.dumps(own))
        (out / f"{rank}_per_epoch_stats.json").write_text(json.dumps(times))
    metric = {"train_au_mean_percentage": float("nan")}
    summary = {"num_accelerators": ranks, "metric": metric}
    (out / "summary.json").write_text(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
