"""Audit of storlab's own briefs: claims are recomputed, and an error stops the brief."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from integration.brief.power_fixture import Kind, build_power_store
from integration.conftest import Made
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.audit.from_claims import (
    Assertion,
    AuditError,
    BriefClaims,
    ClaimNumber,
    StatedValue,
    audit_brief,
)
from storlab.base.errors import ExitCode
from storlab.brief import build, write_brief
from storlab.brief.audit_input import audit_directory, audited
from storlab.brief.key_findings import key_findings
from storlab.brief.model import FindingTable
from storlab.brief.openings import opening
from storlab.brief.settings import Settings, load_with
from storlab.brief.tables import scales_of
from storlab.model.decision import Interval
from storlab.model.result import Metric, RunRecord
from storlab.results.store import ResultStore
from support.made_comparisons import findings_of


@pytest.fixture
def busiest(full_store: ResultStore) -> Comparison:
    """Provide the points with the most jobs, whose runs have flags and unequal concurrency."""
    store = ResultStore.open(full_store.directory)
    return compare(load_with([store], Settings(points=["jobs=8"]))[0])


@pytest.fixture
def records(busiest: Comparison) -> dict[str, RunRecord]:
    return {run.record.run_id: run.record for run in busiest.dataset.all_runs()}


@pytest.fixture
def claims(busiest: Comparison) -> list[Assertion]:
    return list(findings_of(busiest).values())


def changed(claim: Assertion, **fields: object) -> Assertion:
    """Return a claim with fields of its decision replaced."""
    return replace(claim, decision=claim.decision.model_copy(update=fields))


def why(claim: Assertion | StatedValue, records: dict[str, RunRecord]) -> str:
    found = audit_brief(BriefClaims([claim], records))
    assert all(f.severity == "error" for f in found)
    return " ".join(f"{f.why} {f.recomputed}" for f in found)


def test_honest_claims_have_no_finding(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    quantities = [claim.quantity for claim in claims]
    assert quantities[0] == "throughput_mb_s.all"
    assert "latency_mean_ns.read" in quantities
    assert audit_brief(BriefClaims(claims, records)) == []


def test_runs_that_lost_their_meter_stand_behind_no_finding_about_power(tmp_path: Path) -> None:
    meters: dict[str, Kind] = {"1x SSD": "lost", "16x HDD": "device"}
    store = build_power_store(tmp_path / "run", meters, repeats=3, mixes=(30,))
    comparison = compare(load_dataset([store]))
    found = audited(comparison, key_findings(comparison))
    assert [f for f in found if f.severity == "error"] == []
    findings = findings_of(comparison)
    of_power = findings["efficiency_mb_s_w.all"]
    assert sum(map(len, of_power.decision.runs)) == 2 + 3
    assert "energy-lost" in of_power.beside
    assert sum(map(len, findings["throughput_mb_s.all"].decision.runs)) == 3 + 3
    assert write_brief(store, pdf=False).is_file()


def test_a_wrong_ratio(claims: list[Assertion], records: dict[str, RunRecord]) -> None:
    ratio = claims[0].decision.ratio
    wrong = changed(claims[0], interval=replace(ratio, estimate=ratio.estimate * 1.02))
    assert "ratio does not follow" in why(wrong, records)


def test_a_wrong_interval(claims: list[Assertion], records: dict[str, RunRecord]) -> None:
    ratio = claims[0].decision.ratio
    assert ratio.low is not None
    wrong = changed(claims[0], interval=replace(ratio, low=ratio.low * 1.05))
    assert "interval does not follow" in why(wrong, records)


def test_a_statement_with_another_number(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    claim = claims[0]
    assert why(claim, records) == ""
    wrong = replace(claim, statement=claim.statement.replace("\u00d7", "9\u00d7", 1))
    assert "multiple in the sentence" in why(wrong, records)
    value = next(n for n in claim.numbers if n.kind == "value")
    wrong = replace(claim, statement=claim.statement.replace(value.words, "1\u00a0MB/s"))
    assert "A value in the sentence" in why(wrong, records)


@pytest.mark.parametrize("kind", ["value", "baseline", "multiple", "inverse"])
def test_a_number_that_the_runs_do_not_give(
    kind: str, claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    """Check the error if sentence and number agree with each other, but not with the runs."""
    claim = next(c for c in claims if any(n.kind == kind for n in c.numbers))
    number = next(n for n in claim.numbers if n.kind == kind)
    words = number.words.replace(number.text, "77", 1)
    wrong = replace(
        claim,
        statement=claim.statement.replace(number.words, words),
        numbers=tuple(
            replace(n, text="77", words=words) if n is number else n for n in claim.numbers
        ),
    )
    assert "in the sentence differs from that of the runs" in why(wrong, records)


def test_a_number_in_the_text_of_a_section_that_the_runs_do_not_give(
    busiest: Comparison, records: dict[str, RunRecord]
) -> None:
    section = busiest.sections[0]
    checked = opening(busiest, section, scales_of(busiest)[section.kind]).checked
    assert {type(each) for each in checked} == {Assertion, StatedValue}
    for honest in checked:
        assert why(honest, records) == ""
        number = replace(honest.numbers[0], text="77", words="77")
        wrong = replace(honest, statement=f"{honest.statement} 77", numbers=(number,))
        assert "in the sentence differs from that of the runs" in why(wrong, records)


def test_the_numbers_of_findings(claims: list[Assertion]) -> None:
    """Check golden statements, and the numbers that the audit compares with the runs."""
    by_quantity = {claim.quantity: claim for claim in claims}
    shown = [by_quantity[key] for key in ("throughput_mb_s.all", "latency_p99_ns.read")]
    assert [claim.statement.replace("\u00a0", " ") for claim in shown] == [
        "throughput of Memory against Disk at 30/70 read/write, 4 MiB, 8 jobs: 3.3\u00d7, "
        "3,588 MB/s against 1,095 MB/s",
        "p99 read latency of Memory against Disk at 70/30 read/write, 256 KiB, 8 jobs: 7.3\u00d7, "
        "12.3 ms against 89.7 ms",
    ]
    assert [[(n.kind, n.text, n.unit) for n in claim.numbers] for claim in shown] == [
        [("multiple", "3.3", ""), ("value", "3,588", "MB/s"), ("baseline", "1,095", "MB/s")],
        [("inverse", "7.3", ""), ("value", "12.3", "ms"), ("baseline", "89.7", "ms")],
    ]


def test_a_p99_is_read_from_the_histograms_of_all_its_runs(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    claim = next(c for c in claims if c.decision.quantity == "latency_p99_ns.read")
    assert why(claim, records) == ""
    first_id = claim.decision.runs[0][0]
    other_record = records[claim.decision.runs[1][0]]
    swapped = records[first_id].model_copy(update={"histograms": other_record.histograms})
    assert "in the sentence differs from that of the runs" in why(
        claim, {**records, first_id: swapped}
    )


def test_a_step_does_not_excuse_any_number(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    claim = claims[0]
    for number in claim.numbers:
        other = replace(number, text="9", words="9", step=1e9)
        wrong = replace(claim, statement=f"{claim.statement} 9", numbers=(other,))
        assert "in the sentence differs from that of the runs" in why(wrong, records)


def test_the_least_that_it_is_ahead_is_the_near_end(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    claim = claims[0]
    low = claim.decision.ratio.low
    assert low is not None
    for printed, complaint in ((low, ""), (low * 1.2, "smallest multiple in the sentence")):
        text = f"{printed:.2f}"
        number = ClaimNumber("least more", text, f"at least {text}")
        told = replace(claim, statement=f"at least {text}", numbers=(number,))
        assert complaint in why(told, records)
        assert bool(complaint) == bool(why(told, records))


def test_runs_that_do_not_count(claims: list[Assertion], records: dict[str, RunRecord]) -> None:
    first, _ = claims[0].decision.runs
    lost = dict(records)
    del lost[first[0]]
    assert "does not exist" in why(claims[0], lost)
    failed = {**records, first[0]: records[first[0]].model_copy(
        update={"status": "failed"})}  # fmt: skip
    assert "is failed" in why(claims[0], failed)
    point = claims[0].decision.points[1]
    other = next(r for r in records.values() if r.point_id != point and r.target == "Disk")
    elsewhere = changed(claims[0], runs=(first, (other.run_id,)))
    assert "different work" in why(elsewhere, records)
    both = changed(claims[0], runs=(first, first))
    assert "both sides" in why(both, records)


def test_a_claim_that_the_runs_do_not_decide(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    """Check the error for a claim whose sides have equal values, although its ratio is right."""
    first, other = claims[0].decision.runs
    behind = claims[0].decision.sides[1]
    same = {
        **records,
        **{
            other_id: records[first_id].model_copy(update={"target": behind, "run_id": other_id})
            for first_id, other_id in zip(first, other, strict=True)
        },
    }
    reason = why(changed(claims[0], interval=Interval(1.0, 0.9, 1.1, 3)), same)
    assert "interval" in reason


def test_what_must_stand_beside_a_claim(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    throughput, latency = claims[0], next(c for c in claims if "latency" in c.decision.quantity)
    assert "client-bound" in why(replace(throughput, beside=frozenset()), records)
    assert "effective concurrency" in why(replace(latency, caveat=""), records)
    power = changed(replace(throughput, boundaries=("device", "wall")), quantity="iops.all")
    assert "boundar" not in why(power, records)  # the claim has no watts
    watts = {run: with_energy(record) for run, record in records.items()}
    assert "unequal boundaries" in why(changed(power, quantity="efficiency_mb_s_w.all"), watts)


def with_energy(record: RunRecord) -> RunRecord:
    """Return the record with 100 J at both boundaries."""
    energy = [
        Metric(name="energy_j", value=100.0, unit="J", boundary=at) for at in ("device", "wall")
    ]
    return record.model_copy(update={"metrics": [*record.metrics, *energy]})


def test_efficiency_is_a_ratio_of_sums(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    watts = {run: with_energy(record) for run, record in records.items()}
    sums = [
        sum(t.bytes for run in runs for t in watts[run].totals.values())
        for runs in claims[0].decision.runs
    ]
    honest = changed(
        replace(claims[0], statement="no number", numbers=(), boundaries=("wall", "wall")),
        quantity="efficiency_mb_s_w.all",
        interval=Interval(sums[0] / sums[1], 0.1, 0.9, 3),
    )
    assert why(honest, watts) == ""
    wrong = changed(honest, interval=Interval(1.01 * sums[0] / sums[1], 0.1, 0.9, 3))
    assert "ratio does not follow" in why(wrong, watts)
    assert "not measured in every run" in why(honest, records)


def test_a_run_that_says_two_things(claims: list[Assertion], records: dict[str, RunRecord]) -> None:
    claim = next(c for c in claims if c.decision.quantity == "latency_mean_ns.read")
    run = claim.decision.runs[0][0]
    wrong = records[run].model_dump()
    wrong["totals"]["read"]["latency"]["mean_ns"] *= 3
    assert "contradicts itself" in why(claim, {**records, run: RunRecord.model_validate(wrong)})


def test_the_brief_shows_the_audit(made: Made) -> None:
    assert '<details class="fold" id="audit"' in made.html
    assert 'href="#audit"' in made.html
    assert "effective concurrency" in made.html
    start = made.html.index('id="storlab-data">') + len('id="storlab-data">')
    data = json.loads(made.html[start : made.html.index("</script>", start)])
    assert {f["rule"] for f in data["audit"]} == {
        "effective_concurrency",
        "client_bound",
        "power",
    }
    assert all(f["severity"] != "error" for f in data["audit"])


def test_an_error_stops_the_brief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that an injected defect in a key finding prevents the brief from being written."""
    store: ResultStore = build_store(tmp_path / "results", mixes=(30,), repeats=2)

    def exaggerate(found: Comparison) -> list[FindingTable]:
        (table,) = key_findings(found)
        first, *others = table.rows
        assert first.finding is not None
        finding = first.finding
        wrong = changed(finding, interval=finding.decision.ratio.scaled(2))
        return [replace(table, rows=[replace(first, finding=wrong), *others])]

    monkeypatch.setattr(build, "key_findings", exaggerate)
    out = tmp_path / "out" / "brief.html"
    with pytest.raises(AuditError) as caught:
        write_brief(store, out=out, pdf=False)
    assert caught.value.exit_code == ExitCode.AUDIT
    assert "audit stopped the brief" in caught.value.what
    assert caught.value.findings
    assert not out.parent.exists()
    monkeypatch.undo()
    assert write_brief(store, out=out, pdf=False).is_file()


def test_a_directory_is_audited_as_its_brief_is(
    full_store: ResultStore, comparison: Comparison
) -> None:
    of_brief = audited(comparison, key_findings(comparison))
    assert audit_directory(full_store.directory) == of_brief
