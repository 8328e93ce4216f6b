"""Claims assert only what the intervals support."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storlab.analysis import digits
from storlab.analysis.compare import Comparison, Row, compare
from storlab.analysis.dataset import load_dataset
from storlab.brief.claims import make_claims
from storlab.brief.fact_tables import rule
from storlab.model.decision import Interval
from storlab.results.store import ResultStore
from storlab.workloads.common.flags import flag_meanings
from support.made_comparisons import decided

KEY = "throughput_mb_s.all"
SIDES = ("Disk", "Memory")


@pytest.fixture
def fresh(full_store: ResultStore) -> Comparison:
    """Return a separate comparison, to be changed."""
    return compare(load_dataset([full_store]))


def decide(row: Row, interval: Interval | None) -> None:
    """Replace all comparisons of a row by one of throughput; None for no comparison."""
    row.decisions["Disk"] = {} if interval is None else {KEY: decided(interval, SIDES)}
    row.__dict__.pop("ratios", None)


def test_the_rule_picks_the_far_end_of_every_mix_and_size(comparison: Comparison) -> None:
    claims = [c for c in make_claims(comparison) if c.kind == "throughput"]
    assert [c.decision.where.replace("\u00a0", " ") for c in claims] == [
        "30/70 read/write, 256 KiB, 8 jobs",
        "30/70 read/write, 4 MiB, 8 jobs",
        "70/30 read/write, 256 KiB, 8 jobs",
        "70/30 read/write, 4 MiB, 8 jobs",
    ]


def test_a_claim_has_numbers_interval_and_runs(comparison: Comparison) -> None:
    claim = make_claims(comparison)[0]
    assert claim.decision.ratio.excludes(1.0)
    assert [len(side) for side in claim.decision.runs] == [3, 3]
    assert len(claim.decision.points) == 2
    assert digits.times(claim.decision.advantage) in claim.finding.statement
    assert "MB/s" in claim.finding.statement
    assert "[" in claim.finding.statement
    assert "up to" not in " ".join(c.finding.statement for c in make_claims(comparison))
    assert claim.as_dict()["decision"]["runs"] == claim.decision.runs


def test_a_latency_at_another_concurrency_says_so(comparison: Comparison) -> None:
    claims = [c for c in make_claims(comparison) if c.kind == "latency"]
    assert claims
    for claim in claims:
        assert claim.decision.concurrency is not None
        apart = dict(zip(claim.decision.sides, claim.decision.concurrency, strict=True))
        assert apart == {"Disk": pytest.approx(127, abs=0.5), "Memory": pytest.approx(102, abs=0.5)}
        assert "127 on Disk, 102 on Memory" in claim.finding.caveat
        assert "different-concurrency" in {m.kind for m in claim.marks}


def test_an_interval_that_includes_one_makes_no_claim(fresh: Comparison) -> None:
    for row in fresh.rows.values():
        decide(row, Interval(1.02, 0.97, 1.08, 3))
    assert make_claims(fresh) == []


def test_findings_say_where_they_were_looked_for(fresh: Comparison) -> None:
    everywhere = "at the largest number of jobs at which all targets were measured"
    assert rule(fresh) == f"every mix and block size {everywhere}"
    for row in fresh.rows.values():
        row.cells["Disk"].runs.clear()
    assert rule(fresh).endswith("at which the most targets were measured")


def test_one_run_makes_no_claim(fresh: Comparison) -> None:
    for row in fresh.rows.values():
        known = row.ratios["Disk"][KEY].ratio
        decide(row, replace(known, low=None, high=None, n=1))
    assert make_claims(fresh) == []


def test_nothing_measured_makes_no_claim(fresh: Comparison) -> None:
    for row in fresh.rows.values():
        decide(row, None)
        for cell in row.cells.values():
            cell.runs = []
    assert make_claims(fresh) == []


def test_what_must_stand_beside_a_claim_stands_above_the_numbers_too() -> None:
    known = flag_meanings().values()
    assert {m.kind for m in known if m.claims} <= {m.kind for m in known if m.caveat}
    assert sum(m.claims for m in known) >= 14
