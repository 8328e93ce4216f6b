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
    audit_brief,
)
from storlab.base.errors import ExitCode
from storlab.brief import build, write_brief
from storlab.brief.audit_input import audit_directory, audited
from storlab.brief.claims import Claim, make_claims
from storlab.model.decision import Interval
from storlab.model.result import Metric, RunRecord
from storlab.results.store import ResultStore


@pytest.fixture
def records(comparison: Comparison) -> dict[str, RunRecord]:
    return {run.record.run_id: run.record for run in comparison.dataset.all_runs()}


@pytest.fixture
def claims(comparison: Comparison) -> list[Assertion]:
    return [claim.finding for claim in make_claims(comparison)]


def changed(claim: Assertion, **fields: object) -> Assertion:
    """Return a claim with fields of its decision replaced."""
    return replace(claim, decision=claim.decision.model_copy(update=fields))


def why(claim: Assertion, records: dict[str, RunRecord]) -> str:
    found = audit_brief(BriefClaims([claim], records))
    assert all(f.severity == "error" for f in found)
    return " ".join(f"{f.why} {f.recomputed}" for f in found)


def test_honest_claims_have_no_finding(
    claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    assert len(claims) >= 8
    quantities = {claim.decision.quantity for claim in claims}
    assert quantities >= {
        "throughput_mb_s.all",
        "latency_mean_ns.read",
    }
    assert audit_brief(BriefClaims(claims, records)) == []


def test_runs_that_lost_their_meter_stand_behind_no_claim_of_power(tmp_path: Path) -> None:
    meters: dict[str, Kind] = {"1x SSD": "lost", "16x HDD": "device"}
    store = build_power_store(tmp_path / "run", meters, repeats=3, mixes=(30,))
    comparison = compare(load_dataset([store]))
    claims = make_claims(comparison)
    assert [f for f in audited(comparison, claims) if f.severity == "error"] == []
    of_power = [c for c in claims if c.decision.quantity.startswith("efficiency")]
    assert {sum(map(len, c.decision.runs)) for c in of_power} == {2 + 3}
    assert all("energy-lost" in {m.kind for m in c.marks} for c in of_power)
    of_bytes = [c for c in claims if c.decision.quantity == "throughput_mb_s.all"]
    assert {sum(map(len, c.decision.runs)) for c in of_bytes} == {3 + 3}
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\u00d7", "9\u00d7", "multiple in the sentence"),
        ("\u00a0% less", "3\u00a0% less", "percentage in the sentence"),
    ],
)
def test_a_sentence_with_another_number(
    old: str, new: str, message: str, claims: list[Assertion], records: dict[str, RunRecord]
) -> None:
    claim = next(c for c in claims if old in c.statement)
    assert message in why(replace(claim, statement=claim.statement.replace(old, new, 1)), records)


def test_a_value_in_the_sentence(claims: list[Assertion], records: dict[str, RunRecord]) -> None:
    claim = claims[0]
    number = claim.statement.split(" moved ")[1].split(" ")[0]
    wrong = claim.statement.replace(f"moved {number} ", "moved 1 ")
    assert "A value in the sentence" in why(replace(claim, statement=wrong), records)
    assert why(claim, records) == ""


@pytest.mark.parametrize("kind", ["value", "baseline", "multiple", "inverse", "less"])
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


def test_the_sentences_of_claims(comparison: Comparison) -> None:
    """Check golden sentences, and the numbers that the audit compares with the runs."""
    claims = make_claims(comparison)
    p99 = next(c for c in claims if c.decision.quantity == "latency_p99_ns.read")
    shown = [claims[0], next(c for c in claims if c.kind == "latency"), p99]
    assert [claim.finding.statement.replace("\u00a0", " ") for claim in shown] == [
        "Memory moved 2,979 [2,865\u20133,097] MB/s at 30/70 read/write, 256 KiB, 8 jobs: "
        "3.3\u00d7 [3.0\u20133.6] Disk\u2019s 915 [822\u20131,018] MB/s.",
        "Memory\u2019s mean read latency was 7.71 [7.54\u20137.89] ms at 30/70 read/write, "
        "256 KiB, 8 jobs, against Disk\u2019s 30.5 [26.9\u201334.5] ms: ahead by 4.0\u00d7 "
        "[3.5\u20134.4], 75 % less.",
        "Memory\u2019s p99 read latency was 13.4 [13.1\u201313.6] ms at 30/70 read/write, "
        "256 KiB, 8 jobs, against Disk\u2019s 95.4 [80.8\u2013113] ms: ahead by 7.1\u00d7 "
        "[6.1\u20138.4], 86 % less.",
    ]
    assert [[(n.kind, n.text, n.unit) for n in claim.finding.numbers] for claim in shown] == [
        [
            ("value", "2,979", "MB/s"),
            ("multiple", "3.3", ""),
            ("baseline", "915", "MB/s"),
        ],
        [
            ("value", "7.71", "ms"),
            ("inverse", "4.0", ""),
            ("baseline", "30.5", "ms"),
            ("less", "75", ""),
        ],
        [
            ("value", "13.4", "ms"),
            ("inverse", "7.1", ""),
            ("baseline", "95.4", "ms"),
            ("less", "86", ""),
        ],
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
    first = replace(claim.numbers[0], text="9", words="9", step=1e9)
    wrong = replace(claim, statement=f"{claim.statement} 9", numbers=(first,))
    assert "A value in the sentence" in why(wrong, records)


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
    elsewhere = changed(claims[0], runs=(first, claims[1].decision.runs[1]))
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


def test_an_error_stops_the_brief(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comparison: Comparison
) -> None:
    """Check that an injected defect in the claims prevents the brief from being written."""
    store: ResultStore = build_store(tmp_path / "results", mixes=(30,), repeats=2)

    def exaggerate(found: Comparison, whole: Comparison) -> list[Claim]:
        return [
            replace(c, finding=changed(c.finding, interval=c.decision.ratio.scaled(2)))
            for c in make_claims(found, whole)
        ]

    monkeypatch.setattr(build, "make_claims", exaggerate)
    out = tmp_path / "out" / "brief.html"
    with pytest.raises(AuditError) as caught:
        write_brief(store, out=out, pdf=False)
    assert caught.value.exit_code == ExitCode.AUDIT
    assert "audit stopped the brief" in caught.value.what
    assert caught.value.findings
    assert not out.parent.exists()
    assert audited(comparison, make_claims(comparison))  # the real claims pass


def test_a_directory_is_audited_as_its_brief_is(
    full_store: ResultStore, comparison: Comparison
) -> None:
    of_brief = audited(comparison, make_claims(comparison))
    assert audit_directory(full_store.directory) == of_brief
