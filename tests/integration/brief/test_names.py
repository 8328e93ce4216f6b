"""Target names that look like numbers, ratios or lists do not break a brief."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis import digits
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.audit.from_claims import BriefClaims, audit_brief
from storlab.brief.audit_input import audited
from storlab.brief.build import build_brief
from storlab.brief.html import render_html
from storlab.brief.key_findings import assertions, key_findings
from support.made_comparisons import findings_of

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
    findings = key_findings(comparison)
    assert assertions(findings)
    errors = [f for f in audited(comparison, findings) if f.severity == "error"]
    assert [f"{f.printed}: {f.recomputed}" for f in errors] == []


@pytest.mark.parametrize("names", NAMES)
def test_numbers_are_still_checked_beside_such_names(
    names: tuple[str, str], tmp_path: Path
) -> None:
    store = build_store(tmp_path / "named", mixes=(70,), repeats=2, names=names)
    comparison = compare(load_dataset([store]))
    records = {run.record.run_id: run.record for run in comparison.dataset.all_runs()}
    finding = findings_of(comparison)["throughput_mb_s.all"]
    assert audit_brief(BriefClaims([finding], records)) == []
    assert digits.times(finding.decision.advantage) in finding.statement
    for number in finding.numbers:
        words = number.words.replace(number.text, "77", 1)
        wrong = replace(
            finding,
            statement=finding.statement.replace(number.words, words),
            numbers=tuple(
                replace(n, text="77", words=words) if n is number else n for n in finding.numbers
            ),
        )
        (error,) = audit_brief(BriefClaims([wrong], records))
        assert (error.rule, error.severity) == ("own_claim", "error")
        assert "in the sentence differs from that of the runs" in error.why


def test_a_name_at_the_beginning_of_a_sentence_stays_as_it_was_written(tmp_path: Path) -> None:
    store = build_store(tmp_path / "named", mixes=(70,), repeats=2, names=("eMMC", "nvme0n1"))
    brief = build_brief(store, beside=tmp_path)
    assert brief.head.subtitle.startswith("eMMC ")
    assert "nvme0n1" in brief.head.subtitle
    assert all(
        f" of nvme0n1 against eMMC at {row.decision.where}" in row.statement
        for row in assertions(brief.findings.tables)
    )
    page = render_html(brief)
    assert "EMMC" not in page
    assert "Nvme0n1" not in page


def test_a_point_with_numbers_in_its_words_is_no_value(tmp_path: Path) -> None:
    store = build_store(tmp_path / "named", mixes=(70,), repeats=2)
    comparison = compare(load_dataset([store]))
    records = {run.record.run_id: run.record for run in comparison.dataset.all_runs()}
    finding = findings_of(comparison)["throughput_mb_s.all"]
    where = "5 ms think time, 2\u00d7 8 jobs, 100 MB/s"
    statement = finding.statement.replace(finding.decision.where, where)
    assert statement != finding.statement
    assert audit_brief(BriefClaims([replace(finding, statement=statement)], records)) == []
