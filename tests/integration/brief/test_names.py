"""Target names that look like numbers, ratios or lists do not break a brief."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis import digits
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.brief.audit_input import audited
from storlab.brief.build import build_brief
from storlab.brief.claims import make_claims
from storlab.brief.html import render_html

NAMES = [
    ("4x SSD", "16x HDD"),
    ("4\u00d7 SSD", "16\u00d7 HDD"),
    ("5 ms drive", "100 MB/s drive"),
    ("SSD 7 % less", "2 times as much"),
    ("A / B", "B"),
    ("4", "5"),
    ("disk", "disk 2\u00d7"),
]


@pytest.mark.parametrize("names", NAMES)
def test_a_brief_is_written_whatever_its_targets_are_called(
    names: tuple[str, str], tmp_path: Path
) -> None:
    store = build_store(tmp_path / "named", mixes=(70,), repeats=2, names=names)
    comparison = compare(load_dataset([store]))
    claims = make_claims(comparison)
    assert claims
    errors = [f for f in audited(comparison, claims) if f.severity == "error"]
    assert [f"{f.printed}: {f.recomputed}" for f in errors] == []


@pytest.mark.parametrize("names", NAMES)
def test_numbers_are_still_checked_beside_such_names(
    names: tuple[str, str], tmp_path: Path
) -> None:
    store = build_store(tmp_path / "named", mixes=(70,), repeats=2, names=names)
    comparison = compare(load_dataset([store]))
    claim = make_claims(comparison)[0]
    finding = claim.finding
    value = next(n for n in finding.numbers if n.kind == "value")
    assert f"moved {value.text} " in finding.statement
    assert digits.times(claim.decision.advantage) in finding.statement
    for number in finding.numbers:
        words = number.words.replace(number.text, "77", 1)
        wrong = replace(
            finding,
            statement=finding.statement.replace(number.words, words),
            numbers=tuple(
                replace(n, text="77", words=words) if n is number else n for n in finding.numbers
            ),
        )
        found = audited(comparison, [replace(claim, finding=wrong)])
        errors = [f for f in found if f.severity == "error"]
        assert [f.rule for f in errors] == ["own_claim"]
        assert "in the sentence differs from that of the runs" in errors[0].why


def test_a_name_at_the_beginning_of_a_sentence_stays_as_it_was_written(tmp_path: Path) -> None:
    store = build_store(tmp_path / "named", mixes=(70,), repeats=2, names=("eMMC", "nvme0n1"))
    brief = build_brief(store, beside=tmp_path)
    findings = brief.findings
    assert brief.head.subtitle.startswith("eMMC ")
    assert "nvme0n1" in brief.head.subtitle
    assert {claim.finding.statement.split()[0].partition("’")[0] for claim in findings.claims} == {
        "nvme0n1"
    }
    page = render_html(brief)
    assert "EMMC" not in page
    assert "Nvme0n1" not in page


def test_a_point_with_numbers_in_its_words_is_no_value(tmp_path: Path) -> None:
    store = build_store(tmp_path / "named", mixes=(70,), repeats=2)
    comparison = compare(load_dataset([store]))
    claim = make_claims(comparison)[0]
    where = "5 ms think time, 2\u00d7 8 jobs, 100 MB/s"
    statement = claim.finding.statement.replace(claim.decision.where, where)
    assert statement != claim.finding.statement
    elsewhere = replace(claim, finding=replace(claim.finding, statement=statement))
    assert [f for f in audited(comparison, [elsewhere]) if f.severity == "error"] == []
