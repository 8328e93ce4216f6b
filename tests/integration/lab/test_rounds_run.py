"""Campaigns that end when they are steady, run for real: ended, killed and resumed, reported.

Limits of any size make every target steady after five rounds, and limits of almost zero none, on
any machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.base.units import format_number
from storlab.brief.build import build_brief
from storlab.cli.main import main
from storlab.results.store import ResultStore
from support.vega import assert_vega_lite

STUDY = """
[study]
name = "rounds"
repeats = 7
ramp = 0
runtime = "60ms"
interval = "20ms"
[study.until_steady]
metric = "iops"
at = {{ block_size = "16KiB", read_percent = 0 }}
slope_percent = {limit}
excursion_percent = {limit}
[[target]]
name = "file"
path = "{place}/one.dat"
size = "4MiB"
direct = false
[[workload]]
kind = "block"
block_size = ["4KiB", "16KiB"]
read_percent = [100, 0]
"""
ALWAYS, NEVER = 1e9, 1e-12


def run(place: Path, limit: float, *options: str) -> Path:
    study = place / "study.toml"
    study.write_text(STUDY.format(place=place, limit=limit))
    out = place / "out"
    assert main(["run", str(study), "--out", str(out), "--quiet", *options]) == 0
    return out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_steady_target_ends_after_five_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, ALWAYS)
    assert "steady in rounds 1 to 5" in capsys.readouterr().err
    store = ResultStore.open(out)
    assert len(store.plan.runs) == 4 * 7
    assert sorted(r.repeat for r in store.records()) == sorted([1, 2, 3, 4, 5] * 4)
    assert store.missing() == []
    counts = document(capsys, "status", str(out))["runs"]
    assert counts == {"planned": 20, "finished": 20, "failed": 0, "missing": 0}
    compared = document(capsys, "compare", str(out))
    rounds = compared["rounds"]["file"]
    assert (rounds["first"], rounds["last"], rounds["verdict"]) == (1, 5, "steady")
    assert len(rounds["values"]) == 5
    for point in compared["points"]:
        cell = point["targets"]["file"]
        assert (cell["planned"], len(cell["runs"])) == (5, 5)
        assert "rounds-not-steady" not in {flag["kind"] for flag in cell["flags"]}
    page = (out / "brief.html").read_text()
    assert "is steady in rounds 1 to 5" in page
    assert "rounds not steady" not in page


def test_results_are_of_the_last_five_rounds_if_never_steady(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, NEVER)
    compared = document(capsys, "compare", str(out))
    rounds = compared["rounds"]["file"]
    assert (rounds["first"], rounds["last"], rounds["verdict"]) == (3, 7, "not-steady")
    assert len(ResultStore.open(out).records()) == 4 * 7  # earlier rounds are kept
    for point in compared["points"]:
        cell = point["targets"]["file"]
        assert {run_id.rpartition("-r")[2] for run_id in cell["runs"]} == set("34567")
        assert "rounds-not-steady" in {flag["kind"] for flag in cell["flags"]}
    (writes,) = (
        point
        for point in compared["points"]
        if (point["params"]["block_size"], point["params"]["read_percent"]) == (16384, 0)
    )
    mean = writes["targets"]["file"]["values"]["iops.all"]["estimate"]
    assert mean == pytest.approx(sum(rounds["values"][2:]) / 5)
    page = (out / "brief.html").read_text()
    assert "is not steady after 7\u00a0rounds" in page
    assert "rounds not steady" in page


def test_a_resumed_campaign_ends_at_the_same_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Remove the last three runs, as if the campaign had been killed before them."""
    out = run(tmp_path, ALWAYS, "--no-report")
    store = ResultStore.open(out)
    for planned in [r for r in store.plan.runs if r.repeat <= 5][-3:]:
        directory = store.run_dir(planned.run_id)
        for path in sorted(directory.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        directory.rmdir()
    assert document(capsys, "status", str(out))["runs"]["missing"] == 4 * 7 - 17
    assert main(["resume", str(out), "--quiet", "--no-report"]) == 0
    assert len(ResultStore.open(out).records()) == 20
    assert document(capsys, "resume", str(out), "--no-report")["runs"]["this_session"] == 0


def test_the_brief_has_the_matrix_of_the_window(tmp_path: Path) -> None:
    """Check the numbers of the table of sizes and mixes against means over rounds 3 to 7."""
    store = ResultStore.open(run(tmp_path, NEVER, "--no-report"))
    brief = build_brief(store, beside=store.directory)
    (section,) = (extra for extra in brief.body.extras if extra.anchor == "rounds")
    (table,) = section.tables
    assert table.head == ["block size"]
    assert [name for name, _ in table.columns] == ["writes only", "reads only"]
    for row, size in zip(table.rows, (4096, 16384), strict=True):
        for number, reads in zip(row.numbers, (0, 100), strict=True):
            values = [
                record.metric("iops") or 0.0
                for record in store.records()
                if record.repeat >= 3
                and (record.params["block_size"], record.params["read_percent"]) == (size, reads)
            ]
            assert len(values) == 5
            assert number.text == format_number(sum(values) / 5)
    ((drawing,),) = (group.drawings for group in section.groups)
    assert_vega_lite(drawing.figure.spec)
    drawn = drawing.figure.spec["datasets"]
    assert [each["round"] for each in drawn["rounds"]] == [1, 2, 3, 4, 5, 6, 7]
    assert drawn["window"] == [{"start": 2.5, "end": 7.5}]
    assert [row[2] for row in drawing.figure.rows] == ["no"] * 2 + ["yes"] * 5
