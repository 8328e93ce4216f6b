"""Names of targets that look like numbers, ratios or lists do not stop a brief."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.stats import Interval
from storlab.audit.from_claims import ClaimData, ClaimSide, without_names
from storlab.brief.audited import audited, claim_data
from storlab.brief.claims import make_claims

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
    text = without_names(claim_data(comparison, claim))
    said = claim.sentence.split(" moved ")[1].split(" ")[0]
    assert f"moved {said} " in text
    assert claim.big in text
    assert names[0] not in text.removeprefix(names[0][:1]) or len(names[0]) == 1


def test_a_point_with_numbers_in_its_words_is_no_value() -> None:
    where = "5 ms think time, 8 jobs"
    claim = ClaimData(
        f"4\u00d7 SSD moved 100 MB/s at {where}: 2.00\u00d7 4\u00d7 HDD\u2019s 50.0 MB/s.",
        "throughput_mb_s.all",
        Interval(2.0, None, None, 1),
        (ClaimSide("4\u00d7 SSD", ("a",)), ClaimSide("4\u00d7 HDD", ("b",))),
        where=where,
    )
    assert without_names(claim) == (
        " moved 100 MB/s at that point: 2.00\u00d7 the baseline\u2019s 50.0 MB/s."
    )
