"""A series that leaves its trend and comes back, and series that only bend."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, findings

RULE = "series"


def series(*values: str, metric: str = "throughput", unit: str = "MB/s") -> list[dict[str, str]]:
    return [cell(metric, value, unit, at=str(2**i)) for i, value in enumerate(values)]


@pytest.mark.parametrize(
    "values",
    [
        ("100", "205", "120", "790", "1,500"),
        ("1,500", "1,500", "600", "1,500", "1,500"),
        ("1,500", "900", "1,300", "400", "210"),
        ("10", "20", "40", "80", "30", "320"),
    ],
)
def test_a_point_off_its_series_is_a_note(values: tuple[str, ...]) -> None:
    (found,) = findings(RULE, *series(*values))
    assert found.severity == "note"
    assert "comes back" in found.why
    assert len(found.rows) == 3


@pytest.mark.parametrize(
    "values",
    [
        ("100", "205", "400", "790", "1,500"),
        ("100", "500", "900", "900", "880", "700"),  # saturates, then falls
        ("100", "205", "210", "190", "1,500"),  # a step back of a tenth
        ("100", "205", "120", "790"),  # too few points for a trend
        ("100", "50", "300", "20", "400", "10"),  # no trend at all
        ("100", "205", "400", "790", "20"),  # the end does not come back
    ],
)
def test_series_that_bend_are_left_alone(values: tuple[str, ...]) -> None:
    assert findings(RULE, *series(*values)) == []


def test_series_of_different_places_are_not_joined() -> None:
    rows = series("100", "205", "400", "790", "1,500")
    rows[2]["block_size"] = "4MB"
    assert findings(RULE, *rows) == []
