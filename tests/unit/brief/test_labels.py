"""Labels beside numbers: at most three, those of a whole row or table only once, none lost."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import altair as alt
from hypothesis import given
from hypothesis import strategies as st

from storlab.brief.flags import Mark, labels, labels_text, mark, meanings
from storlab.brief.model import DataTable, Number, TableRow
from storlab.figures.figure import DAGGER, Figure
from storlab.figures.footer import MOST_LABELS
from storlab.figures.svg import render, standalone
from storlab.figures.theme import LIGHT, configured

KINDS = list(meanings())
MARKS = st.lists(st.sampled_from(KINDS), unique=True, max_size=6).map(
    lambda kinds: tuple(mark(kind, "") for kind in kinds)
)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(MARKS, min_size=width, max_size=width), max_size=4)
)


def table(rows: list[list[tuple[Mark, ...]]]) -> DataTable:
    made = [
        TableRow([], "A", 0, [Number("1", marks=marks) for marks in row], first=True, links=[])
        for row in rows
    ]
    width = len(rows[0]) if rows else 0
    return DataTable("", [], [("", "")] * width, made)


@given(TABLES)
def test_condensing_a_table_loses_no_mark_of_any_number(rows: list[list[tuple[Mark, ...]]]) -> None:
    before = table(rows)
    after = before.condensed()
    everywhere = {m.kind for m in after.everywhere}
    extra = len(after.columns) - len(before.columns)
    assert extra in (0, 1)
    for row, given_row in zip(after.rows, rows, strict=True):
        assert len(row.numbers) == len(after.columns)
        of_row = {m.kind for number in row.numbers[len(given_row) :] for m in number.marks}
        for number, marks in zip(row.numbers, given_row, strict=False):
            own = {m.kind for m in number.marks}
            assert {m.kind for m in marks} <= own | of_row | everywhere
            assert not own & (of_row | everywhere)


def test_marks_of_all_rows_stand_once() -> None:
    busy, few = mark("busy-machine", "why"), mark("few-operations", "")
    made = table([[(busy,), (busy, few)], [(busy,), (busy,)]]).condensed()
    assert [m.kind for m in made.everywhere] == ["busy-machine"]
    assert [[m.kind for m in n.marks] for n in made.rows[0].numbers] == [[], ["few-operations"]]
    assert made.everywhere[0].message == ""


@given(MARKS)
def test_at_most_three_labels_are_printed_and_the_others_counted(marks: tuple[Mark, ...]) -> None:
    first, rest = labels(marks)
    assert len(first) <= MOST_LABELS
    assert {m.kind for m in (*first, *rest)} == {m.kind for m in marks}
    assert (f"+{len(rest)}" in labels_text(marks)) == bool(rest)


def test_what_qualifies_claims_comes_first() -> None:
    kinds = ("few-operations", "engine-note", "share", "client-bound")
    first, _ = labels([mark(kind, "") for kind in kinds])
    assert first[0].kind == "client-bound"


def test_a_figure_for_slides_has_its_flags_in_metadata_only() -> None:
    chart = alt.Chart(alt.Data(values=[{"x": 1.0}])).mark_point().encode(x="x:Q")
    plain = Figure("a", "kind", "A is fast", "", configured(chart, {}), [], [], ["0123abcd"])
    flagged = replace(plain, flags=("client-bound: A",), foot=(f"Source: a study {DAGGER}",))
    for figure in (plain, flagged):
        svg = standalone(render(figure), figure, LIGHT)
        (metadata,) = re.findall(r"<metadata>(.*?)</metadata>", svg)
        assert json.loads(metadata)["flags"] == [*figure.flags]
        assert json.loads(metadata)["points"] == ["0123abcd"]
        drawn = svg.replace(metadata, "")
        assert "client-bound" not in drawn
        assert (DAGGER in drawn) == bool(figure.flags)
