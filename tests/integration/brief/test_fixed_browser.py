"""Briefs of fixed work and clusters in Chromium: light, dark, and on a phone."""

from __future__ import annotations

from typing import cast

import pytest
from playwright.sync_api import Browser

from integration.brief.test_brief_browser import Visit, scroll_through, unfold
from integration.conftest import Made
from support.accessibility import CONTRAST

pytestmark = pytest.mark.browser
FAMILIES = (
    "training_made",
    "checkpoint_made",
    "preprocess_made",
    "gpudirect_made",
    "swept_clients_made",
)
OVERLAPS = """() => [...document.querySelectorAll('section svg')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')]
    .filter(t => t.textContent.trim())
    .map(t => [t.textContent, t.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
    .filter(([other, b]) => one !== other && a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 4 && b.top < a.bottom - 4)
    .map(([other]) => one + ' | ' + other));
})"""


@pytest.fixture
def family(request: pytest.FixtureRequest) -> Made:
    return cast(Made, request.getfixturevalue(request.param))


@pytest.mark.parametrize("family", FAMILIES, indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_comes_alive_and_reads_well(browser: Browser, family: Made, scheme: str) -> None:
    with Visit(browser, family, color_scheme=scheme) as visit:
        unfold(visit.page)
        scroll_through(visit.page)
        assert visit.logged == []
        assert visit.requests == [family.path.as_uri()]
        assert visit.page.evaluate(CONTRAST) == []
        assert visit.page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("family", FAMILIES, indirect=True)
def test_a_phone_scrolls_no_page_sideways(browser: Browser, family: Made) -> None:
    with Visit(browser, family, viewport={"width": 360, "height": 800}) as visit:
        scroll_through(visit.page)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
