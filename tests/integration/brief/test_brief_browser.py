"""The brief in Chromium: no network request, no overflow, usable without a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from integration.brief.brief_fixture import build_store
from integration.conftest import LIMIT_MS, Made
from storlab.brief import write_brief
from support.accessibility import CONTRAST

pytestmark = pytest.mark.browser


class Visit:
    """A page with all errors it reported."""

    def __init__(self, browser: Browser, made: Made, **options: object) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(**options)  # type: ignore[arg-type]
        self.context.set_default_timeout(LIMIT_MS)
        self.page: Page = self.context.new_page()
        self.logged: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.logged.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.logged.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(made.path.as_uri())

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def unfold(page: Page) -> None:
    """Open everything that readers can open, except menus."""
    page.evaluate("for (const d of document.querySelectorAll('main details')) { d.open = true; }")


def scroll_through(page: Page) -> None:
    """Unfold everything and scroll so that every drawing has been in view."""
    page.evaluate("for (const d of document.querySelectorAll('.fold')) { d.open = true; }")
    height = page.evaluate("document.documentElement.scrollHeight")
    for top in range(0, height, 800):
        page.evaluate(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
        page.wait_for_timeout(30)
    # A busy browser may miss a drawing while scrolling: show it again, and if that is not enough,
    # move the pointer over it.
    page.wait_for_function(
        """() => {
          const left = document.querySelector('.plot:not([data-live])');
          if (left) {
            left.scrollIntoView({behavior: 'instant'});
            left.dispatchEvent(new PointerEvent('pointerenter'));
          }
          return !left;
        }""",
        polling=100,
    )


def test_no_request_leaves_and_nothing_is_said(browser: Browser, made: Made) -> None:
    with Visit(browser, made) as visit:
        scroll_through(visit.page)
        assert visit.requests == [made.path.as_uri()]
        assert visit.logged == []
        names = visit.page.eval_on_selector_all(
            "svg", "all => all.map(svg => svg.getAttribute('aria-label'))"
        )
        assert all(names)


def test_it_is_whole_without_javascript(browser: Browser, made: Made) -> None:
    with Visit(browser, made, java_script_enabled=False) as visit:
        figures = visit.page.locator("figure.figure")
        assert figures.count() == 2 * (4 + 2 * 2) + 3
        for summary in visit.page.locator("details.fold:has(figure) > summary").all():
            summary.click()
        for number in range(figures.count()):
            box = figures.nth(number).locator("svg").bounding_box()
            assert box is not None
            assert box["width"] > 200
            assert box["height"] > 150
        assert visit.page.locator("#theme").is_hidden()


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(browser: Browser, made: Made, width: int) -> None:
    with Visit(browser, made, viewport={"width": width, "height": 800}) as visit:
        scroll_through(visit.page)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        clipped = visit.page.evaluate(
            """() => [...document.querySelectorAll('.tile, .figure figcaption, .facts, h1, h2')]
              .filter(e => e.scrollWidth > e.clientWidth + 1)
              .map(e => e.textContent.slice(0, 60))"""
        )
        assert clipped == []


def test_nothing_moves_when_the_drawings_come_alive(browser: Browser, made: Made) -> None:
    with Visit(browser, made) as visit:
        unfold(visit.page)
        before = visit.page.evaluate("document.documentElement.scrollHeight")
        scroll_through(visit.page)
        assert visit.page.evaluate("document.documentElement.scrollHeight") == before


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_dark_follows_the_system_and_the_button_overrides_it(browser: Browser, made: Made) -> None:
    with Visit(browser, made, color_scheme="light") as visit:
        light = background(visit.page)
    with Visit(browser, made, color_scheme="dark") as visit:
        dark = background(visit.page)
        visit.page.click("#theme")
        expect(visit.page.locator("#theme")).to_have_text("Theme: light")
        assert background(visit.page) == light
        visit.page.reload()
        assert background(visit.page) == light
    assert light != dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, made: Made, scheme: str) -> None:
    with Visit(browser, made, color_scheme=scheme) as visit:
        assert visit.page.evaluate(CONTRAST) == []


def test_the_keyboard_reaches_everything(browser: Browser, made: Made) -> None:
    with Visit(browser, made) as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.wait_for_function("hash => location.hash === hash", arg="#findings")
        page.locator("figure summary").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("figure details").first).to_have_attribute("open", "")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        landmarks = ["header", "nav[aria-label]", "main", "footer"]
        assert all(page.locator(name).count() == 1 for name in landmarks)


def test_a_number_leads_to_its_runs(browser: Browser, made: Made) -> None:
    with Visit(browser, made) as visit:
        link = visit.page.locator("table.data a.n").first
        wanted = link.get_attribute("href")
        link.click()
        visit.page.wait_for_function("hash => location.hash === hash", arg=wanted)
        box = visit.page.locator(str(wanted)).bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 900


def test_it_prints_light_on_pages(browser: Browser, made: Made) -> None:
    with Visit(browser, made, color_scheme="dark") as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert background(visit.page) == "rgb(255, 255, 255)"
        ink = visit.page.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(27, 39, 51)"
        assert visit.page.locator("nav").is_hidden()
        pdf = visit.page.pdf(prefer_css_page_size=True, print_background=True)
        assert pdf.count(b"/Type /Page\n") >= 4


def test_a_partial_brief_is_sound_too(browser: Browser, made_partial: Made) -> None:
    with Visit(browser, made_partial, viewport={"width": 390, "height": 800}) as visit:
        scroll_through(visit.page)
        assert visit.logged == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Provide a campaign shaped like studies/demo.toml: four mixes, two sizes, four job counts."""
    store = build_store(tmp_path_factory.mktemp("whole") / "run", repeats=2)
    return Made(store, write_brief(store, pdf=False))


@pytest.fixture(scope="module")
def many_mixes(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Provide a campaign of eight mixes."""
    mixes = tuple(range(10, 90, 10))
    store = build_store(tmp_path_factory.mktemp("many") / "run", mixes=mixes, repeats=2)
    return Made(store, write_brief(store, pdf=False))


WORDS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (e.closest('.sr,.skip,script,style,title,desc') || !e.checkVisibility()) { continue; }
    count += walker.currentNode.data.trim().split(/\\s+/).filter(Boolean).length;
  }
  return count;
}"""


def test_a_page_is_short_until_more_is_asked_for(browser: Browser, whole: Made) -> None:
    with Visit(browser, whole, viewport={"width": 1366, "height": 768}) as visit:
        assert visit.page.locator("details[open]").count() == 0
        assert visit.page.evaluate("document.documentElement.scrollHeight") / 768 <= 12
        words = visit.page.evaluate(WORDS)
        assert words <= 6_000
        unfold(visit.page)
        assert visit.page.evaluate(WORDS) > 2 * words
        for name in ("numbers", "ratios", "configuration", "audit", "runs"):
            expect(visit.page.locator(f"#{name} table, #{name} dl").first).to_be_visible()


def test_a_link_into_something_folded_opens_it(browser: Browser, made: Made) -> None:
    with Visit(browser, made) as visit:
        table = visit.page.locator("#ratios table").first
        assert table.is_hidden()
        visit.page.locator('a[href="#ratios"]').first.click()
        expect(table).to_be_visible()
        run = visit.page.locator("#runs tbody tr[id]").first
        assert run.is_hidden()
        visit.page.evaluate("id => { location.hash = id; }", run.get_attribute("id"))
        run.wait_for(state="visible")


@pytest.mark.parametrize("script", [True, False])
def test_paper_has_the_main_part_and_what_is_open(
    browser: Browser, made: Made, script: bool
) -> None:
    with Visit(browser, made, java_script_enabled=script) as visit:
        main = visit.page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n")
        for summary in visit.page.locator("details.fold > summary").all():
            summary.click()
        everything = visit.page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n")
        assert main <= 8
        assert everything > 12


def menus(page: Page) -> list[str]:
    """Return the names of visible menus of the navigation."""
    summaries = page.locator(".menu > summary").all()
    return [each.inner_text() for each in summaries if each.is_visible()]


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize(
    ("width", "wanted"), [(1366, ["Workloads", "Appendix"]), (390, ["Sections"])]
)
def test_the_navigation_is_one_row_without_scrolling(
    browser: Browser, many_mixes: Made, width: int, wanted: list[str], script: bool
) -> None:
    options = {"viewport": {"width": width, "height": 768}, "java_script_enabled": script}
    with Visit(browser, many_mixes, **options) as visit:
        page = visit.page
        assert menus(page) == wanted
        entries = page.locator(".bar > li").all() if width > 1000 else []
        boxes = [box for entry in entries if (box := entry.bounding_box())]
        assert len({box["y"] for box in boxes}) <= 1
        assert all(box["x"] + box["width"] <= width for box in boxes)
        for name in wanted:
            page.locator(".menu > summary", has_text=name).first.focus()
            page.keyboard.press("Enter")
            links = page.locator(".menu[open] a")
            assert links.count() >= 5
            for link in links.all():
                link.scroll_into_view_if_needed()
                box = link.bounding_box()
                assert box is not None
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                assert box["y"] + box["height"] < 769
        if width > 1000:
            assert page.locator(".menu[open]").count() == 1


def test_a_menu_closes_by_escape_and_by_a_choice(browser: Browser, made: Made) -> None:
    with Visit(browser, made, viewport={"width": 390, "height": 844}) as visit:
        summary = visit.page.locator(".menu.all > summary")
        summary.click()
        visit.page.keyboard.press("Tab")
        visit.page.keyboard.press("Escape")
        assert visit.page.locator(".menu[open]").count() == 0
        assert summary.evaluate("e => e === document.activeElement")
        summary.click()
        visit.page.locator('.menu[open] a[href="#ratio-figures"]').click()
        assert visit.page.locator(".menu[open]").count() == 0
        box = visit.page.locator("#ratio-figures h2").bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 844


CLIPPED = """() => [...document.querySelectorAll('table, figure, .facts, h1, h2, li')]
  .filter(e => e.getBoundingClientRect().right > 701
    || (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible'))
  .map(e => e.textContent.slice(0, 60))"""


@pytest.mark.parametrize("name", ["Memory", "NVMe directory (XFS, single drive, node-local)"])
def test_nothing_is_clipped_on_paper(browser: Browser, made: Made, name: str) -> None:
    with Visit(browser, made, viewport={"width": 700, "height": 990}) as visit:
        visit.page.set_content(made.html.replace("Memory", name))
        visit.page.emulate_media(media="print")
        unfold(visit.page)
        assert visit.page.evaluate(CLIPPED) == []


def test_live_drawings_have_one_name_each(browser: Browser, made: Made) -> None:
    """Check that drawings have one name, and Vega's marks are hidden from screen readers."""
    with Visit(browser, made) as visit:
        scroll_through(visit.page)
        assert visit.page.locator("[role=graphics-symbol], [role=graphics-object]").count() > 0
        unnamed = visit.page.evaluate(
            """() => [...document.querySelectorAll('[role^=graphics]')]
              .filter(e => !e.getAttribute('aria-label') && !e.closest('[aria-hidden=true]'))
              .length"""
        )
        assert unnamed == 0
        labels = visit.page.evaluate(
            "() => [...document.querySelectorAll('[role=region]')].map(e => e.ariaLabel)"
        )
        assert len(labels) == len(set(labels))


def test_intervals_of_the_heat_table_are_shown_on_demand(browser: Browser, made: Made) -> None:
    with Visit(browser, made) as visit:
        spread = visit.page.locator(".heatmap .spread").first
        assert spread.is_hidden()
        visit.page.get_by_label("Show 95 % intervals").check()
        expect(spread).to_contain_text("–", use_inner_text=True)


@pytest.mark.parametrize(("width", "javascript"), [(390, True), (390, False), (820, True)])
def test_heads_of_tables_stay_in_sight(
    browser: Browser, made: Made, width: int, javascript: bool
) -> None:
    """Check that table heads stay visible while rows scroll, and that target names fit."""
    options = {"viewport": {"width": width, "height": 800}, "java_script_enabled": javascript}
    with Visit(browser, made, **options) as visit:
        unfold(visit.page)
        if width > 800:
            visit.page.wait_for_selector("#numbers .scroll.pinned")
        moved = visit.page.evaluate(
            """named => [...document.querySelectorAll('#numbers .scroll')].map(scroll => {
              scroll.scrollIntoView({behavior: 'instant', block: 'end'});
              scroll.scrollTop = 60; scroll.scrollLeft = 150;
              const box = scroll.getBoundingClientRect();
              const head = scroll.querySelector('thead').getBoundingClientRect();
              let heading = null, rows = 0;
              const wrong = [];
              const seen = (cell, y) => {
                const left = cell.getBoundingClientRect().left;
                const there = document.elementFromPoint(left + 14, y);
                return left - box.left > -1 && there && there.closest('th') === cell;
              };
              for (const row of scroll.querySelectorAll('tbody tr')) {
                heading = row.querySelector('.k0') || heading;
                const own = row.getBoundingClientRect(), y = (own.top + own.bottom) / 2;
                if (y < head.bottom + 5 || y > Math.min(box.bottom, innerHeight) - 5) { continue; }
                rows += 1;
                const target = row.querySelector('th.target');
                if (!seen(heading, y) || named && target && !seen(target, y)) {
                  wrong.push(row.textContent);
                }
              }
              // A short table does not scroll: its caption stays above its head.
              const top = scroll.scrollTop < 60 ? 0 : Math.abs(head.top - box.top);
              return {wrong, rows, top, left: scroll.scrollLeft};
            })""",
            width > 800,
        )
        assert moved
        for table in moved:
            assert table["wrong"] == []
            assert table["rows"] > 2
            assert table["left"] > 0
            assert table["top"] < 2


def test_drawings_are_readable_on_a_phone(browser: Browser, made: Made) -> None:
    with Visit(browser, made, viewport={"width": 390, "height": 844}) as visit:
        sizes = visit.page.evaluate(
            """() => [...document.querySelectorAll('.mix svg')].map(svg =>
              Math.min(...[...svg.querySelectorAll('text')].map(t => {
                const px = parseFloat(getComputedStyle(t).fontSize);
                return px * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
              })))"""
        )
        assert sizes
        assert min(sizes) >= 8.5


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
def test_the_answer_stands_on_the_first_screen(
    browser: Browser, made: Made, width: int, height: int
) -> None:
    with Visit(browser, made, viewport={"width": width, "height": height}) as visit:
        answer = visit.page.locator(".tiles")
        box = answer.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= height
        assert box["x"] + box["width"] <= width
        text = visit.page.locator(".hero").inner_text().replace("\u00a0", " ")
        for wanted in ("Memory", "3.3×", "over Disk", "8 jobs", "3.3 times as much"):
            assert wanted in text
        facts = visit.page.locator(".target-card").first.bounding_box()
        assert facts is not None
        assert facts["y"] > box["y"]  # facts of the targets follow it
