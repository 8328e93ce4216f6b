"""Colours are distinguishable and visible, and axes enclose their data."""

from __future__ import annotations

import itertools
import math
import re

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.brief.flags import meanings
from storlab.brief.html import PAGE_DARK, PAGE_LIGHT, colours_of, style_sheet
from storlab.figures.common import slug
from storlab.figures.figure import Figure
from storlab.figures.svg import render
from storlab.figures.theme import (
    DARK,
    LEGEND_CHARACTERS,
    LIGHT,
    SERIES,
    SHAPES,
    configured,
    fill_of,
    label_room,
    legend_columns,
    log_bounds,
    log_ticks,
    sign_of,
)

THEMES = {"light": colours_of(PAGE_LIGHT, LIGHT), "dark": colours_of(PAGE_DARK, DARK)}


def linear(colour: str) -> list[float]:
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def contrast(first: str, other: str) -> float:
    """Return the contrast by WCAG 2: from 1 to 21."""
    weights = (0.2126, 0.7152, 0.0722)
    lights = sorted(
        sum(w * v for w, v in zip(weights, linear(c), strict=True)) for c in (first, other)
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def as_deuteranope(colour: str) -> list[float]:
    """Simulate deuteranopia (Machado et al. 2009, severity 1) in linear RGB."""
    matrix = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
              (-0.011820, 0.042940, 0.968881))  # fmt: skip
    return [sum(m * v for m, v in zip(row, linear(colour), strict=True)) for row in matrix]


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_marks_stand_out(theme: str) -> None:
    colours = THEMES[theme]
    for ground in ("paper", "bg", "soft", "fig-paper"):
        for text in ("ink", "muted", "link", "fig-ink", "fig-muted"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["mark"], colours["mark-bg"]) >= 4.5
    for number in range(1, SERIES + 1):
        assert contrast(colours[f"s{number}"], colours["fig-paper"]) >= 3, number
    for tint in (colour for name, colour in colours.items() if name.startswith("tint-")):
        assert contrast(colours["ink"], tint) >= 4.5, tint
        assert contrast(colours["mark"], tint) >= 4.5, tint


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_the_first_targets_differ_for_colour_blind_people(palette: dict[str, str]) -> None:
    seen = [as_deuteranope(palette[f"s{n}"]) for n in (1, 2, 3)]
    for first, other in itertools.combinations(seen, 2):
        assert math.dist(first, other) > 0.1


def test_both_themes_know_every_role() -> None:
    assert THEMES["light"].keys() == THEMES["dark"].keys()
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", style_sheet()))
    assert used - {"accent", "figures", "least"} <= THEMES["light"].keys()


@given(st.lists(st.floats(min_value=1, max_value=1e12), min_size=1, max_size=20))
def test_a_logarithmic_axis_holds_its_data_and_has_ticks(values: list[float]) -> None:
    low, high = log_bounds(values)
    assert low <= min(values) <= max(values) <= high
    assert low > 0
    assert len(log_ticks(low, high)) >= 1
    assert all(low * 0.99 <= tick <= high * 1.01 for tick in log_ticks(low, high))


def test_what_was_not_measured_is_hatched() -> None:
    assert fill_of(0, "measured") == "var(--s1)"
    assert fill_of(7, "modelled") == "url(#hatch-s2)"
    assert fill_of(0, "emulated") == "url(#hatch-s1)"


def test_a_long_name_stands_whole_in_a_legend() -> None:
    name = "NVMe directory (XFS, single drive, node-local)"
    data = alt.Data(values=[{"x": 1, "target": name}])
    chart = alt.Chart(data).mark_point().encode(x="x:Q", color="target:N").properties(width=340)
    svg = render(Figure("a", "kind", "", "", configured(chart, {}), [], []))
    assert f">{name}<" in svg


def test_printed_numbers_keep_their_digits_in_a_drawing() -> None:
    data = alt.Data(values=[{"x": 0.123456, "text": "0.00412"}])
    chart = alt.Chart(data).mark_text().encode(x="x:Q", text="text:N")
    figure = Figure("a", "kind", "", "", configured(chart, {}), [], [])
    svg = render(figure)
    assert ">0.00412<" in svg
    assert not re.search(r'="[^"]*\d\.\d{3}', svg)


def test_file_names_are_plain() -> None:
    assert slug("throughput", "70/30 read/write", "256\u00a0KiB") == (
        "throughput-70-30-read-write-256-kib"
    )


def test_marks_have_short_labels_of_their_own() -> None:
    labels = [m.label for m in meanings().values()]
    assert len(set(labels)) == len(labels)
    assert max(map(len, labels)) <= 20


@given(st.floats(1e-3, 1e12), st.floats(1e-3, 1e12), st.integers(1, 9))
def test_a_narrow_axis_has_no_more_ticks_than_find_room(
    first: float, other: float, most: int
) -> None:
    low, high = log_bounds([first, other])
    assert 1 <= len(log_ticks(low, high, most=most)) <= most


def test_every_target_has_a_sign_of_its_own_in_tables_too() -> None:
    assert len({sign_of(index) for index in range(len(SHAPES))}) == len(SHAPES) == SERIES


def test_labels_stand_on_bars_only_where_they_find_room() -> None:
    assert label_room(["12.3"] * 4, 340)
    assert not label_room(["12,345"] * 12, 340)
    assert label_room([], 340)


def test_a_legend_is_no_wider_than_its_drawing() -> None:
    assert legend_columns(["Disk", "Memory"]) == 0
    long = ["a" * LEGEND_CHARACTERS, "b"]
    assert legend_columns(long) == 1
    assert legend_columns(["Target number one"] * 4) == 2
