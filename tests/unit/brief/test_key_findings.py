"""Key findings state only what the intervals support, and count every point."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from storlab.analysis.compare import Comparison
from storlab.analysis.points import WorkloadPoint
from storlab.brief.fact_tables import rule
from storlab.brief.key_findings import findings_data, key_findings
from storlab.brief.model import FindingRow
from storlab.words.outcomes import OUTCOMES
from storlab.workloads.common.flags import flag_meanings
from support.made_comparisons import Draw, comparison_of, findings_of, noisy, study_of

RATE, LATENCY = "throughput_mb_s.all", "latency_mean_ns.read"
CONCURRENCY = "concurrency_effective.all"
BY_MIX = {0: 2.0, 30: 3.0, 70: 4.0, 100: 0.5}
"""How many times as fast A is as B, by share of reads in percent."""


def drawn(outstanding: float = 8.0) -> Draw:
    """Return data with these ratios of throughput, and with this effective concurrency of A."""
    draw = random.Random(1)

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        ratio = BY_MIX[point.params["read_percent"]] if target == "A" else 1.0
        return {
            RATE: 100 * ratio * draw.lognormvariate(0, 0.01),
            LATENCY: (5e5 if target == "A" else 1e6) * draw.lognormvariate(0, 0.01),
            CONCURRENCY: outstanding if target == "A" else 8.0,
        }

    return values


def compared(draw: Draw, repeats: int = 3) -> Comparison:
    return comparison_of(study_of(("A", "B"), sizes=("4KiB",)), draw, repeats)


def rows_of(comparison: Comparison) -> list[FindingRow]:
    """Return the rows about throughput."""
    (table,) = key_findings(comparison)
    return [row for row in table.rows if row.quantity == "throughput"]


def test_each_target_that_is_better_anywhere_has_a_row_with_its_median_lead() -> None:
    better, worse = rows_of(compared(drawn()))
    assert (better.better, better.won, better.lost, better.undecided) == ("A", 3, 1, 0)
    assert (worse.better, worse.won, worse.lost, worse.undecided) == ("B", 1, 3, 0)
    assert (better.span, worse.span) == (2, 0)
    assert better.finding is not None and worse.finding is not None
    assert better.finding.decision.ratio.estimate == pytest.approx(3.0, rel=0.05)
    assert worse.finding.decision.ratio.estimate == pytest.approx(2.0, rel=0.05)
    assert "30/70" in better.where
    assert worse.finding.decision.sides == ("B", "A")
    assert better.finding.decision.comparisons == 1  # the interval is that of this point alone


@pytest.mark.parametrize(("repeats", "outcome"), [(3, "within noise"), (1, "one run")])
def test_a_difference_that_is_not_significant_has_no_better_target(
    repeats: int, outcome: str
) -> None:
    comparison = compared(noisy(random.Random(1), {"A": 100.0, "B": 100.0}, 0.05), repeats)
    (row,) = rows_of(comparison)
    assert (row.better, row.index, row.won, row.lost, row.undecided) == ("", None, 0, 0, 4)
    assert row.outcome == OUTCOMES[outcome]
    assert row.finding is not None
    assert row.finding.decision.outcome == outcome


def test_nothing_measured_gives_no_finding() -> None:
    assert key_findings(compared(lambda target, point: {})) == []


def test_a_latency_at_another_concurrency_says_so() -> None:
    comparison = compared(drawn(outstanding=16.0))
    finding = findings_of(comparison)[LATENCY]
    assert finding.decision.concurrency == (16.0, 8.0)
    assert "16.0 on A, 8.00 on B" in finding.caveat
    assert finding.beside == {"different-concurrency"}
    (embedded,) = (
        row for row in findings_data(key_findings(comparison)) if row["caveat"] == finding.caveat
    )
    assert (embedded["quantity"], embedded["flags"]) == (
        "mean read latency",
        ["different-concurrency"],
    )
    equal = findings_of(compared(drawn()))[LATENCY]
    assert (equal.decision.concurrency, equal.caveat, equal.beside) == (None, "", frozenset())


def test_the_embedded_data_has_every_row() -> None:
    def without(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        values = dict(draw(target, point))
        return values if target == "A" else {RATE: values[RATE]}

    draw = drawn()
    first, second, latency = findings_data(key_findings(compared(without)))
    for row, counts in ((first, (4, 3, 1, 0)), (second, (4, 1, 3, 0)), (latency, (0, 0, 0, 0))):
        assert tuple(row[key] for key in ("points", "won", "lost", "undecided")) == counts
    assert first["quantity"] == second["quantity"] == "throughput"
    assert first["decision"]["sides"] == ("A", "B")
    assert [len(side) for side in first["decision"]["runs"]] == [3, 3]
    assert first["statement"].startswith("throughput of A against B at 30/70 read/write")
    assert (latency["quantity"], latency["decision"]) == ("mean read latency", None)
    assert latency["statement"].endswith("B: no run has a value")


def test_the_points_that_the_cover_is_about_are_named() -> None:
    comparison = compared(drawn())
    everywhere = "at the largest number of jobs at which all targets were measured"
    assert rule(comparison) == f"every mix and block size {everywhere}"
    for row in comparison.rows.values():
        row.cells["A"].runs.clear()
    assert rule(comparison).endswith("at which the most targets were measured")


def test_what_must_stand_beside_a_number_stands_above_the_numbers_too() -> None:
    known = flag_meanings().values()
    assert {m.kind for m in known if m.claims} <= {m.kind for m in known if m.caveat}
    assert sum(m.claims for m in known) >= 14
