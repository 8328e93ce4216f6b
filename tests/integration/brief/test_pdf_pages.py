"""Pages of the PDF: filled, without a bullet split over two or a title alone at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import typst

from integration.brief.brief_fixture import build_store
from integration.brief.power_fixture import Kind, build_power_store
from integration.conftest import Made
from storlab.brief.build import build_brief
from storlab.brief.model import DataTable, Number, TableRow
from storlab.brief.pdf import _widths, _workplace, render_pages
from storlab.figures.signs import DRAWN_SIGNS
from storlab.results.store import ResultStore
from support.png import brightness

POWER: dict[str, Kind] = {"1x SSD": "device", "16x HDD": "wall"}
# The pages on which these words are, according to typst's output.
ASKED = """
#show "BEGINS": word => [#metadata("begins")<place>#word]
#show "ENDS": word => [#metadata("ends")<place>#word]
"""
TOLD = """
#context [#metadata(query(<place>).map(p => (p.value, p.location().page())))<told>]
"""


def places(workplace: Path, model: dict[str, Any]) -> list[tuple[str, int]]:
    """Return each word with its page, in order."""
    template = (workplace / "brief.typ").read_text("utf-8")
    source = workplace / "asked.typ"
    source.write_text(ASKED + template.replace("brief.json", "asked.json") + TOLD, "utf-8")
    (workplace / "asked.json").write_text(json.dumps(model), "utf-8")
    told = json.loads(typst.query(str(source), "<told>", field="value", one=True))
    return [(word, page) for word, page in told]


@pytest.fixture(scope="module")
def workplace(made: Made) -> Any:
    brief = build_brief(made.store, beside=made.store.directory)
    with _workplace(brief) as source:
        yield Path(source).parent


def model_of(workplace: Path) -> dict[str, Any]:
    """Return the brief without figures, which these tests do not need."""
    model: dict[str, Any] = json.loads((workplace / "brief.json").read_text("utf-8"))
    return {**model, "sections": [], "heat": [], "ratios": [], "extras": []}


def pairs(found: list[tuple[str, int]]) -> list[tuple[int, int]]:
    assert [word for word, _ in found] == ["begins", "ends"] * (len(found) // 2)
    pages = [page for _, page in found]
    return list(zip(pages[::2], pages[1::2], strict=True))


def test_no_row_of_key_findings_is_split(workplace: Path) -> None:
    model = model_of(workplace)
    (table,) = model["findings"]
    long = {**table["rows"][0], "quantity": "BEGINS", "where": "words " * 40 + "ENDS"}
    table["rows"] = [long] * 30
    ends = pairs(places(workplace, model))
    assert len({page for page, _ in ends}) > 1
    assert [begins for begins, _ in ends] == [page for _, page in ends]


def test_no_title_is_left_alone_at_the_end_of_a_page(workplace: Path) -> None:
    model = model_of(workplace)
    table = {"heading": "BEGINS", "rows": [["ENDS", "value"], ["and", "more"]]}
    model["configuration"] = [table] * 90
    alone = [pair for pair in pairs(places(workplace, model)) if pair[0] != pair[1]]
    assert alone == []


def test_signs_of_drawings_stand_on_paper(workplace: Path) -> None:
    model = model_of(workplace)
    assert [tuple(sign) for sign in model["signs"]] == list(DRAWN_SIGNS)
    model["signs"] = [["BEGINS", "words " * 20 + "ENDS"]] * 60
    ends = pairs(places(workplace, model))
    assert len(ends) == 60
    assert [begins for begins, _ in ends] == [page for _, page in ends]


def test_a_column_has_room_for_the_longest_word_of_its_head() -> None:
    """Check that a column fits its longest word even if others hold short numbers."""
    columns = [("throughput per watt", "MB/s/W"), ("idle power", "W"), ("accelerators fed", "1/W")]
    numbers = [Number("584", "567\u2013601"), Number("5.00"), Number("0.241", "0.236\u20130.247")]
    row = TableRow([("a", 1)], "A", 0, numbers, first=True, links=[])
    widths = _widths(DataTable("", ["point"], columns, [row]))
    longest = [max(len(word) for word in name.split()) for name, _ in columns]
    assert all(width > word for width, word in zip(widths, longest, strict=True))
    assert widths[1] < widths[0] < widths[2]


def filled(page: bytes) -> float:
    """Return the share of a page above its footer that is filled, in fields of 6 mm by half a line.

    Lines of text less than 6 mm apart fill the fields between them; margins are left out.
    """
    ink = brightness(page) < 250
    millimetre = len(ink) / 297
    body = ink[round(15 * millimetre) : round(280 * millimetre)]
    height, middle = round(6 * millimetre), body.shape[1] // 2
    fields = [
        half[top : top + height].any()
        for half in (body[:, :middle], body[:, middle:])
        for top in range(0, len(half) - height + 1, height)
    ]
    return float(np.mean(fields))


STUDIES: dict[str, Callable[[Path], ResultStore]] = {
    "two mixes": lambda place: build_store(place, mixes=(30, 70), repeats=2),
    "four mixes": lambda place: build_store(place, repeats=2),
    "eight mixes": lambda place: build_store(place, mixes=tuple(range(10, 90, 10)), repeats=2),
    "one target": lambda place: build_store(place, alone=True, repeats=2),
    "power": lambda place: build_power_store(place, POWER, mixes=(30, 50, 70, 90), repeats=2),
}
FAMILIES = ("object", "training", "checkpoint", "preprocess", "gpudirect")


@pytest.fixture(params=[*STUDIES, *FAMILIES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ResultStore:
    if request.param in STUDIES:
        return STUDIES[request.param](tmp_path / "run")
    return cast(ResultStore, request.getfixturevalue(f"{request.param}_store"))


def test_no_page_but_the_last_is_less_than_half_filled(store: ResultStore) -> None:
    *pages, last = render_pages(build_brief(store, beside=store.directory), ppi=24)
    assert [round(filled(page), 2) for page in pages if filled(page) < 0.5] == []
    assert len(pages) < 12
    assert filled(last) > 0.05
