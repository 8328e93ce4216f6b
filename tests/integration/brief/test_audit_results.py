"""Audit of result directories: a synthetic campaign, and ways in which it can mislead."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.audit.finding import Finding
from storlab.audit.from_results import audit_comparison, audit_results
from storlab.audit.results_table import results_table
from storlab.base.errors import ResultError
from storlab.results.store import ResultStore


def by_rule(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.rule: finding for finding in findings}


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., list[Finding]]:
    """Return findings on a small campaign whose run records were changed on disk."""

    def build(change: Callable[[dict[str, object]], None], repeats: int = 2) -> list[Finding]:
        store = build_store(tmp_path / "changed", mixes=(30,), repeats=repeats)
        for record in store.records():
            path = store.run_dir(record.run_id) / "run.json"
            data = json.loads(path.read_text(encoding="utf-8"))
            change(data)
            content = json.dumps(data).encode()
            sums = path.with_name("SHA256SUMS")
            old = hashlib.sha256(path.read_bytes()).hexdigest()
            new = hashlib.sha256(content).hexdigest()
            sums.write_text(sums.read_text("utf-8").replace(old, new), "utf-8")
            path.write_bytes(content)
        return audit_results(store.directory)

    return build


def test_the_fixture_misleads_in_known_ways_only(full_store: ResultStore) -> None:
    findings = audit_results(full_store.directory)
    assert {(f.severity, f.rule) for f in findings} == {
        ("warning", "effective_concurrency"),
        ("warning", "client_bound"),
        ("note", "power"),
    }
    concurrency = by_rule(findings)["effective_concurrency"]
    assert "127 against 102" in concurrency.recomputed
    points = set(full_store.plan.points)
    assert all(set(f.rows) <= points for f in findings)


def test_errors_come_first_and_failed_runs_are_named(partial_store: ResultStore) -> None:
    found = by_rule(audit_results(partial_store.directory))
    assert found["failed_runs"].severity == "note"
    assert len(found["failed_runs"].rows) == 3
    assert found["repeats"].rows
    assert "runs are missing" in found["incomplete"].recomputed


def test_the_table_of_a_campaign(comparison: Comparison) -> None:
    table = results_table(comparison)
    assert len({row.id for row in table.rows}) == len(table.rows)
    cells = table.select(config="Disk", metric="throughput", rw_mix="30/70", block_size="4MiB")
    assert [(row.x_name, row.x_value) for row in cells] == [
        ("numjobs", jobs) for jobs in ("1", "2", "4", "8")
    ]
    assert {row.value for row in table.select(metric="iodepth")} == {16.0}
    assert {row.value for row in table.select(metric="raw_capacity")} == {245.76}


def test_flags_of_compared_points_are_findings(changed: Callable[..., list[Finding]]) -> None:
    def flag(data: dict[str, object]) -> None:
        if data["target"] == "Memory":
            data["flags"] = [
                {"kind": "page-cache", "message": "direct = false"},
                {"kind": "not-steady", "message": "it drifted"},
            ]

    found = by_rule(changed(flag))
    assert found["page_cache"].severity == "warning"
    assert found["not_steady"].printed == "Memory: 8 of 8 points"


def test_different_backends_of_one_ratio(changed: Callable[..., list[Finding]]) -> None:
    def fall_back(data: dict[str, object]) -> None:
        if data["target"] == "Disk":
            data["engine"] = {"name": "native", "version": "0.1.0", "backend": "posix"}

    found = by_rule(changed(fall_back))
    assert found["engines"].severity == "warning"
    assert "posix against" in found["engines"].recomputed


def test_modelled_beside_measured(changed: Callable[..., list[Finding]]) -> None:
    def model(data: dict[str, object]) -> None:
        if data["target"] == "Disk":
            data["provenance"] = "modelled"

    found = by_rule(changed(model))
    assert "Disk is modelled, Memory measured" in found["provenance"].recomputed


def test_single_repeats_give_no_interval(changed: Callable[..., list[Finding]]) -> None:
    found = by_rule(changed(lambda data: None, repeats=1))
    assert found["repeats"].recomputed == "no interval"


def test_rules_for_tables_hold_for_results(changed: Callable[..., list[Finding]]) -> None:
    """Check that Little's law reveals a mean latency impossible at the configured depth."""

    def shorten(data: dict[str, object]) -> None:
        metrics = data["metrics"]
        assert isinstance(metrics, list)
        data["histograms"] = {}  # otherwise they would contradict
        for metric in metrics:
            if metric["name"] == "latency_mean_ns" and data["target"] == "Disk":
                metric["value"] /= 100

    found = [f for f in changed(shorten) if f.rule == "implied_outstanding"]
    assert [f.severity for f in found] == ["warning"]
    assert all(row.split(":")[0] for row in found[0].rows)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ResultError):
        audit_results(tmp_path / "nothing")


def test_one_target_alone(full_store: ResultStore, comparison: Comparison) -> None:
    """Check that a single target has no findings on ratios."""
    alone = compare(load_dataset([full_store]))
    for row in alone.rows.values():
        row.cells["Disk"].runs = []
        row.ratios["Disk"] = {}
    rules = set(by_rule(audit_comparison(alone)))
    assert "effective_concurrency" not in rules
    assert "effective_concurrency" in set(by_rule(audit_comparison(comparison)))
