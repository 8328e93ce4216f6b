"""Text, drawings and candidates of a history, without directories."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from storlab.figures.trend import Mark, Trend, Turn, date_text, draw_trend
from storlab.history.page import Briefs, point_view
from storlab.history.record import PointRecord, Record, Value
from storlab.history.series import history_of
from storlab.model.decision import Interval

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {"kernel": "Linux 6.8", "targets.Disk.drives.1.firmware": "A", "targets.Other.kind": "file"}


def record(number: int, value: float | None, facts: dict[str, Any]) -> Record:
    values = {}
    if value is not None:
        values["throughput_mb_s.all"] = {
            "estimate": value, "low": value * 0.99, "high": value * 1.01, "runs": [value, value],
        }  # fmt: skip
    point: PointRecord = {
        "kind": "block", "workload": "block", "engine": "native",
        "params": {"jobs": 1, "block_size": 4096}, "target": "Disk", "point_id": "p",
        "started_at": (BEGIN + timedelta(days=number)).isoformat(), "runs": 2, "failed": 0,
        "flags": [], "values": values,
    }  # fmt: skip
    return {
        "study": "s", "plan_hash": str(number), "created_at": BEGIN.isoformat(),
        "imported": not facts, "facts": facts, "points": [point],
    }  # fmt: skip


def made(facts: list[dict[str, Any]], change: int, missing: tuple[int, ...] = ()) -> Any:
    """Return a point whose throughput falls from 100 to 90 at a result, with 1 % noise."""
    records = {
        f"/results/{i:03d}": record(
            i, None if i in missing else (100 if i < change else 90) + (i * 7 % 5 - 2) * 0.3, own
        )
        for i, own in enumerate(facts)
    }
    (point,) = history_of(records).points
    return point


def test_candidates_are_those_of_the_target_nearest_and_rarest_first() -> None:
    facts = [
        {
            **FACTS,
            "kernel": "Linux 6.9" if i >= 21 else "Linux 6.8",
            "targets.Disk.drives.1.firmware": "B" if i >= 20 else "A",
            "targets.Other.kind": "null" if i >= 20 else "file",
            "cpu.governor": str(i),
            "memory.total_bytes": 2 if i >= 30 else 1,
        }
        for i in range(40)
    ]
    point = made(facts, 20)
    (shift,) = point.series[0].shifts
    assert shift.index == 20
    assert shift.verdict == "worse"
    named = [(c.difference.field, c.offset, c.elsewhere) for c in shift.candidates]
    assert named == [("drives.1.firmware", 0, 0), ("cpu.governor", 0, 38), ("kernel", 1, 0)]


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [("settings.seed", 1, 2), ("cluster.kernel", "6.8", "6.9"), ("size", "1GiB", "2GiB")],
)
def test_settings_of_the_study_are_candidates(field: str, before: Any, after: Any) -> None:
    path = field if "." in field else f"targets.Disk.{field}"
    point = made([{**FACTS, path: before if i < 20 else after} for i in range(40)], 20)
    (shift,) = point.series[0].shifts
    (found,) = shift.candidates
    assert (found.difference.field, found.difference.there) == (field, before)


def test_between_two_results_all_that_lack_the_quantity_are_near() -> None:
    facts = [{**FACTS, "kernel": "new" if i >= 18 else "old"} for i in range(40)]
    point = made(facts, 21, missing=(18, 19, 20))
    (shift,) = point.series[0].shifts
    assert shift.index == 21
    assert [(c.difference.field, c.offset) for c in shift.candidates] == [("kernel", 0)]


def test_nothing_is_known_of_imported_results() -> None:
    point = made([FACTS if i < 20 else {} for i in range(40)], 20)
    (shift,) = point.series[0].shifts
    assert shift.candidates == ()


def test_flags_on_the_state_of_drives_are_candidates_and_others_are_not() -> None:
    records = {f"/r/{i:03d}": record(i, (100 if i < 20 else 90) + (i * 7 % 5 - 2) * 0.3, FACTS)
               for i in range(40)}  # fmt: skip
    for i, name in enumerate(records):
        flags = ["throttled", "client-bound"] if i >= 20 else ["worn"] if i < 3 else []
        records[name]["points"][0]["flags"] = flags
    (point,) = history_of(records).points
    (shift,) = point.series[0].shifts
    (found,) = shift.candidates
    difference = found.difference
    assert (difference.field, difference.there, difference.here) == ("throttled", "no", "yes")


def test_a_change_below_the_resolution_of_a_value_is_none() -> None:
    records = {f"/r/{i}": record(i, 1000.0 if i < 20 else 1000.5, dict(FACTS)) for i in range(40)}
    (point,) = history_of(records).points
    assert point.shifts == []


def test_the_verdict_is_of_the_means_that_the_size_is_of(tmp_path: Path) -> None:
    """Check that verdict and size use the same mean, despite an outlier."""
    values = [100 + (i * 7 % 5 - 2) * 0.3 - (5 if i >= 20 else 0) for i in range(40)]
    values[30] = 220.0
    records = {f"/r/{i:03d}": record(i, value, FACTS) for i, value in enumerate(values)}
    (point,) = history_of(records).points
    (shift,) = point.shifts
    assert shift.ratio.estimate < 1
    assert shift.verdict == "worse"
    assert shift.ratio is not None
    assert shift.after / shift.before == pytest.approx(shift.ratio.estimate)
    view = next(iter(point_view(point, Briefs(tmp_path)).courses))
    before, after = re.findall(r'M[\d.]+ ([\d.]+)H[\d.]+" stroke="[^"]*s2', view.drawings[0][1])
    assert float(after) > float(before)  # further down


def test_a_row_is_of_one_change(tmp_path: Path) -> None:
    """Check that time and cause of the last change are not mixed with an older change."""
    records = {}
    for i in range(60):
        facts = {**FACTS, "kernel": "new" if i >= 20 else "old", "cpu.governor": f"{i >= 40}"}
        own = record(i, (100 if i < 20 else 90) + (i * 7 % 5 - 2) * 0.3, facts)
        waited = (1e6 if i < 40 else 5e5) * (1 + (i * 3 % 5 - 2) * 0.003)
        own["points"][0]["values"]["latency_p99_ns.read"] = {
            "estimate": waited, "low": None, "high": None, "runs": [waited],
        }  # fmt: skip
        records[f"/r/{i:03d}"] = own
    (point,) = history_of(records).points
    view = point_view(point, Briefs(tmp_path))
    first = view.changes[0]
    assert first.rows[0].title.startswith("Read latency")
    assert (view.change, view.verdict) == (first.rows[0].text, "better")
    assert view.change_value == pytest.approx(-0.5, rel=0.01)
    assert (view.newest, view.changed) == (first.date, first.rows[0].title)
    assert view.candidate == first.candidates[0] == "CPU governor: False, then True"


def test_power_of_another_boundary_is_another_quantity(tmp_path: Path) -> None:
    """Check that a change of the power boundary (10 W device, 25 W wall) is no change of value."""
    records = {}
    for i in range(40):
        own = record(i, 100 + (i * 7 % 5 - 2) * 0.3, FACTS)
        watts = (10.0 if i < 20 else 25.0) * (1 + (i * 3 % 5 - 2) * 0.003)
        value: Value = {"estimate": watts, "low": None, "high": None, "runs": [watts]}
        own["points"][0]["values"]["efficiency_mb_s_w.all"] = (
            {**value, "boundary": "device" if i < 20 else "wall"} if i < 38 else value
        )
        records[f"/r/{i:03d}"] = own
    (point,) = history_of(records).points
    assert point.shifts == []
    power = [series for series in point.series if series.column.is_power]
    assert [(s.boundary, len(s.places)) for s in power] == [("device", 20), ("wall", 18), ("", 2)]
    assert power[1].title == "throughput per watt at the wall"
    view = point_view(point, Briefs(tmp_path))
    assert len({course.figure.name for course in view.courses}) == len(view.courses) == 4
    assert len(view.heads) == len(view.rows[0].cells) == 4


@pytest.mark.parametrize(
    ("supplies", "told"),
    [
        (["AC", ""], [("wall (AC)", 40, 1)]),
        (["", "DC"], [("wall (DC)", 40, 1)]),
        (["", ""], [("wall", 40, 1)]),
        (["AC", "DC"], [("wall (AC)", 20, 0), ("wall (DC)", 20, 0)]),
        (["AC", "", "", "DC"], [("wall (AC)", 10, 0), ("wall", 20, 1), ("wall (DC)", 10, 0)]),
    ],
)
def test_a_supply_that_is_not_told_is_the_one_that_is(
    supplies: list[str], told: list[tuple[str, int, int]]
) -> None:
    """Check that an unknown supply counts as the known one, so a doubling is found."""
    records = {}
    for i in range(40):
        own = record(i, 100 + (i * 7 % 5 - 2) * 0.3, FACTS)
        watts = (10.0 if i < 20 else 20.0) * (1 + (i * 3 % 5 - 2) * 0.003)
        value: Value = {
            "estimate": watts, "low": None, "high": None, "runs": [watts],
            "boundary": "wall", "supply": supplies[i * len(supplies) // 40],
        }  # fmt: skip
        own["points"][0]["values"]["efficiency_mb_s_w.all"] = value
        records[f"/r/{i:03d}"] = own
    (point,) = history_of(records).points
    power = [series for series in point.series if series.column.is_power]
    assert [(s.boundary, len(s.places), len(s.shifts)) for s in power] == told


def test_a_change_has_levels_and_their_ratio() -> None:
    point = made([FACTS] * 40, 20)
    (shift,) = point.series[0].shifts
    assert shift.ratio.estimate == pytest.approx(0.9, rel=0.001)
    assert shift.levels == (pytest.approx(100, rel=0.01), pytest.approx(90, rel=0.01), "MB/s")


@pytest.mark.parametrize("number", [1, 2, 40, 1000])
@pytest.mark.parametrize("step", [timedelta(minutes=5), timedelta(days=1), timedelta(days=40)])
def test_a_drawing_is_sound_at_any_length_and_pace(number: int, step: timedelta) -> None:
    marks = [
        Mark((BEGIN + i * step).timestamp(), Interval(100.0 + i % 7, 99.0, 108.0, 2), [99.5, 101.0])
        for i in range(number)
    ]
    turns = [Turn(number // 2, "<−5 %>")] if number > 10 else []
    for wide in (False, True):
        svg, shares = draw_trend(Trend(marks, turns, "MB/s"), wide=wide)
        root = ElementTree.fromstring(svg)
        assert len(shares) == number
        assert shares == sorted(shares)
        assert all(0 < share < 1 for share in shares)
        texts = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
        assert any("MB/s" in text for text in texts)
        assert ("<−5 %>" in texts) == bool(turns)
        values = [float(t) for t in texts if re.fullmatch(r"\d+(\.\d+)?", t)]
        assert len(values) >= 2


def test_results_within_an_hour_have_times_below_them() -> None:
    times = [BEGIN + timedelta(minutes=minute) for minute in (10, 30, 50)]
    marks = [Mark(time.timestamp(), Interval(100.0, 99.0, 108.0, 2), []) for time in times]
    svg, _ = draw_trend(Trend(marks, [], "MB/s"), wide=True)
    texts = [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    times = [text for text in texts if text.startswith("1 Jan ")]
    assert len(times) > 1
    assert all("1 Jan 00:05" <= time <= "1 Jan 00:55" for time in times)


@pytest.mark.parametrize(
    ("low", "high", "unit", "words"),
    [
        (117_000, 126_000, "ns", ["µs", "115.0", "117.5", "120.0", "122.5", "125.0", "127.5"]),
        (1_301_000, 1_304_000, "ns", ["ms", "1.300", "1.301", "1.302", "1.303", "1.304", "1.305"]),
        (0.26, 1.24, "W", ["W", "0.00", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50"]),
        (1e9, 3e9, "ns", ["s", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0", "3.5"]),
    ],
)
def test_a_tick_says_its_own_value(low: float, high: float, unit: str, words: list[str]) -> None:
    marks = [
        Mark((BEGIN + timedelta(days=i)).timestamp(), Interval(v, None, None, 1), [v])
        for i, v in enumerate((low, high))
    ]
    svg, _ = draw_trend(Trend(marks, [], unit))
    texts = [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    assert texts[: len(words)] == words


def test_values_that_do_not_vary_have_an_axis() -> None:
    for value in (0.0, 1e-9, 5.0, 1e12):
        mark = Mark(BEGIN.timestamp(), Interval(value, None, None, 1), [value])
        svg, shares = draw_trend(Trend([mark], [], "ns"))
        assert "nan" not in svg
        assert len(shares) == 1


def test_dates_are_utc_and_unknown_ones_are_dashes() -> None:
    assert date_text(datetime(2026, 11, 20, 11, 30, tzinfo=UTC)) == "20 Nov 2026, 11:30"
    assert date_text(datetime.fromtimestamp(0, UTC)) == "–"
