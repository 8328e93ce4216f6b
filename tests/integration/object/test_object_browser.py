"""The brief of an object study in Chromium: light, dark, wide, on a phone and on paper."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from integration.brief.test_brief_browser import Visit, background, scroll_through
from integration.conftest import Made
from support.accessibility import CONTRAST

pytestmark = pytest.mark.browser
OVER_ALL = "#all-mixed-get-and-put-native"


def test_every_drawing_comes_alive_and_nothing_is_said(browser: Browser, object_made: Made) -> None:
    with Visit(browser, object_made) as visit:
        scroll_through(visit.page)
        assert visit.logged == []
        assert visit.requests == [object_made.path.as_uri()]
        assert visit.page.locator(f"{OVER_ALL} figure").count() == 3 + 2 + 1 + 1
        lost = visit.page.evaluate(
            """() => [...document.querySelectorAll('.plot[data-live] [fill^="url("]')]
              .map(e => e.getAttribute('fill').slice(5, -1))
              .filter(id => !document.getElementById(id))"""
        )
        assert lost == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, object_made: Made, scheme: str) -> None:
    with Visit(browser, object_made, color_scheme=scheme) as visit:
        assert visit.page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_never_scrolls_sideways(browser: Browser, two_families: Made, width: int) -> None:
    with Visit(browser, two_families, viewport={"width": width, "height": 800}) as visit:
        scroll_through(visit.page)
        assert visit.logged == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_number_of_a_mix_leads_to_its_runs(browser: Browser, object_made: Made) -> None:
    with Visit(browser, object_made) as visit:
        numbers = visit.page.locator("#numbers")
        numbers.locator("summary").first.click()
        link = numbers.locator("table.data a.n").first
        wanted = str(link.get_attribute("href"))
        link.click()
        visit.page.wait_for_function("hash => location.hash === hash", arg=wanted)
        box = visit.page.locator(wanted).bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 900


def test_the_words_of_axes_and_legends_do_not_run_into_one_another(
    browser: Browser, object_made: Made
) -> None:
    """Check that texts on one line of a drawing do not overlap."""
    with Visit(browser, object_made) as visit:
        overlapping = visit.page.evaluate(
            """selector => [...document.querySelectorAll(selector + ' svg')].flatMap(svg => {
              const boxes = [...svg.querySelectorAll('text')]
                .filter(t => t.textContent.trim())
                .map(t => [t.textContent, t.getBoundingClientRect()]);
              return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
                .filter(([_, b]) => a.left < b.right - 1 && b.left < a.right - 1
                  && a.top < b.bottom - 3 && b.top < a.bottom - 3)
                .filter(([other, b]) => other !== one || a.left !== b.left || a.top !== b.top)
                .map(([other]) => one + ' | ' + other));
            })""",
            OVER_ALL,
        )
        assert overlapping == []


def test_it_prints_light_on_pages(browser: Browser, object_made: Made) -> None:
    with Visit(browser, object_made, color_scheme="dark") as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert background(visit.page) == "rgb(255, 255, 255)"
        clipped = visit.page.evaluate(
            """() => [...document.querySelectorAll('.data thead th')]
              .filter(th => th.scrollWidth > th.clientWidth + 1).map(th => th.textContent)"""
        )
        assert clipped == []
        pdf = visit.page.pdf(prefer_css_page_size=True, print_background=True)
        assert pdf.count(b"/Type /Page\n") >= 6
