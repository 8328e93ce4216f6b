"""The first screen states why watts or money are not compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.brief.power_fixture import Kind, build_power_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.verdict import verdicts
from storlab.brief.build import build_brief
from storlab.brief.not_compared import not_compared

SSD, HDD = "1x SSD", "16x HDD"
FREE = {"price": None, "cost": None}


def metered(directory: Path, ssd: Kind, hdd: Kind, header: str = "") -> Comparison:
    meters: dict[str, Kind] = {SSD: ssd, HDD: hdd}
    store = build_power_store(directory, meters, repeats=2, mixes=(30,), header=header)
    return compare(load_dataset([store]))


def priced(found: Comparison, **facts: dict[str, Any]) -> str:
    """Return the text for targets ``ssd`` and ``hdd`` with these facts."""
    given = dict(zip((SSD, HDD), (facts.get("ssd", {}), facts.get("hdd", {})), strict=True))
    found.dataset.targets = [
        replace(column, target=column.target.model_copy(update=given[column.label]))
        for column in found.dataset.targets
    ]
    return not_compared(found)


@pytest.mark.parametrize(
    ("ssd", "hdd", "told"),
    [
        ("wall", "wall", ""),
        ("none", "none", "Not compared: watts (no meter was read)."),
        ("wall", "none", "Not compared: watts (only 1x SSD was metered)."),
        (
            "device",
            "wall",
            "Not compared: watts (unequal boundaries: 1x SSD at device (DC), 16x HDD at wall "
            "(AC)).",
        ),
    ],
)
def test_why_watts_are_not_compared(ssd: Kind, hdd: Kind, told: str, tmp_path: Path) -> None:
    found = metered(tmp_path / "run", ssd, hdd)
    assert not_compared(found) == told
    assert ("efficiency" in {verdict.question for verdict in verdicts(found)}) == (not told)


def test_unequal_boundaries_that_the_study_accepts_are_compared(tmp_path: Path) -> None:
    found = metered(tmp_path / "run", "device", "wall", "accept_unequal_boundaries = true")
    assert not_compared(found) == ""


def test_why_money_is_not_compared(tmp_path: Path) -> None:
    def sentence(**facts: dict[str, Any]) -> str:
        return priced(compare(load_dataset(stores)), **facts)

    stores = [
        build_power_store(tmp_path / "run", {SSD: "wall", HDD: "wall"}, repeats=2, mixes=(30,))
    ]
    assert sentence() == ""
    assert sentence(ssd=FREE, hdd=FREE) == "Not compared: money (no price is declared)."
    assert sentence(ssd=FREE) == "Not compared: money (only 16x HDD has a price)."
    euros = {"currency": "EUR"}
    assert sentence(ssd=euros) == "Not compared: money (prices are in EUR and USD)."


def test_the_targets_of_several_that_are_left_out_are_named(tmp_path: Path) -> None:
    stores = [
        build_power_store(tmp_path / name, meters, repeats=2, mixes=(30,))
        for name, meters in (("a", {SSD: "wall", HDD: "wall"}), ("b", {SSD: "none", HDD: "device"}))
    ]
    found = compare(load_dataset(stores))
    assert "unequal boundaries: " in not_compared(found)
    stores[1] = build_power_store(
        tmp_path / "c", {SSD: "none", HDD: "wall"}, repeats=2, mixes=(30,)
    )
    found = compare(load_dataset(stores))
    assert not_compared(found) == "Not compared: watts of 1x SSD (c) (not metered)."
    brief = build_brief(stores[0], stores[1:], beside=tmp_path)
    assert brief.summary.not_compared == not_compared(found)
