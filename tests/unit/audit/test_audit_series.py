"""Series that leave their trend and return, and series that only bend."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, findings

RULE = "series"


def series(*values: str, metric: str = "throughput", unit: str = "MB/s") -> list[dict[str, str]]:
    return [cell(metric, value, unit, at=str(2**i)) for i, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "strays"),
    [
        ("100 205 120 790 1,500", 1),
        ("1,500 1,500 600 1,500 1,500", 1),
        ("1,500 900 1,300 400 210", 1),
        ("10 20 40 80 30 320", 1),
        ("100 205 410 120 130 3,200 6,500", 2),
        ("100 205 410 820 300 310 320 12,800", 3),
        ("100 205 410 3,900 3,950 1,600 3,300", 2),
        ("1,500 1,450 1,510 600 620 1,500 1,490", 2),  # a plateau, even to 4 %
        ("6,400 3,200 1,600 6,100 6,000 200 100", 2),
    ],
)
def test_points_off_their_series_are_a_note(values: str, strays: int) -> None:
    (found,) = findings(RULE, *series(*values.split()))
    assert found.severity == "note"
    assert len(found.rows) == strays + 2


@pytest.mark.parametrize(
    "values",
    [
        "100 205 400 790 1,500",
        "100 500 900 900 880 700",  # saturates, then falls
        "100 205 210 190 1,500",  # a step back of a tenth
        "100 205 120 790",  # too few points for a trend
        "100 50 300 20 400 10",  # no trend at all
        "100 205 400 790 20",  # the end does not return
        "100 205 400 790 600",  # a peak, then a decline
        "100 205 400 790 800 600",
        "100 205 400 790 600 610 580",  # a peak, then a lower plateau
        "100 200 400 800 1,500 1,520 1,490 1,510",  # saturates
        "1,000 1,030 970 1,010 1,180 990 1,020",  # noise of 3 %, once of 18 %
        "1,000 1,210 830 1,150 790 1,300 900 1,120",  # noise of 20 %
        "900 500 210 200 220 500 950",  # falls and recovers, as latency over block size may
        "100 205 400 150 160 170 180",  # falls to another level and stays there
    ],
)
def test_series_that_bend_are_left_alone(values: str) -> None:
    assert findings(RULE, *series(*values.split())) == []


def test_series_of_different_places_are_not_joined() -> None:
    rows = series("100", "205", "120", "790", "1,500")
    rows[2]["block_size"] = "4MB"
    assert findings(RULE, *rows) == []
