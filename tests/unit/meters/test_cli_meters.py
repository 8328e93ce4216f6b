"""``storlab meters`` on this machine."""

from __future__ import annotations

import json

import pytest

from storlab.cli.main import main
from storlab.contracts.registry import METERS


def test_every_kind_of_meter_says_what_it_is_and_how_to_get_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["meters", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["meters"]
    assert {sensor["kind"] for sensor in found} == set(METERS)
    for sensor in found:
        assert all(sensor[name] for name in ("sensor", "rate", "accuracy", "privilege", "how")), (
            sensor
        )


def test_one_kind_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["meters", "declared"]) == 0
    printed = capsys.readouterr().out
    assert "joules_per_gb_read" in printed
    assert "1 available, 0 not" in printed


def test_a_misspelled_kind_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["meters", "rapel"]) == 2
    assert 'did you mean "rapl"?' in capsys.readouterr().err
