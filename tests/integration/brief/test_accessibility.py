"""axe-core finds no violation in a brief of any family, before scripts ran and after."""

from __future__ import annotations

import re
from typing import cast

import pytest
from playwright.sync_api import Browser

from integration.brief.test_brief_browser import Visit, scroll_through, unfold
from integration.conftest import LIMIT_MS, Made
from support.accessibility import violations, violations_on_screens

pytestmark = pytest.mark.browser
BRIEFS = (
    "made",
    "object_made",
    "training_made",
    "checkpoint_made",
    "preprocess_made",
    "gpudirect_made",
    "swept_clients_made",
)
PROGRAM = re.compile(r"<script(?![^>]*application/json)[^>]*>.*?</script>", re.DOTALL)
FOLD = "for (const d of document.querySelectorAll('details')) { d.open = false; }"


@pytest.fixture
def brief(request: pytest.FixtureRequest) -> Made:
    return cast(Made, request.getfixturevalue(request.param))


def test_axe_tells_what_is_wrong(browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.set_content('<html lang="en"><title>t</title><main><h1>h</h1><img src="data:,"></main>')
    (found,) = violations(page)
    assert found.startswith("image-alt: 1, first img: ")
    page.close()


# axe-core waits by timers, which do not run without JavaScript, so the brief is shown without its
# own scripts instead. They change no text colours. Colours take axe-core longest, so CONTRAST
# checks those of folded parts. One brief serves: the next test looks at the parts of each family.
@pytest.mark.parametrize("brief", BRIEFS[:1], indirect=True)
def test_axe_finds_nothing_before_scripts(browser: Browser, brief: Made) -> None:
    page = browser.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.set_content(PROGRAM.sub("", brief.html))
    unfold(page)
    assert page.locator("figure svg").count() > 0
    assert page.evaluate("typeof vega") == "undefined"
    page.set_viewport_size({"width": 390, "height": 768})
    assert violations(page, contrast=False) == []
    page.close()


@pytest.mark.parametrize("brief", BRIEFS, indirect=True)
def test_axe_finds_nothing_after_scripts(browser: Browser, brief: Made) -> None:
    with Visit(browser, brief) as visit:
        page = visit.page
        scroll_through(page)
        assert page.locator(".plot[data-live]").count() > 0
        assert violations(page, contrast=False) == []
        page.evaluate(FOLD)
        assert violations_on_screens(page) == []
