"""The published GPU study at small scale, run by storlab's own commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpudirect_tools import KIND, Stack

SIZES = ("4KiB", "128KiB", "1MiB")
WORKERS = (1, 8)
REFERENCES = ("gdsio", "fio")
VERDICTS = {0: "agree", 10: "differ", 12: "inconclusive"}
STUDY = """\
[study]
name = "One drive feeding one GPU, in small"
repeats = {repeats}
ramp = "{ramp}s"
runtime = "{seconds}s"

[[target]]
name = "drive"
directory = {directory}
size = "{size}MiB"

[[workload]]
kind = "{kind}"
path = ["direct", "bounce", "bounce-overlapped", "host"]
block_size = {sizes}
workers = {workers}
gpu = [{gpu}]
{libraries}
# Every way to call cuFile, with writes: what arrives is compared.
[[workload]]
kind = "{kind}"
name = "calls"
path = "direct"
api = ["sync", "batch", "async"]
block_size = {largest}
read_percent = 50
register_buffers = [true, false]
workers = 4
queue_depth = 8
gpu = [{gpu}]
{libraries}"""


def study_in_small(
    out: Path,
    directory: Path,
    stack: Stack,
    *,
    gpu: int = 0,
    repeats: int = 3,
    seconds: float = 2.0,
    size_mib: int = 256,
    sizes: Sequence[str] = SIZES,
    workers: Sequence[int] = WORKERS,
) -> dict[str, Any]:
    """Run doctor, run and crosscheck for the direct path; store their output in ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    libraries = {"cuda_library": stack.cuda, "cufile_library": stack.cufile}
    text = STUDY.format(
        repeats=max(2, repeats),
        ramp=seconds / 4,
        seconds=seconds,
        directory=json.dumps(str(directory.absolute())),
        size=size_mib,
        kind=KIND,
        sizes=json.dumps(sizes),
        largest=json.dumps(sizes[-1]),
        workers=json.dumps(workers),
        gpu=gpu,
        libraries="".join(
            f"{k} = {json.dumps(str(v))}\n" for k, v in libraries.items() if v is not None
        ),
    )
    study = out / "study.toml"
    study.write_text(text, encoding="utf-8")
    verdicts: dict[str, Any] = {
        "doctor": _storlab(out, "doctor", "doctor", str(study)),
        "run": _storlab(out, "run", "run", str(study), "--out", str(out / "results"), "--quiet"),
    }
    point = f"path=direct,block_size={sizes[-1]},workers={workers[-1]}"
    for reference in REFERENCES:
        name = f"crosscheck-{reference}"
        words = ["crosscheck", str(study), "--reference", reference, "--point", point]
        words += ["--repeats", str(max(2, repeats)), "--out", str(out / name), "--quiet"]
        code = _storlab(out, name, *words)
        verdicts[name] = VERDICTS.get(code, f"not done ({code}): see {name}.txt")
    verdicts["routes"] = _routes(out / "results")
    return verdicts


def _storlab(out: Path, name: str, *words: str) -> int:
    """Run a storlab command and return its exit code."""
    with (out / f"{name}.txt").open("wb") as told:
        command = [sys.executable, "-m", "storlab", *words]
        return subprocess.run(
            command, stdout=told, stderr=subprocess.STDOUT, check=False
        ).returncode


def _routes(results: Path) -> dict[str, int]:
    """Return the bytes of all runs that requested the direct path, by the route they took."""
    sums = dict.fromkeys(("bytes", "p2p_bytes", "nvfs_bytes", "posix_bytes"), 0)
    for path in sorted(results.glob("runs/*/run.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        route = (record.get("details") or {}).get("route") or {}
        if route.get("asked") == "direct":
            for name in sums:
                sums[name] += route.get(name, 0)
    return sums
