"""Every bench runs at its smallest scale; whether its goals are met is not checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import need_program, need_uring, need_versitygw

ROOT = Path(__file__).parents[3]
SMALLEST = {
    "block": "--rounds 1 --seconds 0.2 --size-mib 8 --directory {place} --memory {place} --json",
    "change_points": "--series 4",
    "cluster": "--clients 2 --seconds 1 --repeats 2 --parts load --directory {place}",
    "cluster_merge": "--clients 3 --seconds 1",
    "fixed": "--rounds 1 --checkpoint-mib 8 --files 10 --record-bytes 300000 --step-ms 5 "
    "--small-files 64 --directory {place} --json",
    "gpudirect": "--rounds 1 --seconds 0.1 --size-mib 8 --workers 1 --directory {place} --json",
    "history": "--directories 3 --scratch {place}",
    "live": "--rounds 2 --runs 1 --runtime 1",
    "meters": "--seconds 1 --rounds 1",
    "object": "--rounds 1 --seconds 0.5 --directory {place} --json "
    "--only get-4m,put-4k,tls-get-4m,own-put-4m",
    "preprocess": "--rounds 1 --rows 2000 --directory {place} --json",
    "scale": "--runs 10",
    "startup": "--rounds 1",
}
# Modules and tools of other benches, and the bench that runs this suite.
OTHERS = {
    "cases", "cluster_rank", "cluster_start", "cluster_tools", "gpudirect_study", "gpudirect_tools",
    "native_run", "object_run", "object_tools", "preprocess_duckdb", "preprocess_pandas",
    "preprocess_peer", "preprocess_run", "programs", "suite_under_load", "surroundings", "tools",
}  # fmt: skip


def test_every_bench_has_a_smallest_scale() -> None:
    assert {path.stem for path in (ROOT / "benches").glob("*.py")} == SMALLEST.keys() | OTHERS


@pytest.mark.parametrize("bench", SMALLEST)
def test_a_bench_runs_to_its_end(bench: str, tmp_path: Path) -> None:
    if bench in ("block", "cluster", "fixed"):
        need_program("fio")
    if bench in ("block", "fixed"):
        need_uring()
    if bench == "object":
        need_versitygw()
    words = SMALLEST[bench].format(place=tmp_path).split()
    done = subprocess.run(
        [sys.executable, ROOT / "benches" / f"{bench}.py", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode in (0, 1), done.stderr  # 1 if a goal was missed
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout
