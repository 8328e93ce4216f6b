"""Percentiles of repeats without histograms: shown per repeat, compared, and judged by a gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from storlab.analysis.compare import PER_REPEAT, Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.gate import judge
from storlab.analysis.stats import ratio_interval
from storlab.api import load
from storlab.audit.from_claims import BriefClaims, audit_brief
from storlab.brief.tables import scales_of, section_tables
from storlab.cli.main import main
from storlab.exchange.importer import import_files
from storlab.history.record import read_record
from storlab.model.gate import GateRule
from support.fio_output import write_fio_output
from support.made_comparisons import findings_of

P99 = "latency_p99_ns.read"
FAST, SLOW = (100.0, 110.0, 150.0), (400.0, 420.0, 470.0)
"""Latency in us that is the 99th percentile of each repeat."""


def results(
    place: Path, *, fast: Sequence[bool] = (False,) * 3, slow: Sequence[bool] = (False,) * 3
) -> Path:
    """Import three repeats of each of two drives; a flag per repeat says whether it has bins."""
    files = [
        write_fio_output(
            place / f"{drive}-{number}.json", p99_us=value, reads=reads + number,
            histogram=histogram, target=f"/dev/{drive}",
        )
        for drive, values, flags, reads in (
            ("slow", SLOW, slow, 90_000), ("fast", FAST, fast, 99_000),
        )
        for number, (value, histogram) in enumerate(zip(values, flags, strict=True))
    ]  # fmt: skip
    import_files(files, place / "results")
    return place / "results"


def compared(directory: Path) -> Comparison:
    return load(directory).comparison


def test_the_median_of_the_repeats_stands_for_percentiles_that_cannot_be_merged(
    tmp_path: Path,
) -> None:
    (row,) = compared(results(tmp_path)).rows.values()
    cell = row.cells["fast"]
    assert cell.values[P99].estimate == 110_000  # not the mean, which is 120,000
    assert cell.values[P99].n == 3
    assert cell.merged("read") is None
    assert cell.percentile_flags[PER_REPEAT] >= {P99, "latency_p50_ns.read"}
    assert "latency_mean_ns.read" not in cell.percentile_flags[PER_REPEAT]


def test_a_histogram_missing_in_one_repeat_leaves_nothing_to_merge(tmp_path: Path) -> None:
    (row,) = compared(results(tmp_path, fast=(True, True, False), slow=(True,) * 3)).rows.values()
    assert row.cells["fast"].values[P99].estimate == pytest.approx(110_000, rel=1e-2)
    assert P99 in row.cells["fast"].percentile_flags[PER_REPEAT]
    merged = row.cells["slow"]
    assert PER_REPEAT not in merged.percentile_flags
    assert merged.values[P99].estimate == pytest.approx(470_000, rel=1e-2)


@pytest.mark.parametrize("histograms", [False, True])
def test_each_repeats_percentile_is_one_observation_of_a_ratio(
    tmp_path: Path, histograms: bool
) -> None:
    comparison = compared(results(tmp_path, slow=(histograms,) * 3))
    (row,) = comparison.rows.values()
    decision = next(d[P99] for d in row.decisions.values() if P99 in d).seen_from("fast")
    expected = ratio_interval(FAST, SLOW)
    assert decision.outcome == "better"
    assert decision.interval is not None
    assert decision.interval.high == pytest.approx(expected.high, rel=1e-2)
    assert decision.interval.estimate == pytest.approx(110 / (470 if histograms else 420), rel=1e-2)


def test_tables_show_the_range_of_the_repeats_with_a_mark(tmp_path: Path) -> None:
    comparison = compared(results(tmp_path))
    (section,) = comparison.sections
    (table,) = section_tables(comparison, section, scales_of(comparison)["block"], [P99])
    by_target = {row.target: row.numbers[0] for row in table.rows}
    assert (by_target["fast"].text, by_target["fast"].spread) == ("110", "100 to 150")
    assert PER_REPEAT in {mark.kind for mark in by_target["fast"].marks}


def test_documents_hold_the_repeats_own_percentiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = results(tmp_path)
    assert main(["compare", str(directory), "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["targets"]["fast"]["own_percentiles"][P99] == [100_000, 110_000, 150_000]
    rows = {(r["target"], r["metric"]): r for r in load(directory).points.to_pylist()}
    assert rows["fast", P99]["per_repeat"]
    assert not rows["fast", "throughput_mb_s.all"]["per_repeat"]
    by_target = {point["target"]: point for point in read_record(directory)["points"]}
    assert by_target["fast"]["values"][P99]["estimate"] == 110_000
    assert by_target["fast"]["values"][P99]["runs"] == [100_000, 110_000, 150_000]
    assert PER_REPEAT in by_target["fast"]["flags"]


@pytest.mark.parametrize(
    ("at_most", "verdict"), [("100us", "inconclusive"), ("50us", "broken"), ("400us", "held")]
)
def test_a_gate_judges_them_as_it_judges_rates(tmp_path: Path, at_most: str, verdict: str) -> None:
    comparison = compare(load_dataset(load(results(tmp_path)).stores), alone=True)
    rule = GateRule.model_validate({"metric": "latency_p99", "target": "fast", "at_most": at_most})
    (check,) = judge([rule], comparison, None).checks
    assert check.verdict == verdict
    assert check.interval is not None
    assert check.interval.estimate == 110_000
    assert any(PER_REPEAT in remark for remark in check.remarks)


def test_findings_of_a_brief_follow_from_the_runs(tmp_path: Path) -> None:
    comparison = compared(results(tmp_path))
    findings = findings_of(comparison)
    assert PER_REPEAT in findings[P99].beside
    records = {run.record.run_id: run.record for run in comparison.dataset.all_runs()}
    assert audit_brief(BriefClaims([*findings.values()], records)) == []
