"""Text in every drawing of every family: no overlaps, nothing cut, all legible."""

from __future__ import annotations

from typing import cast

import pytest
from playwright.sync_api import Browser

from integration.brief.test_accessibility import BRIEFS
from integration.brief.test_brief_browser import Visit, scroll_through, unfold
from integration.conftest import Made

pytestmark = pytest.mark.browser
LEAST_PX = 8.9  # smallest text as displayed
# A word may have a background made of the same word at the same place.
MISPLACED = """() => [...document.querySelectorAll('figure.figure svg')].flatMap(svg => {
  const name = svg.closest('figure').id, frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')]
    .filter(t => t.textContent.trim())
    .map(t => [t.textContent, t.getBoundingClientRect()]);
  const outside = boxes.filter(([_, b]) => b.left < frame.left - 2 || b.right > frame.right + 2
    || b.top < frame.top - 2 || b.bottom > frame.bottom + 2);
  const over = boxes.flatMap(([word, a], i) => boxes.slice(i + 1)
    .filter(([other, b]) => a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 4 && b.top < a.bottom - 4
      && !(word === other && Math.abs(a.left - b.left) < 1 && Math.abs(a.top - b.top) < 1))
    .map(([other]) => `${name}: ${word} over ${other}`));
  const cut = boxes.filter(([word]) => word.includes('…')).map(([word]) => `${name}: ${word} cut`);
  return [...over, ...outside.map(([word]) => `${name}: ${word} outside`), ...cut];
})"""
SMALLEST = """() => [...document.querySelectorAll('figure.figure svg')].flatMap(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll('text')].map(t =>
    [parseFloat(getComputedStyle(t).fontSize) * scale, svg.closest('figure').id]);
}).sort((a, b) => a[0] - b[0])[0]"""


@pytest.fixture
def family(request: pytest.FixtureRequest) -> Made:
    return cast(Made, request.getfixturevalue(request.param))


@pytest.mark.parametrize("family", BRIEFS, indirect=True)
def test_words_of_drawings_have_room_and_are_read_on_a_phone(
    browser: Browser, family: Made
) -> None:
    with Visit(browser, family) as visit:
        page = visit.page
        unfold(page)
        assert page.evaluate(MISPLACED) == []
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.set_viewport_size({"width": 390, "height": 844})
        size, name = page.evaluate(SMALLEST)
        assert size >= LEAST_PX, name
        page.set_viewport_size({"width": 1280, "height": 900})
        scroll_through(page)
        assert page.evaluate(MISPLACED) == []
