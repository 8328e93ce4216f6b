"""Failed attempts of repeated runs: shown by ``status`` and named in the brief."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.brief.caveats import MOST_REPEATED, caveats
from storlab.cli.documents import StatusDocument
from storlab.cli.main import main
from storlab.model.result import Attempt, Failure, RunRecord
from storlab.results.store import ResultStore
from support.large_campaign import large_campaign

FAILURE = Failure(message="the device answered with EIO")


def attempt(number: int) -> Attempt:
    return Attempt(started_at=f"2026-11-20T09:00:0{number}+00:00", failure=FAILURE)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return large_campaign(tmp_path / "r", runs=8, repeats=2, draw=random.Random(1))


def repeat(store: ResultStore, record: RunRecord, failures: int) -> None:
    """Repeat a run that failed this many times."""
    shutil.rmtree(store.run_dir(record.run_id))
    for number in range(failures):
        store.add_attempt(record.run_id, attempt(number))
    store.write_run(record, [], {})


def status(store: ResultStore, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", str(store.directory), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    StatusDocument.model_validate(told)
    return told


def test_status_shows_failed_attempts(
    store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(store, capsys)["repeated"] == []
    first, second, third = store.records()[:3]
    repeat(store, first, 2)
    repeat(store, second, 1)
    shutil.rmtree(store.run_dir(third.run_id))  # its repeat is still missing
    store.add_attempt(third.run_id, attempt(0))
    told = status(store, capsys)["repeated"]
    assert [(run["run_id"], len(run["attempts"])) for run in told] == [
        (first.run_id, 2), (second.run_id, 1), (third.run_id, 1),
    ]  # fmt: skip
    assert main(["status", str(store.directory)]) == 0
    printed = capsys.readouterr().out
    assert all(record.run_id in printed for record in (first, second, third))
    assert FAILURE.message in printed


def test_the_brief_names_runs_that_failed_before(store: ResultStore) -> None:
    def named() -> list[str]:
        texts = caveats(compare(load_dataset([store])))
        return [text for text in texts if FAILURE.message in text]

    assert named() == []
    records = store.records()[: MOST_REPEATED + 2]
    for record in records:
        repeat(store, record, 1)
    (text,) = named()
    assert sum(record.run_id in text for record in records) == MOST_REPEATED
