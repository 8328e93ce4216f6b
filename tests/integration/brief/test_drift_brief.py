"""A target that changes between repeats is marked wherever its mean is used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.drift import DRIFT
from storlab.audit.from_claims import BriefClaims, audit_brief
from storlab.audit.from_results import audit_comparison
from storlab.brief.caveats import caveats
from storlab.brief.tables import ratio_table, scales_of, section_tables
from storlab.cli.main import main
from storlab.results.store import ResultStore
from support.made_comparisons import findings_of

STATES = (1.0, 1.0, 0.2, 0.2, 0.2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    place = tmp_path_factory.mktemp("drift") / "results"
    return build_store(place, repeats=5, mixes=(30,), states=STATES)


@pytest.fixture(scope="module")
def drifting(store: ResultStore) -> Comparison:
    return compare(load_dataset([store]))


def test_every_point_of_the_target_is_flagged_and_none_of_the_other(drifting: Comparison) -> None:
    assert set(drifting.flagged(DRIFT)) == {"Disk"}
    assert len(drifting.flagged(DRIFT)["Disk"]) == len(drifting.rows)
    for row in drifting.rows.values():
        drifts = row.cells["Disk"].drifts
        assert {drift.after for drift in drifts} == {2}
        # Larger blocks have few operations, so their rates are noisy.
        if row.point.params["block_size"] == 262144:
            keys = {drift.metric for drift in drifts}
            assert {"throughput_mb_s.all", "latency_mean_ns.read", "latency_mean_ns.write"} <= keys


def test_numbers_ratios_and_findings_have_the_mark(drifting: Comparison) -> None:
    scale = scales_of(drifting)["block"]
    (section,) = drifting.sections
    for table in section_tables(drifting, section, scale):
        for row in table.rows:
            kinds = {m.kind for number in row.numbers if not number.missing for m in number.marks}
            assert (DRIFT in kinds) == (row.target == "Disk")
    ratios = ratio_table(drifting, [section])
    assert ratios is not None
    assert all(DRIFT in {m.kind for m in n.marks} for row in ratios.rows for n in row.numbers)
    findings = findings_of(drifting)
    assert findings
    assert all(DRIFT in finding.beside for finding in findings.values())


def test_the_audit_finds_it_and_misses_it_beside_a_finding(drifting: Comparison) -> None:
    (found,) = [f for f in audit_comparison(drifting) if f.rule == "drift_between_repeats"]
    assert found.severity == "warning"
    records = {run.record.run_id: run.record for run in drifting.dataset.all_runs()}
    findings = findings_of(drifting).values()
    assert audit_brief(BriefClaims([*findings], records)) == []
    bare = [replace(finding, beside=finding.beside - {DRIFT}) for finding in findings]
    missing = audit_brief(BriefClaims(bare, records))
    assert len(missing) == len(findings)
    assert all(DRIFT in finding.recomputed for finding in missing)


def test_the_values_stand_in_order(
    store: ResultStore, drifting: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(store.directory), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    for point in told["points"]:
        assert point["targets"]["Memory"]["drifts"] == []
        if point["params"]["block_size"] != 262144:
            continue
        drifts = {drift["metric"]: drift for drift in point["targets"]["Disk"]["drifts"]}
        drift = drifts["throughput_mb_s.all"]
        assert (drift["kind"], drift["after"], len(drift["runs"])) == ("step", 2, 5)
        assert min(drift["values"][:2]) > 3 * max(drift["values"][2:])
        assert 0.15 < drift["change"] < 0.25
    flags = [f for row in drifting.rows.values() for f in row.cells["Disk"].flags]
    (text, *_) = [flag.message for flag in flags if flag.kind == DRIFT]
    assert text.count(" MB/s") in (0, 5)
    assert main(["compare", str(store.directory)]) == 0
    assert text in capsys.readouterr().out
    assert any(text in sentence for sentence in caveats(drifting))


def test_a_steady_campaign_is_unmarked(tmp_path: Path) -> None:
    """Check that noise of 2 and 3 % at five repeats is not flagged as drift."""
    steady = build_store(tmp_path / "steady", repeats=5, mixes=(30,), seed=2)
    comparison = compare(load_dataset([steady]))
    assert comparison.flagged(DRIFT) == {}
    assert not any("in order of time" in sentence for sentence in caveats(comparison))
