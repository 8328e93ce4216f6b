"""The fio process: time limits, and the kept output."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from storlab.base.units import NS_PER_S
from storlab.engines.fio import result as fio_result
from storlab.engines.fio import run as fio_run
from storlab.engines.fio.run import FioRun
from storlab.model.job import Member, WeightedSize
from storlab.model.result import EngineInfo, RunOutcome
from storlab.process.child import Launch
from storlab.workloads.block.job import BlockJob, Mix, Offsets, Sync

GOLDEN = Path(__file__).parents[3] / "golden" / "fio"
WAIT_S = 60


def job(**changes: Any) -> BlockJob:
    fields: dict[str, Any] = {
        "members": [Member(path="/data/a", name="a", kind="file", size=64 << 30)],
        "jobs": 1,
        "queue_depth": 1,
        "direct": False,
        "mix": Mix(read=0, write=100),
        "block_sizes": [WeightedSize(bytes=1 << 20)],
        "offsets": Offsets(kind="uniform"),
        "window_ns": 60 * NS_PER_S,
        "sync": Sync(kind="fsync", final=True),
    }
    return BlockJob(**{**fields, **changes})


def ended(tmp_path: Path, made: BlockJob) -> tuple[FioRun, RunOutcome]:
    """Run a program that prints a file's content, like fio."""
    for name in ("job.fio", "printed"):
        (tmp_path / name).touch()
    launch = Launch(name="fio", command=["cat", "printed"], environment={}, work_dir=tmp_path)
    run = FioRun(made, launch, EngineInfo(name="fio", version="3.33"))
    outcome = run.wait(WAIT_S)
    assert outcome is not None
    return run, outcome


def documents(count: int) -> list[str]:
    """Return status documents, a second apart; the last is the result."""
    text = (GOLDEN / "status-3.42.txt").read_text()
    document = fio_result.split_output(text).documents[-1]
    read = document["jobs"][0]["read"]
    bins = read["lat_ns"]["bins"]
    texts = []
    for number in range(1, count + 1):
        document["timestamp_ms"] += 1000
        read["runtime"] = number * 1000
        read["lat_ns"] |= {"N": number * sum(bins.values())}
        read["lat_ns"]["bins"] = {middle: number * n for middle, n in bins.items()}
        texts.append(json.dumps(document, indent=2) + "\n")
    return texts


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"sync": Sync()}, True),
        ({"direct": True}, True),  # nothing of it is in memory
        ({"members": [Member(path="/data/a", name="a", kind="file", size=1 << 20)]}, True),
    ],
)
def test_a_final_sync_may_take_what_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], expected: bool
) -> None:
    """Check that a final sync may take as long as memory on a disk of 5 MB/s."""
    monkeypatch.setattr(fio_run, "most_dirty_bytes", lambda: 4 << 30, raising=False)
    run, _ = ended(tmp_path, job(**changes))
    now_ns = run.started_ns + 300 * NS_PER_S
    monkeypatch.setattr(fio_run, "monotonic_ns", lambda: now_ns)
    assert run.overdue() == expected


def test_a_long_run_takes_less_memory_than_what_fio_prints(tmp_path: Path) -> None:
    """Check that fio's documents are kept compressed and read one by one."""
    printed = "".join(documents(300))
    (tmp_path / "printed").write_text(printed)
    tracemalloc.start()
    try:
        _, outcome = ended(tmp_path, job(interval_ns=NS_PER_S, sync=Sync()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.status == "finished"
    assert len(outcome.samples) == 300
    assert peak < len(printed)


def test_what_fio_prints_is_kept_whole(tmp_path: Path) -> None:
    first, *others = documents(3)
    printed = "".join(["fio: a note\n", first, "another one\n", *others])
    (tmp_path / "printed").write_text(printed)
    _, outcome = ended(tmp_path, job(sync=Sync()))
    assert gzip.decompress(outcome.raw["fio-output.txt.gz"]).decode() == printed
    assert outcome.raw["fio.json"].decode() == others[-1]
    assert outcome.notes[:2] == ["fio: fio: a note", "fio: another one"]
    assert [s.operations for s in outcome.samples] == [outcome.samples[0].operations] * 3


@pytest.mark.parametrize("damage", ["cut short", "in the middle", "none at all"])
def test_output_that_cannot_be_read_is_kept_as_it_is(tmp_path: Path, damage: str) -> None:
    first, second, third = documents(3)
    cut = second[: len(second) // 2].rpartition("\n")[0] + "\n"
    printed = {"cut short": first + cut, "in the middle": first + cut + third}.get(damage, "a note")
    (tmp_path / "printed").write_text(printed)
    _, outcome = ended(tmp_path, job(sync=Sync()))
    assert outcome.failure is not None
    assert "cannot be read" in outcome.failure.message
    assert outcome.raw["fio-output.txt"].decode() == printed
