"""Briefs of all families: the answer is on the first screen, and nothing is cut on paper."""

from __future__ import annotations

from typing import cast

import pytest
from playwright.sync_api import Browser

from integration.brief.test_accessibility import BRIEFS
from integration.brief.test_brief_browser import CLIPPED, Visit, background, unfold
from integration.conftest import Made
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.verdict import verdicts
from storlab.words.answers import summary, tile_text

pytestmark = pytest.mark.browser
SIZES = ((1366, 768), (390, 844))


@pytest.fixture
def brief(request: pytest.FixtureRequest) -> Made:
    return cast(Made, request.getfixturevalue(request.param))


def plain(text: str) -> str:
    return " ".join(text.replace("\u2060", "").split())


@pytest.mark.parametrize("brief", BRIEFS, indirect=True)
def test_the_answer_stands_on_the_first_screen(browser: Browser, brief: Made) -> None:
    """Check that the first screen has the answer, its conditions and, if asked for, cost."""
    first, *others = verdicts(compare(load_dataset([brief.store])))
    for width, height in SIZES:
        with Visit(browser, brief, viewport={"width": width, "height": height}) as visit:
            page = visit.page
            said, tile = page.locator(".said"), page.locator(".tile").first
            for strip in (said, tile):
                box = strip.bounding_box()
                assert box is not None
                assert box["y"] + box["height"] <= height, width
                assert box["x"] + box["width"] <= width
            text = plain(f"{said.inner_text()} {tile.inner_text()}")
            assert first.headline is not None
            wanted = [first.headline.where, *summary([first])]
            if first.texts:
                wanted += [plain(each) for pair in first.texts for each in pair]
            elif first.winner:
                words = tile_text(first)
                wanted += [first.winner, words.amount, words.bounds, first.headline.sides[1]]
            for each in wanted:
                assert plain(each) in text, (width, each)
            for place, verdict in enumerate(others, start=1):
                if verdict.question == "cost":
                    cost = page.locator(".tile").nth(place).bounding_box()
                    assert cost is not None
                    assert cost["y"] + cost["height"] <= height, width


@pytest.mark.parametrize("brief", BRIEFS, indirect=True)
def test_nothing_is_clipped_on_paper(browser: Browser, brief: Made) -> None:
    """Check that a page in dark mode prints light and uncut, with folded parts open or closed."""
    size = {"width": 700, "height": 990}
    with Visit(browser, brief, viewport=size, color_scheme="dark") as visit:
        page = visit.page
        page.emulate_media(media="print", color_scheme="dark")
        assert background(page) == "rgb(255, 255, 255)"
        assert page.evaluate(CLIPPED) == []
        unfold(page)
        assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("brief", BRIEFS, indirect=True)
def test_tiles_fill_their_row_evenly_and_stack_on_a_telephone(
    browser: Browser, brief: Made
) -> None:
    for width, height in SIZES:
        with Visit(browser, brief, viewport={"width": width, "height": height}) as visit:
            tiles = [each.bounding_box() for each in visit.page.locator(".tile").all()]
            boxes = [box for box in tiles if box is not None]
            assert 1 <= len(boxes) <= 4
            assert len({round(box["width"]) for box in boxes}) == 1
            rows = {round(box["y"]) for box in boxes}
            assert len(rows) == (1 if width > 1000 else len(boxes))


def test_the_key_findings_need_no_scrolling_sideways_on_a_telephone(
    browser: Browser, made: Made
) -> None:
    with Visit(browser, made, viewport={"width": 390, "height": 844}) as visit:
        wide = visit.page.locator(".scroll:has(.found)").evaluate_all(
            "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).length"
        )
        assert wide == 0
