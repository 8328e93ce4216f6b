"""Large campaigns: how much is read, compared and audited, counted rather than timed."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv

from storlab.analysis import contests, verdict
from storlab.analysis.compare import CellFlag, Comparison, compare
from storlab.analysis.dataset import Dataset, load_dataset
from storlab.audit import screening
from storlab.audit.from_results import audit_comparison
from storlab.audit.results_table import results_table
from storlab.audit.screening import is_odd, select, spread
from storlab.brief import selection, write_brief
from storlab.brief.build import build_brief
from storlab.brief.caveats import caveats, flag_rows
from storlab.brief.html import render_html
from storlab.brief.selection import caveat, shown
from storlab.cli.campaign import conclude
from storlab.cli.main import main
from storlab.contracts.registry import study_class
from storlab.figures import svg
from storlab.figures.figure import Figure
from storlab.lab.plan.plan import crowded_runs
from storlab.lab.run.campaign import Summary
from storlab.model.result import Flag, RunRecord
from storlab.results.files import read_checked
from storlab.results.store import ResultStore
from storlab.words.answers import document
from support.large_campaign import large_campaign, study_text


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """Provide 120 runs: 30 points on two targets, twice."""
    directory = tmp_path_factory.mktemp("large") / "out"
    return large_campaign(directory, runs=120, repeats=2, draw=random.Random(5))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of run files that are read."""
    found: list[str] = []

    def read(run_dir: Path, name: str) -> bytes:
        found.append(name)
        return read_checked(run_dir, name)

    for module in ("store", "files"):
        monkeypatch.setattr(f"storlab.results.{module}.read_checked", read)
    return found


@pytest.mark.parametrize("verb", ["status", "compare", "audit"])
def test_each_run_is_read_once_and_no_samples(
    verb: str, campaign: ResultStore, reads: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([verb, str(campaign.directory), "--json"])
    capsys.readouterr()
    assert reads == ["run.json"] * 120


def test_the_end_of_a_campaign_reads_each_run_once(
    campaign: ResultStore, reads: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(campaign, Summary(campaign.directory, 120), as_json=True, report=True)
    assert json.loads(capsys.readouterr().out)["runs"]["finished"] == 120
    assert reads.count("run.json") == 120


def test_the_end_of_a_campaign_compares_once(
    campaign: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Comparison] = []
    shown: list[Comparison] = []

    def counted(data: Dataset) -> Comparison:
        made.append(compare(data))
        return made[-1]

    for module in ("analysis.compare", "brief.build"):
        monkeypatch.setattr(f"storlab.{module}.compare", counted)
    done = Summary(campaign.directory, 120)
    conclude(campaign, done, as_json=False, report=True, tables=shown.append)
    assert len(made) == 1
    assert shown[0] is made[0]


def test_merged_histograms_of_a_record_are_those_of_its_samples(campaign: ResultStore) -> None:
    run = next(load_dataset([campaign]).all_runs())
    assert run.record.histograms["latency"].keys() == {"read", "write"}
    assert run.times == run.reduced.times
    older = run.record.model_copy(update={"histograms": {}})  # from a storlab without histograms
    before = type(run)(older, run.target, run.store)
    assert before.times == run.times


def test_the_only_repeat_gives_the_same_as_merged_histograms(campaign: ResultStore) -> None:
    comparison = compare(load_dataset([campaign]))
    row = next(iter(comparison.rows.values()))
    cell = row.cells["Disk"]
    column = comparison.column("latency_p99_ns.read")
    assert column is not None
    single = type(cell)("Disk", cell.point_id, 1, runs=cell.runs[:1])
    merged = single.merged("read")
    assert merged is not None
    assert single.percentile(column) == merged.percentile(99.0)
    assert single.count(column) == merged.count


def test_points_are_spread_from_the_first_to_the_last() -> None:
    assert spread(5, 8) == [0, 1, 2, 3, 4]
    assert spread(1000, 3) == [0, 500, 999]
    assert len(spread(10_000, 200)) == 200


def test_the_rules_for_tables_see_a_bounded_number_of_points(
    campaign: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare(load_dataset([campaign]))
    assert select(comparison).is_all
    monkeypatch.setattr(screening.select, "__defaults__", (10,))
    chosen = select(comparison)
    assert (len(chosen.points), chosen.of, chosen.suspicious) == (10, 30, 0)
    rows = [r for r in results_table(comparison, chosen.points).rows if r.is_measured]
    assert len({row.id.partition(":")[0] for row in rows}) == 2 * 10
    (note,) = [f for f in audit_comparison(comparison) if f.rule == "selection"]
    assert note.severity == "note"
    assert "30 workload points" in note.printed


@pytest.mark.parametrize("key", ["throughput_mb_s.all", "iops.all", "latency_mean_ns.read"])
def test_a_point_that_contradicts_itself_is_always_looked_at(
    key: str, campaign: ResultStore
) -> None:
    data = load_dataset([campaign])
    spoilt = data.points[17]
    for run in data.of(spoilt, "Memory"):
        run.record = with_metric(run.record, key, 20.0)
    again = compare(data)
    assert [p.key for p in again.dataset.points if is_odd(again, p)] == [spoilt.key]
    assert spoilt.key in {p.key for p in select(again, 5).points}


def with_metric(record: RunRecord, key: str, factor: float) -> RunRecord:
    """Return a record with one metric changed."""
    metrics = [
        m.model_copy(update={"value": m.value * factor}) if f"{m.name}.{m.operation}" == key else m
        for m in record.metrics
    ]
    return record.model_copy(update={"metrics": metrics})


def test_a_page_of_a_large_campaign_shows_a_selection(
    campaign: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compare(load_dataset([campaign]))
    assert shown(whole) is whole
    assert caveat(whole, whole, "x.csv") == []
    monkeypatch.setattr(selection, "LARGE", 10)
    monkeypatch.setattr(selection, "PLACES", 2)
    part = shown(whole)
    assert 0 < len(part.rows) <= selection.SECTIONS * selection.FACETS * 2
    assert {p.key for s in part.sections for p in s.points} == set(part.rows)
    assert all(run in list(whole.dataset.all_runs()) for run in part.dataset.all_runs())
    for key, row in part.rows.items():
        assert row is whole.rows[key]  # the same object, not recomputed
    (sentence,) = caveat(whole, part, "x.csv")
    assert "30\u00a0workload points" in sentence
    assert f"shows {len(part.rows)} of them" in sentence


def test_every_point_of_a_large_campaign_is_in_a_table_beside_its_page(
    campaign: ResultStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(selection, "LARGE", 10)
    monkeypatch.setattr(selection, "PLACES", 2)
    drawn: list[str] = []

    def render(figure: Figure) -> str:
        drawn.append(figure.name)
        return svg.render(figure)

    monkeypatch.setattr("storlab.brief.build.render", render)
    page = write_brief(campaign, out=tmp_path / "large.html", pdf=False)
    assert 0 < len(drawn) <= 40
    assert page.stat().st_size < 10_000_000
    table = csv.read_csv(tmp_path / "large-points.csv")
    assert table.num_rows == 60
    assert set(table["point_id"].to_pylist()) == set(campaign.plan.points)
    assert table["runs"].to_pylist() == [2] * 60
    comparison = compare(load_dataset([campaign]))
    cell = next(iter(comparison.rows.values())).cells["Disk"]
    row = table.to_pylist()[table["point_id"].to_pylist().index(cell.point_id)]
    value = cell.values["throughput_mb_s.all"]
    assert row["throughput_mb_s.all"] == pytest.approx(value.estimate)
    assert row["throughput_mb_s.all:low"] == pytest.approx(value.low)
    assert "large-points.csv" in page.read_text("utf-8")


def test_all_that_a_page_of_a_selection_links_to_is_on_it(
    campaign: ResultStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Check that all links of a page stay on it, although answers cover all points."""
    monkeypatch.setattr(selection, "LARGE", 10)
    monkeypatch.setattr(selection, "PLACES", 2)
    whole = compare(load_dataset([campaign]))
    brief = build_brief(campaign, beside=tmp_path)
    rows = [row for table in brief.findings.tables for row in table.rows]
    linked = {point for row in rows for _, point in row.values}
    part = {c.point_id for row in shown(whole).rows.values() for c in row.cells.values()}
    assert linked - part, "a selection without the points that answers lead to"
    page = render_html(brief, "figures/")
    anchors = set(re.findall(r' id="([^"]+)"', page))
    assert set(re.findall(r' href="#([^"]+)"', page)) <= anchors
    assert {f"point-{point}" for point in linked} <= anchors
    assert brief.data["verdicts"] == [document(each) for each in verdict.verdicts(whole)]
    named = {
        run for each in brief.data["verdicts"] for runs in each["headline"]["runs"] for run in runs
    }
    assert named <= {run["run_id"] for run in brief.data["runs"]}


def test_more_workers_than_cores_are_said_once_and_no_run_is_flagged(
    campaign: ResultStore,
) -> None:
    data = load_dataset([campaign])
    for run in data.all_runs():
        assert run.record.cpu is not None
        cpu = run.record.cpu.model_copy(update={"longest_wait_percent": 61.5})
        run.record = run.record.model_copy(update={"cpu": cpu})
    crowded = [run for run in data.all_runs() if run.record.params["jobs"] > 2]  # cores: 2
    assert 0 < len(crowded) < 120
    (sentence,) = [text for text in caveats(compare(data)) if "more workers" in text]
    assert sentence.startswith(f"{len(crowded)}\u00a0runs ")
    assert "up to 16 on 2" in sentence
    assert "61.5\u00a0%" in sentence
    assert crowded_runs(campaign.plan, 2) == (len(crowded), 16)
    assert crowded_runs(campaign.plan, 16) == (0, 0)
    flag = Flag(kind="starved", message="others took it")
    for run in crowded:  # it is then listed with the runs
        run.record = run.record.model_copy(update={"flags": [flag]})
    assert not any("more workers" in text for text in caveats(compare(data)))


def test_flags_of_all_cells_are_gathered_in_one_pass(campaign: ResultStore) -> None:
    """Check by counting that flags of all cells are collected in one pass."""
    comparison = compare(load_dataset([campaign]))
    looked: list[str] = []
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    unsteady = [CellFlag("not-steady", "it drifted", 1)]
    for place, cell in enumerate(cells):
        cell.flags = Counted(unsteady if place == 7 else cell.flags, looked)
    rows = flag_rows(comparison, ())
    assert sum("at 1 of 30\u00a0points" in row.where for row in rows) == 1
    assert any(found.rule == "not_steady" for found in audit_comparison(comparison))
    assert len(looked) <= len(cells) + 1  # plus the one with a message


class Counted(list[CellFlag]):
    """Flags that count how often they are iterated."""

    def __init__(self, flags: list[CellFlag], looked: list[str]) -> None:
        super().__init__(flags)
        self.looked = looked

    def __iter__(self) -> Iterator[CellFlag]:
        self.looked.append("once")
        return super().__iter__()


def test_points_that_are_written_twice_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    text = study_text(repeats=1, mixes=[30, 50], sizes=["4KiB"], jobs=[1, 2, 4], depths=[1, 2])
    (spec,) = study_class().model_validate(tomllib.loads(text)).workload
    once = spec.values()
    combinations = spec.product()
    assert len(once) == len(combinations) == 2 * 3 * 2
    monkeypatch.setattr(type(spec), "product", lambda self: [*combinations, *combinations])
    assert spec.values() == once


def test_a_report_reads_each_run_once_and_finds_its_answers_once(
    campaign: ResultStore,
    reads: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Check by counting that a report reads each run once and shares its answers."""
    made: list[tuple[str, bool]] = []  # the quantity, and whether it is judged alone

    def decided(*about: Any) -> Any:
        made.append((about[3], len(about) == 5))
        return once(*about)

    once = contests._decided
    monkeypatch.setattr(contests, "_decided", decided)
    main(["report", str(campaign.directory), "--out", str(tmp_path / "once.html"), "--no-pdf"])
    assert "storlab" not in capsys.readouterr().err
    assert reads.count("run.json") == 120
    beside = [key for key, alone in made if alone]
    quantities = set(beside)
    # all quantities at all points, plus the few asked for at the last points
    assert len(quantities) * 30 <= len(beside) <= (len(quantities) + 4) * 30
