"""Page breaks of the PDF: not inside a bullet, and not after a title."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typst

from integration.conftest import Made
from storlab.brief.build import build_brief
from storlab.brief.model import DataTable, Number, TableRow
from storlab.brief.pdf import _widths, _workplace
from storlab.figures.signs import DRAWN_SIGNS

# The pages on which these words are, according to typst's output.
ASKED = """
#show "BEGINS": word => [#metadata("begins")<place>#word]
#show "ENDS": word => [#metadata("ends")<place>#word]
"""
TOLD = """
#context [#metadata(query(<place>).map(p => (p.value, p.location().page())))<told>]
"""


def places(
    workplace: Path, model: dict[str, Any], above: str = "", audit: str = ""
) -> list[tuple[str, int]]:
    """Return each word with its page, in order."""
    template = (workplace / "brief.typ").read_text("utf-8")
    source = workplace / "asked.typ"
    before = template.replace("brief.json", "asked.json")
    before = before.replace("\n= Audit\n", f"\n{above}\n= Audit\n")
    before = before.replace("checked for what misleads.", audit)
    source.write_text(ASKED + before + TOLD, "utf-8")
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
    sections = [{**section, "groups": [], "tables": []} for section in model["sections"]]
    return {**model, "sections": sections, "ratios": [], "extras": []}


def pairs(found: list[tuple[str, int]]) -> list[tuple[int, int]]:
    assert [word for word, _ in found] == ["begins", "ends"] * (len(found) // 2)
    pages = [page for _, page in found]
    return list(zip(pages[::2], pages[1::2], strict=True))


def test_no_bullet_is_split(workplace: Path) -> None:
    model = model_of(workplace)
    first = model["answers"][0]
    long = {**first["better"][0], "what": "BEGINS", "note": "words " * 90 + "ENDS"}
    first["better"] = [long] * 30
    ends = pairs(places(workplace, model))
    assert len({page for page, _ in ends}) > 1
    assert [begins for begins, _ in ends] == [page for _, page in ends]


def test_no_title_is_left_alone_at_the_end_of_a_page(workplace: Path) -> None:
    model = model_of(workplace)
    table = {"heading": "BEGINS", "rows": [["ENDS", "value"], ["and", "more"]]}
    model["configuration"] = [table] * 90
    alone = [pair for pair in pairs(places(workplace, model)) if pair[0] != pair[1]]
    assert alone == []


def test_the_audit_begins_above_its_findings(workplace: Path) -> None:
    model = model_of(workplace)
    finding = dict.fromkeys(("severity", "rule", "printed", "recomputed", "why"), "word")
    model["audit"] = [{**finding, "severity": "ENDS"}]
    model["configuration"] = []
    for above in range(0, 720, 45):
        ((begins, ends),) = pairs(places(workplace, model, f"#v({above}pt)", "BEGINS"))
        assert begins == ends, above


def test_the_title_of_a_point_stands_above_its_runs_on_each_page(workplace: Path) -> None:
    model = model_of(workplace)
    (table,) = model["run_tables"]
    point = {**table["points"][0], "title": "BEGINS"}
    run = {**point["runs"][0], "id": "ENDS"}
    table["points"] = [{**point, "point": f"p{n}", "runs": [run, run]} for n in range(120)]
    model["points"] = []
    for answer in model["answers"]:
        answer["better"] = answer["worse"] = []
    model["heat"] = []
    title, pages = 0, set()
    for word, page in places(workplace, model):
        pages.add(page)
        if word == "begins":
            title = page
        else:
            assert page == title
    assert len(pages) > 3


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
