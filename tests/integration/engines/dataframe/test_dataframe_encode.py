"""Encoding by pandas and Polars: killed at any moment, and with little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storlab.base.clock import sleep_s
from storlab.workloads.preprocess.job import PreprocessJob
from support.preprocess_runs import assert_as_expected, clicks, expected_of, order, outcome_of

ENGINES = ("pandas", "polars")


def entries(job: PreprocessJob) -> list[str]:
    """Return the finished units in the journal."""
    journal = Path(job.directory) / "binary.partial" / "journal"
    if not journal.exists():
        return []
    lines = journal.read_bytes().decode().split("\n")[1:]
    return [line for line in lines if line.endswith(";")]


def killed_in_encode(engine: str, job: PreprocessJob, work: Path, units: int) -> list[str]:
    """Kill the program after this many units; return the journal's content."""
    work.mkdir()
    order_file = work / "order.json"
    order_file.write_text(json.dumps({"engine": engine, "job": job.model_dump(mode="json")}))
    Path(job.directory).mkdir(exist_ok=True)
    command = [sys.executable, "-m", "storlab.engines.dataframe.child", str(order_file)]
    with subprocess.Popen(command, cwd=work) as process:
        while len(entries(job)) < units and process.poll() is None:
            sleep_s(0.002)
        process.kill()
    return entries(job)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_encoding_goes_on_after_its_last_unit(
    tmp_path: Path, engine: str, workers: int
) -> None:
    paths = [clicks(tmp_path, "day_0", 900, seed=1)]
    job = order(paths, tmp_path / "run", workers=workers, threshold=0, resume=True)
    first = killed_in_encode(engine, job, tmp_path / "first", units=2)
    second = killed_in_encode(engine, job, tmp_path / "second", units=len(first) + 2)
    outcome = outcome_of(engine, job, tmp_path / "third")
    assert_as_expected(outcome, job, expected_of(job))
    encode = outcome.details["stages"][2]
    assert encode["parts"] == 27
    assert second[: len(first)] == first
    assert len(set(second)) == len(second) == encode["resumed_parts"] >= 4
    assert outcome.details["resumed_parts"] >= encode["resumed_parts"]
    assert outcome.totals["encode"].operations == encode["parts"] - encode["resumed_parts"]


@pytest.mark.parametrize("engine", ENGINES)
def test_other_units_begin_the_encoding_anew(tmp_path: Path, engine: str) -> None:
    paths = [clicks(tmp_path, "day_0", 900, seed=1)]
    job = order(paths, tmp_path / "run", threshold=0, resume=True)
    assert killed_in_encode(engine, job, tmp_path / "first", units=2)
    more = job.model_copy(update={"workers": 8})  # takes half of the rows at a time
    outcome = outcome_of(engine, more, tmp_path / "second")
    assert_as_expected(outcome, more, expected_of(job))
    encode = outcome.details["stages"][2]
    assert (encode["parts"] > 27, encode["resumed_parts"]) == (True, 0)


def many_values(place: Path, rows: int) -> Path:
    """Return a click log with two columns of distinct values, and one with few values."""

    def line(row: int) -> str:
        own = [f"{(row * 2_654_435_761 + c) % 2**32:08x}" for c in range(2)]
        return "\t".join(["1", *["5"] * 13, *own, f"{row % 300:08x}"]) + "\t" * 23

    path = place / "day_0"
    path.write_text("\n".join(line(row) for row in range(rows)))
    return path


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_little_memory_takes_more_passes_and_gives_the_same(
    tmp_path: Path, engine: str, workers: int
) -> None:
    small: dict[str, Any] = {"threshold": 0, "memory_bytes": 1, "part_bytes": 1 << 16}
    job = order([many_values(tmp_path, 9000)], tmp_path / "run", workers=workers, **small)
    outcome = outcome_of(engine, job, tmp_path / "work")
    assert_as_expected(outcome, job, expected_of(job))
    passes = [stage["passes"] for stage in outcome.details["stages"]]
    assert passes[0] == 1
    assert passes[1] > 2
    assert passes[2] == 3  # 4,096 ids at a time
    read = outcome.details["stages"][2]["input_bytes"]
    assert read > outcome.details["parquet_bytes"]  # some columns are read three times


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_killed_vocabulary_left_is_cleared(tmp_path: Path, engine: str) -> None:
    job = order([clicks(tmp_path, "day_0", 100)], tmp_path / "run")
    assert outcome_of(engine, job, tmp_path / "first").failure is None
    run = tmp_path / "run"
    (run / "binary").rename(run / "binary.partial")
    (run / "vocabulary" / "C3.json").unlink()
    (run / "vocabulary" / "C3.run-7.values.partial").write_bytes(b"half")
    again = job.model_copy(update={"resume": True})
    outcome = outcome_of(engine, again, tmp_path / "second")
    assert_as_expected(outcome, again, expected_of(job))
