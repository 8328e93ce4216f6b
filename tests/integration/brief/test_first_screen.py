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
from storlab.words.answers import caveat_text, text_of

pytestmark = pytest.mark.browser
SIZES = ((1366, 768), (390, 844))


@pytest.fixture
def brief(request: pytest.FixtureRequest) -> Made:
    return cast(Made, request.getfixturevalue(request.param))


def plain(text: str) -> str:
    return " ".join(text.replace("\u2060", "").split())


@pytest.mark.parametrize("brief", BRIEFS, indirect=True)
def test_the_answer_stands_on_the_first_screen(browser: Browser, brief: Made) -> None:
    """Check that the first screen has the answer, conditions, caveat and, if asked for, cost."""
    first, *others = verdicts(compare(load_dataset([brief.store])))
    for width, height in SIZES:
        with Visit(browser, brief, viewport={"width": width, "height": height}) as visit:
            page = visit.page
            strip = page.locator(".verdict.first")
            box = strip.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= height, width
            assert box["x"] + box["width"] <= width
            text = plain(strip.inner_text())
            assert first.headline is not None
            wanted = [first.headline.where, caveat_text(first.caveat)]
            if first.texts:
                wanted += [plain(each) for pair in first.texts for each in pair]
            elif first.winner:
                words = text_of(first)
                wanted += [first.winner, words.amount, words.bounds, first.headline.sides[1]]
            for each in wanted:
                assert plain(each) in text, (width, each)
            for place, verdict in enumerate(others, start=1):
                if verdict.question == "cost":
                    cost = page.locator(".verdict").nth(place).bounding_box()
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


def test_the_answers_have_the_whole_width(browser: Browser, object_made: Made) -> None:
    """Check that a second answer is beside the third or takes the full width."""
    with Visit(browser, object_made, viewport={"width": 1366, "height": 768}) as visit:
        boxes = [each.bounding_box() for each in visit.page.locator(".verdict").all()]
        first, second = boxes
        assert first is not None
        assert second is not None
        assert second["width"] == first["width"]


@pytest.mark.parametrize("brief", ["checkpoint_made"], indirect=True)
def test_a_number_and_its_mark_are_not_parted(browser: Browser, brief: Made) -> None:
    with Visit(browser, brief, viewport={"width": 390, "height": 844}) as visit:
        number = visit.page.locator(".verdict.first .who").bounding_box()
        mark = visit.page.locator(".verdict.first .mark").first.bounding_box()
        assert number is not None
        assert mark is not None
        assert number["y"] <= mark["y"] + mark["height"] / 2 <= number["y"] + number["height"]
