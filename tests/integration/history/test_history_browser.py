"""The history site in Chromium: from files, offline, on a phone, dark, without scripts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from integration.conftest import LIMIT_MS
from storlab.history.site import Site, write_site
from support.accessibility import CONTRAST, violations_on_screens
from support.result_histories import ResultHistory

pytestmark = pytest.mark.browser
HOSTILE = '"><img src=x onerror=alert(1)>' + "x" * 200
NIGHTS = 70


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Provide a disk that changed, and memory that did not, with a long and hostile name."""
    place = tmp_path_factory.mktemp("history")
    history = ResultHistory(place / "results", targets=("Disk", HOSTILE), repeats=2)
    for number in range(NIGHTS):
        made = history.make(
            number,
            {"Disk": 0.9 if number >= 40 else 1.0},
            firmware="FW2" if number >= 40 else "FW1",
        )
        (made / "brief.html").write_text("<!DOCTYPE html><title>a brief</title>")
    return write_site([place / "results"], place / "site")


class Visit:
    """Pages of the site with all errors they reported."""

    def __init__(self, browser: Browser, site: Site, **options: object) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(**options)  # type: ignore[arg-type]
        self.context.set_default_timeout(LIMIT_MS)
        self.page: Page = self.context.new_page()
        self.logged: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.logged.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.logged.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.logged.append(f"dialog: {dialog.message}"))
        self._site = site

    def open(self, name: str) -> Page:
        self.page.goto((self._site.path / name).as_uri())
        return self.page

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def names(site: Site) -> list[str]:
    return ["index.html", *(view.href for view in site.views)]


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_pages_load_from_files_and_never_scroll_sideways(
    browser: Browser, site: Site, width: int
) -> None:
    with Visit(browser, site, viewport={"width": width, "height": 844}) as visit:
        for name in names(site):
            page = visit.open(name)
            page.evaluate(
                "for (const d of document.querySelectorAll('details')) { d.open = true; }"
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert visit.logged == []
        assert all(url.startswith(site.path.as_uri()) for url in visit.requests)
        assert any(url.endswith("history.css") for url in visit.requests)


def test_axe_finds_nothing(browser: Browser, site: Site) -> None:
    with Visit(browser, site) as visit:
        for name in ("index.html", site.views[0].href):
            assert violations_on_screens(visit.open(name)) == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, site: Site, scheme: str) -> None:
    with Visit(browser, site, color_scheme=scheme) as visit:
        for name in names(site):
            assert visit.open(name).evaluate(CONTRAST) == [], name


def test_the_newest_change_leads_to_its_point_and_brief(browser: Browser, site: Site) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("index.html")
        first = page.locator("#table tbody tr").first
        assert "Disk" in first.inner_text()
        assert "firmware of drive 1: FW1, then FW2" in first.inner_text()
        first.locator("a").click()
        expect(page.locator("h1")).to_have_text("Disk")
        change = page.locator("article.change").first
        assert "% less" in change.inner_text()
        assert "▼ worse" in change.inner_text()
        change.locator("a").last.click()
        expect(page).to_have_title("a brief")


def test_the_table_is_sorted_and_searched(browser: Browser, site: Site) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("index.html")
        head = page.get_by_role("columnheader", name="last value")
        button = head.get_by_role("button")
        button.focus()
        values = """() => [...document.querySelectorAll('#table tbody tr')]
          .map(row => +row.cells[4].dataset.value)"""
        page.keyboard.press("Enter")
        expect(head).to_have_attribute("aria-sort", "descending")
        down = page.evaluate(values)
        assert down == sorted(down, reverse=True)
        page.keyboard.press("Enter")
        expect(head).to_have_attribute("aria-sort", "ascending")
        assert page.evaluate(values) == down[::-1]
        page.get_by_label("Search").fill("disk 4 jobs")
        expect(page.locator("#table tbody tr:visible")).to_have_count(1)
        expect(page.locator("#found")).to_have_text("1 of 4")


def test_it_is_whole_without_javascript(browser: Browser, site: Site) -> None:
    with Visit(browser, site, java_script_enabled=False) as visit:
        page = visit.open("index.html")
        assert page.locator("#table tbody tr").count() == 4
        assert page.locator(".tools").is_hidden()
        page = visit.open(site.views[0].href)
        drawings = page.locator("figure svg:visible")
        assert drawings.count() == 6
        for number in range(6):
            box = drawings.nth(number).bounding_box()
            assert box is not None
            assert box["width"] > 200


def test_drawings_fit_the_screen_and_have_names(browser: Browser, site: Site) -> None:
    for width, shown in ((1280, "wide"), (390, "narrow")):
        with Visit(browser, site, viewport={"width": width, "height": 844}) as visit:
            page = visit.open(site.views[0].href)
            expect(page.locator(f".plot.{shown}")).to_be_visible()
            drawn = page.locator(".plot.wide, .plot.narrow").locator("visible=true")
            expect(drawn).to_have_count(1)
            labels = page.eval_on_selector_all("svg", "all => all.map(s => s.ariaLabel)")
            assert all(labels)
            sizes = page.evaluate(
                """() => [...document.querySelectorAll('figure svg')]
                  .filter(svg => svg.checkVisibility())
                  .map(svg => 13 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)"""
            )
            assert min(sizes) >= 10  # px of its text
            regions = page.evaluate(
                "() => [...document.querySelectorAll('[role=region]')].map(e => e.ariaLabel)"
            )
            assert len(regions) == len(set(regions))


def test_the_pointer_tells_the_result_under_it(browser: Browser, site: Site) -> None:
    with Visit(browser, site) as visit:
        page = visit.open(site.views[0].href)
        page.locator("#course").scroll_into_view_if_needed()
        box = page.locator(".plot.wide svg").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] - 16, box["y"] + 60)
        newest = page.locator("#results tbody tr").first
        expect(page.locator(".tip")).to_be_visible()
        tip = page.locator(".tip").inner_text()
        assert tip.startswith(newest.locator("th").inner_text())
        assert newest.locator("td").first.inner_text().splitlines()[0] in tip


def test_the_theme_button_holds_for_all_pages(browser: Browser, site: Site) -> None:
    with Visit(browser, site, color_scheme="dark") as visit:
        page = visit.open("index.html")
        ground = "() => getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(ground)
        page.click("#theme")
        page.wait_for_function(f"dark => ({ground})() !== dark", arg=dark)
        light = page.evaluate(ground)
        assert visit.open(site.views[0].href).evaluate(ground) == light
