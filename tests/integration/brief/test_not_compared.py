"""The first screen states why watts or money are not compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.brief.power_fixture import Kind, build_power_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.not_compared import reason_of
from storlab.analysis.verdict import targets_compared, verdicts
from storlab.brief.build import build_brief
from storlab.brief.not_compared import not_compared
from storlab.model.decision import Reason

SSD, HDD = "1x SSD", "16x HDD"
FREE = {"price": None, "cost": None}


def metered(directory: Path, ssd: Kind, hdd: Kind, header: str = "") -> Comparison:
    meters: dict[str, Kind] = {SSD: ssd, HDD: hdd}
    store = build_power_store(directory, meters, repeats=2, mixes=(30,), header=header)
    return compare(load_dataset([store]))


def reason(found: Comparison, question: str) -> Reason | None:
    page = found.sections[0].page
    (asked,) = [known for known in page.metrics.questions if known.name == question]
    return reason_of(found, asked, targets_compared(found, question))


def priced(found: Comparison, **facts: dict[str, Any]) -> Reason | None:
    """Return why the price of targets ``ssd`` and ``hdd`` with these facts is not compared."""
    given = dict(zip((SSD, HDD), (facts.get("ssd", {}), facts.get("hdd", {})), strict=True))
    found.dataset.targets = [
        replace(column, target=column.target.model_copy(update=given[column.label]))
        for column in found.dataset.targets
    ]
    return reason(found, "cost")


@pytest.mark.parametrize(
    ("ssd", "hdd", "expected"),
    [
        ("wall", "wall", None),
        ("none", "none", Reason(kind="no meter")),
        ("wall", "none", Reason(kind="no meter", targets=(HDD,))),
        (
            "device",
            "wall",
            Reason(kind="unequal boundaries", detail=f"{SSD}: device (DC), {HDD}: wall (AC)"),
        ),
    ],
)
def test_why_power_is_not_compared(
    ssd: Kind, hdd: Kind, expected: Reason | None, tmp_path: Path
) -> None:
    found = metered(tmp_path / "run", ssd, hdd)
    assert reason(found, "efficiency") == expected
    assert len(not_compared(found)) == (expected is not None)
    questions = {verdict.question for verdict in verdicts(found)}
    assert ("efficiency" in questions) == (expected is None)


@pytest.mark.parametrize(
    ("hdd", "kind"), [("wall", "refused"), ("device", "winner"), ("none", "not measured")]
)
def test_a_question_that_is_refused_says_so_instead_of_no_winner(
    hdd: Kind, kind: str, tmp_path: Path
) -> None:
    found = metered(tmp_path / "run", "device", hdd, 'question = ["efficiency"]')
    (verdict,) = verdicts(found)
    assert verdict.kind == kind
    assert (verdict.reason is None) == (kind == "winner")
    assert not_compared(found) == []
    rows = list(found.rows.values())
    assert {row.decisions[SSD]["efficiency_mb_s_w.all"].outcome for row in rows} <= {
        {"winner": "better"}.get(kind, kind),
        "worse",
    }


def test_unequal_boundaries_that_the_study_accepts_are_compared(tmp_path: Path) -> None:
    found = metered(tmp_path / "run", "device", "wall", "accept_unequal_boundaries = true")
    assert not_compared(found) == []


def test_why_money_is_not_compared(tmp_path: Path) -> None:
    def found(**facts: dict[str, Any]) -> Reason | None:
        return priced(compare(load_dataset(stores)), **facts)

    stores = [
        build_power_store(tmp_path / "run", {SSD: "wall", HDD: "wall"}, repeats=2, mixes=(30,))
    ]
    assert found() is None
    assert found(ssd=FREE, hdd=FREE) == Reason(kind="no price")
    assert found(ssd=FREE) == Reason(kind="no price", targets=(SSD,))
    assert found(ssd={"currency": "EUR"}) == Reason(kind="different currencies", detail="EUR, USD")


def test_the_targets_of_several_that_are_left_out_are_named(tmp_path: Path) -> None:
    stores = [
        build_power_store(tmp_path / name, meters, repeats=2, mixes=(30,))
        for name, meters in (("a", {SSD: "wall", HDD: "wall"}), ("b", {SSD: "none", HDD: "device"}))
    ]
    found = compare(load_dataset(stores))
    why = reason(found, "efficiency")
    assert why is not None and (why.kind, why.targets) == ("no meter", ("1x SSD (b)",))
    stores[1] = build_power_store(
        tmp_path / "c", {SSD: "wall", HDD: "device"}, repeats=2, mixes=(30,)
    )
    found = compare(load_dataset(stores))
    why = reason(found, "efficiency")
    assert why is not None and why.kind == "unequal boundaries"
    assert why.targets == ("16x HDD (c)",)
    brief = build_brief(stores[0], stores[1:], beside=tmp_path)
    assert brief.summary.not_compared == not_compared(found)
