"""The brief of checkpoints: time, throughput, energy, ranks, caching and cost."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.fixed_fixture import NEW, OLD
from integration.brief.kinds import draw, names_of
from integration.checkpoint.checkpoint_fixture import build_checkpoint_store
from integration.conftest import Made
from integration.object.test_object_brief import mean, tables_of
from integration.training.test_training_brief import check_figures, figures_of
from storlab.analysis import digits
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.verdict import verdicts
from storlab.analysis.work_items import cell_work_items, workers_of
from storlab.audit.from_claims import BriefClaims, audit_brief
from storlab.audit.from_results import audit_results
from storlab.base.units import format_number
from storlab.brief import write_brief
from storlab.brief.answers import marks_beside
from storlab.brief.key_findings import key_findings
from storlab.figures.svg import render, standalone
from storlab.figures.theme import LIGHT
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.checkpoint.interval import daly_interval
from support.made_comparisons import findings_of, told

SECTION = "mix-llama-3-405b-checkpoint-llama-3-405b-checkpoint-native"


def records_of(store: ResultStore, target: str) -> list[RunRecord]:
    return [record for record in store.records() if record.target == target]


@pytest.fixture(scope="session")
def checkpoint_comparison(checkpoint_store: ResultStore) -> Comparison:
    return compare(load_dataset([checkpoint_store]))


def test_time_throughput_and_energy_are_those_of_the_runs(checkpoint_made: Made) -> None:
    time, rate, flushes, proof, energy, lost, *_ = tables_of(checkpoint_made.html, SECTION)
    for target in (NEW, OLD):
        records = records_of(checkpoint_made.store, target)
        row = time.at(target)
        assert row["to written s"] == format_number(mean(records, "write_time_s"))
        assert row["to durable s"] == format_number(mean(records, "durable_time_s"))
        assert row["restore s"] == format_number(mean(records, "restore_time_s"))
        assert rate.at(target)["to durable MB/s"] == format_number(mean(records, "durable_mb_s"))
        assert {head.partition(" ")[0] for head in flushes.at(target)} >= {"mean", "p99"}
        assert proof.at(target)["restored"] == "1.00"
        wh = [record.metric("span_energy_wh", "write") for record in records]
        known = [value for value in wh if value is not None]
        assert energy.at(target)["a checkpoint Wh"] == format_number(sum(known) / len(records))
        row = lost.at(target)
        share = mean(records, "training_share_lost_percent")
        assert row["lost to writing %"] == format_number(share)
        young = mean(records, "optimal_interval_young_s")
        assert row["optimal interval, Young s"] == format_number(young)


def test_pauses_are_in_no_efficiency(checkpoint_comparison: Comparison) -> None:
    """Check that energy of pauses between checkpoints is not attributed to checkpoints."""
    seen = set()
    for row in checkpoint_comparison.rows.values():
        for cell in row.cells.values():
            for record in (run.record for run in cell.runs):
                energy = record.metric("energy_j")
                assert energy is not None
                moving = sum(s.end_ns - s.start_ns for s in record.spans if s.bytes)
                moved = sum(t.bytes for op, t in record.totals.items() if op != "sync")
                whole = moving >= 0.95 * (record.window_end_ns - record.window_start_ns)
                expected = pytest.approx(moved / 1e6 / energy) if whole else None
                assert record.metric("efficiency_mb_s_w") == expected
                seen.add(whole)
    assert seen == {True, False}


def test_checkpoints_restores_and_ranks_are_listed_one_by_one(
    checkpoint_made: Made, checkpoint_comparison: Comparison
) -> None:
    tables = tables_of(checkpoint_made.html, SECTION)
    listed = {table.head[0]: table for table in tables if len(table.head) and table.rows}
    assert {"checkpoint", "restore", "rank"} <= set(listed)
    (point,) = checkpoint_comparison.dataset.points
    cell = checkpoint_comparison.row(point).cells[OLD]
    third = cell_work_items(cell, "write")[3]
    durable = sum(piece.values["durable_s"] for piece in third) / len(third)
    row = listed["checkpoint"].at("checkpoint 3", OLD)
    assert row["to durable s"] == format_number(durable)
    assert row["slowest rank"] == "7"
    assert row["energy Wh"] != "–"
    cold = listed["restore"].at("restore 1", NEW)
    assert cold["in memory before %"] == "0"
    assert cold["device / files %"] == "100"
    assert cold["every byte compared"] == "yes"
    slowest = max(workers_of(cell, "write"), key=lambda worker: worker.interval.estimate)
    assert slowest.number == 7
    assert listed["rank"].at("rank 7", OLD)["checkpoint s"] == format_number(
        slowest.interval.estimate
    )
    # both targets, once for both directions
    assert checkpoint_made.html.count('href="#mark-slowest"') == 2


def test_findings_state_ratios_correctly(checkpoint_comparison: Comparison) -> None:
    findings = findings_of(checkpoint_comparison)
    assert set(findings) >= {
        "durable_time_s.all",
        "durable_mb_s.all",
        "span_energy_wh.write",
        "restore_time_s.all",
        "training_share_lost_percent.all",
    }
    time, rate = findings["durable_time_s.all"], findings["durable_mb_s.all"]
    assert time.sides == rate.sides
    ratios = [finding.decision.ratio.estimate for finding in (time, rate)]
    assert ratios[0] * ratios[1] == pytest.approx(1.0, rel=1e-3)
    assert f"{format_number(ratios[1])}×" in rate.statement
    assert digits.times(time.decision.advantage) in time.statement
    assert all("scaled" in finding.beside for finding in findings.values())


def test_what_is_modelled_is_marked_wherever_it_stands_large(
    checkpoint_comparison: Comparison,
) -> None:
    findings = findings_of(checkpoint_comparison)
    assert findings["training_share_lost_percent.all"].beside == {"scaled", "modelled"}
    assert "modelled" not in findings["durable_time_s.all"].beside
    lost = next(v for v in verdicts(checkpoint_comparison) if v.question == "training_lost")
    assert lost.headline is not None
    beside = {m.kind: m.message for m in marks_beside(checkpoint_comparison, lost.headline)}
    assert set(beside) == {"scaled", "modelled"}
    assert beside["modelled"] == f"{NEW}: provenance: modelled; {OLD}: provenance: modelled"


def test_seen_from_the_other_side_it_is_the_same(tmp_path: Path) -> None:
    store = build_checkpoint_store(
        tmp_path / "run", power=False, header="seed = 3", baseline=NEW, repeats=2
    )
    time = findings_of(compare(load_dataset([store])))["durable_time_s.all"]
    assert time.decision.sides == (NEW, OLD)
    assert time.decision.advantage.estimate > 2


def test_the_audit_reads_findings_back(checkpoint_comparison: Comparison) -> None:
    comparison = checkpoint_comparison
    records = {run.record.run_id: run.record for run in comparison.dataset.all_runs()}
    findings = list(findings_of(comparison).values())
    assert audit_brief(BriefClaims(findings, records)) == []
    for finding in findings:
        unsaid = replace(finding, beside=frozenset())
        assert any("scaled" in f.recomputed for f in audit_brief(BriefClaims([unsaid], records)))
    longer = {
        run: record.model_copy(update={"details": _slower(record)})
        for run, record in records.items()
        if record.target == NEW
    }
    wrong = {f.printed for f in audit_brief(BriefClaims(findings, {**records, **longer}))}
    assert {"durable_time_s.all", "durable_mb_s.all"} <= {
        finding.quantity for finding in findings if finding.statement in wrong
    }


def _slower(record: RunRecord) -> dict[str, object]:
    writes = [{**w, "durable_ns": w["durable_ns"] + 10**9} for w in record.details["writes"]]
    return {**record.details, "writes": writes}


def test_a_warm_restore_is_marked_beside_restores_only(tmp_path: Path) -> None:
    store = build_checkpoint_store(
        tmp_path / "run", power=False, cached=0.4, repeats=2, more="", writes=2
    )
    html = write_brief(store, pdf=False).read_text("utf-8")
    assert 'id="mark-restore-not-cold"' in html
    findings = findings_of(compare(load_dataset([store])))
    assert "restore-not-cold" in findings["restore_time_s.all"].beside
    assert "restore-not-cold" not in findings["durable_time_s.all"].beside
    restores = next(t for t in tables_of(html, SECTION) if t.head[0] == "restore")
    assert restores.at("restore 1", NEW)["in memory before %"] == "40.0"
    assert restores.at("restore 1", NEW)["device / files %"] == "60.0"
    assert {f.rule for f in audit_results(store.directory)} >= {"restore_not_cold"}


def test_without_flushes_nothing_is_called_durable(tmp_path: Path) -> None:
    store = build_checkpoint_store(
        tmp_path / "run", power=False, repeats=2, more='sync = "none"', writes=2
    )
    keys = set(findings_of(compare(load_dataset([store]))))
    assert "write_time_s.all" in keys
    assert not any(key.startswith("durable") for key in keys)
    html = write_brief(store, pdf=False).read_text("utf-8")
    assert 'id="mark-not-durable"' in html
    assert "Optimal interval" not in html  # no mtbf is set
    listed = next(t for t in tables_of(html, SECTION) if t.head[0] == "checkpoint")
    assert "to durable s" not in listed.head
    assert listed.at("checkpoint 1", NEW)["throughput MB/s"]


def test_specifications_are_valid_vega_lite(checkpoint_comparison: Comparison) -> None:
    figures = figures_of(checkpoint_comparison, "checkpoint")
    assert {figure.kind for figure in figures} == set(names_of("checkpoint")) - {
        "efficiency_vs_axis"
    }
    check_figures(figures)


def test_what_checkpoints_cost_is_modelled_with_the_formulas(
    checkpoint_comparison: Comparison,
) -> None:
    (figure,) = draw("training_lost", checkpoint_comparison, checkpoint_comparison.sections)
    (point,) = checkpoint_comparison.dataset.points
    cost = checkpoint_comparison.row(point).cells[OLD].values["durable_time_s.all"].estimate
    best = next(
        m
        for m in figure.spec["datasets"]["marks"]
        if (m["target"], m["what"]) == (OLD, "Daly’s optimum")
    )
    whole = cost / 0.1  # the study scales the files down
    assert best["x"] == pytest.approx(daly_interval(whole, 86_400), rel=1e-4)
    assert "scaled to 10 %" in figure.remark
    curve = [d for d in figure.spec["datasets"]["curves"] if d["target"] == OLD]
    assert best["y"] == pytest.approx(min(d["y"] for d in curve), rel=2e-3)
    assert "modelled" in figure.alt
    assert "Restart not measured" not in figure.remark


def test_without_a_restore_failures_still_cost_what_is_done_again(tmp_path: Path) -> None:
    """Check the cost curve without restarts, whose minimum is Daly's optimum."""
    store = build_checkpoint_store(tmp_path / "run", power=False, repeats=2, scale="1", restores=0)
    comparison = compare(load_dataset([store]))
    (figure,) = draw("training_lost", comparison, comparison.sections)
    data = figure.spec["datasets"]
    (best,) = (m for m in data["marks"] if (m["target"], m["what"]) == (OLD, "Daly’s optimum"))
    curve = [point["y"] for point in data["curves"] if point["target"] == OLD]
    assert best["y"] == pytest.approx(min(curve), rel=2e-3)
    assert curve[-1] > best["y"]
    assert "Restart not measured" in figure.remark


def test_every_figure_says_how_small_the_checkpoint_was(
    checkpoint_comparison: Comparison, tmp_path: Path
) -> None:
    figures = figures_of(checkpoint_comparison, "checkpoint")
    assert len(figures) >= 8
    for figure in figures:
        assert figure.title.count("scaled to 10 %") == 1, figure.name
        assert figure.alt.count("scaled to 10 %") >= 1, figure.name
        svg = " ".join(re.findall(r">([^<]+)<", standalone(render(figure), figure, LIGHT)))
        assert svg.count("scaled to 10 %") >= 1
    whole = build_checkpoint_store(tmp_path / "run", power=False, repeats=2, scale="1")
    for figure in figures_of(compare(load_dataset([whole])), "checkpoint"):
        assert "scaled" not in figure.title + figure.alt


def test_every_finding_says_how_small_the_checkpoint_was(
    checkpoint_comparison: Comparison, tmp_path: Path
) -> None:
    for finding in findings_of(checkpoint_comparison).values():
        assert finding.statement.count("scaled to 10 %") == 1
    (table,) = key_findings(checkpoint_comparison)
    assert table.caption.count("scaled to 10 %") == 1
    assert not any("scaled" in row.where for row in table.rows)
    whole = build_checkpoint_store(tmp_path / "run", power=False, repeats=2, scale="1")
    findings = findings_of(compare(load_dataset([whole])))
    assert findings
    assert not any("scaled" in finding.decision.where for finding in findings.values())


def test_a_swept_depth_and_two_profiles(tmp_path: Path) -> None:
    store = build_checkpoint_store(
        tmp_path / "run",
        power=False,
        repeats=2,
        writes=2,
        profile='["llama3-405b-8gpu-415gb", "llama3-8b"]',
        more="io_depth = [1, 8]",
    )
    comparison = compare(load_dataset([store]))
    figures = draw("checkpoint_time", comparison, comparison.sections)
    assert len(figures) == 2 * 3  # bars, against the depth, one by one
    assert len({figure.name for figure in figures}) == 6
    swept = next(f for f in figures if "by-axis" in f.name)
    assert [row[0] for row in swept.rows] == ["1", "8"]
    html = write_brief(store, pdf=False).read_text("utf-8")
    time = tables_of(html, SECTION)[0]
    assert {row[0] for row in time.rows} == {"llama3-405b-8gpu-415gb", "llama3-8b"}
    assert len(time.rows) == 2 * 2 * 2


def test_published_claims_stand_beside_measured_ratios(checkpoint_made: Made) -> None:
    (table,) = tables_of(checkpoint_made.html, "published")
    time = table.at("time to durable")
    assert time["as published"] == f"151% more than {NEW}"
    assert time["which is"] == "2.51×"
    (comparison,) = [compare(load_dataset([checkpoint_made.store]))]
    (point,) = comparison.dataset.points
    ratio = comparison.row(point).ratios[NEW]["durable_time_s.all"].interval.estimate
    assert time["measured here"] == f"{1 / ratio:.2f}×"
    rate = table.at("throughput to durable")
    assert rate["as published"].startswith("up to 135% slower")
    assert rate["which is"] == "impossible"
    assert table.at("energy of a checkpoint")["which is"] == "3.09×"


def test_the_brief_is_set_on_paper_too(checkpoint_made: Made) -> None:
    assert checkpoint_made.path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert "Measured" in checkpoint_made.html
    assert "the whole of fixed work" in checkpoint_made.html


def test_the_answer_about_checkpoints(checkpoint_comparison: Comparison) -> None:
    found = told(checkpoint_comparison)
    assert list(found) == ["durable_time", "training_lost", "efficiency"]
    at = "at llama3-405b-8gpu-415gb, depth 8 (scaled to 10 %)."
    assert [sentences[0] for sentences in found.values()] == [
        "Micron 6550 ION makes a checkpoint durable 2.55 times as fast as Solidigm D5-P5336 "
        f"(2.51 to 2.58) {at}",
        "Micron 6550 ION loses less training time than Solidigm D5-P5336, which loses 2.38 times "
        f"as much (2.35 to 2.41) {at}",
        "Micron 6550 ION writes 3.2 times as much of a checkpoint per watt-hour as Solidigm "
        f"D5-P5336 (3.0 to 3.3) {at}",
    ]
