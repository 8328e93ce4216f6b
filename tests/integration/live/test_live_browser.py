"""The live page in Chromium beside a real campaign: running, reloaded, resumed, finished."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from integration.conftest import LIMIT_MS
from storlab.brief.html import PAGE_DARK, PAGE_LIGHT
from storlab.figures.theme import DARK, LIGHT
from storlab.live.feed import MOMENT, Feed
from storlab.live.reporter import run_row
from storlab.live.server import LiveServer, _resource
from storlab.results.store import ResultStore
from support.accessibility import CONTRAST, violations
from support.live_pages import a_plan, a_record

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]
HOSTILE = '<img src=x onerror="document.title=1">&amp;</script>'
LEFT = "e => e.getBoundingClientRect().left"


def write_study(place: Path) -> Path:
    path = place / "study.toml"
    path.write_text(f"""
    [study]
    name = '{HOSTILE}'
    repeats = 3
    ramp = "200ms"
    runtime = "2500ms"
    interval = "100ms"

    [[target]]
    name = 'one {HOSTILE}'
    path = "{place}/one.dat"
    size = "8MiB"
    direct = false

    [[target]]
    name = "two"
    path = "{place}/two.dat"
    size = "8MiB"
    direct = false

    [[workload]]
    kind = "block"
    block_size = "16KiB"
    rate_iops = 500
    queue_depth = 2
    """)
    return path


@contextmanager
def campaign(place: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a campaign; return the process and the address it printed."""
    with subprocess.Popen(
        [*COMMAND, *arguments, "--live"],
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            told = next(filter(None, (re.match("live: (.*)", line) for line in process.stderr)))
            yield process, told[1].strip()
        finally:
            process.kill()


class Visit:
    """A page with all errors it reported."""

    def __init__(self, browser: Browser, **options: object) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(**options)  # type: ignore[arg-type]
        self.context.set_default_timeout(LIMIT_MS)
        self.page: Page = self.context.new_page()
        self.logged: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.logged.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.logged.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def moves(self) -> None:
        """Wait until a load is shown."""
        shown = "() => /MB\\/s/.test(document.getElementById('figures').textContent)"
        self.page.wait_for_function(shown)

    def is_sound(self, url: str) -> None:
        """Check that no errors, remote requests or overflow occurred, and that names are text."""
        assert self.logged == []
        assert all(asked.startswith((url, "data:")) for asked in self.requests)
        wide = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]
        assert self.page.evaluate(CONTRAST) == []
        assert violations(self.page) == []
        assert self.page.locator("img").count() == 0
        assert self.page.locator("h1").inner_text() == HOSTILE
        named = "e => e.getAttribute('aria-label') || e.labels?.length || e.title"
        for element in self.page.locator("progress:visible, select, iframe, #course svg").all():
            assert element.evaluate(named)


def is_drawn_as_in_the_brief(page: Page) -> None:
    """Check the heat map above lanes, and each flag of a run over its time."""
    titles = page.locator("#course .title").all_text_contents()
    assert [title.split(" (")[0] for title in titles][:3] == [
        "Latency",
        "Throughput",
        "p99 latency",
    ]
    left = page.locator("#course .strip").first.evaluate(LEFT)
    shades = page.locator("#course .heat").all()
    assert shades
    assert all(shade.evaluate(LEFT) >= left for shade in shades)
    kinds = set(page.locator("#runs .flag").all_inner_texts())
    words = page.locator("#course .word").all_text_contents()
    assert {word.removeprefix("⚑ ") for word in words} <= {k.replace("-", " ") for k in kinds}
    assert bool(kinds) == bool(words)


@pytest.mark.browser
def test_a_campaign_interrupted_and_resumed(browser: Browser, tmp_path: Path) -> None:
    out = tmp_path / "out"
    study = str(write_study(tmp_path))
    visit = Visit(browser)
    with campaign(tmp_path, "run", study, "--out", str(out)) as (process, url):
        visit.page.goto(url)
        visit.moves()
        visit.page.reload()
        visit.moves()  # everything is back
        visit.page.locator("#runs tr").first.wait_for()
        assert visit.page.locator("#runs .failed").count() == 0
        process.send_signal(signal.SIGINT)
        visit.page.locator("#over").wait_for()
        expect(visit.page.locator("#over-text")).to_contain_text("interrupted")
        expect(visit.page.locator("#link")).to_have_text("ended")
        visit.is_sound(url)
        assert process.wait() == 7
        visit.context.close()
    earlier = len(ResultStore.open(out).records())
    assert earlier > 0
    visits = [
        Visit(browser, viewport={"width": width, "height": 844}, color_scheme=scheme)
        for width, scheme in ((1280, "light"), (390, "light"), (1280, "dark"))
    ]
    with campaign(tmp_path, "resume", str(out)) as (process, url):
        for visit in visits:
            visit.page.goto(url)
        for visit in visits:
            before = f"{earlier} of them before this session"
            visit.page.locator("#counts", has_text=before).wait_for()
            visit.page.locator("#runs tr").nth(earlier - 1).wait_for()
        for visit in visits:
            visit.page.locator("#over").wait_for()
            visit.page.locator("#brief iframe").wait_for()
        assert process.wait() == 0
        for visit in visits:  # the program has ended, and its brief is shown
            expect(visit.page.locator("#figures")).to_be_hidden()
            frame = visit.page.frame_locator("#brief iframe")
            expect(frame.locator("h1")).to_contain_text(HOSTILE)
            expect(visit.page.locator("#runs tr")).to_have_count(6)
            is_drawn_as_in_the_brief(visit.page)
            visit.page.locator("#course").focus()
            visit.page.keyboard.press("ArrowLeft")
            expect(visit.page.locator("#readout")).to_have_text(re.compile(r"\d\d:\d\d:\d\d, "))
            visit.is_sound(url)
            visit.context.close()


@pytest.mark.browser
def test_a_dip_lies_below_its_moment_and_a_flag_below_its_run(browser: Browser) -> None:
    feed, plan = Feed("s", "1"), a_plan()
    for second in range(12):
        moment = dict.fromkeys(MOMENT) | {
            "at_ms": 1_000_000 + 1000 * second,
            "bytes_s": 100_000_000,
            "heat": [30, "90009"],
            "device_read_s": 90_000_000,
            "device_written_s": 0,
            "phase": "measure" if second else "ramp",
            "run": 0,
        }
        feed.moment([moment[name] for name in MOMENT], [])
    feed.news(dips=[[3_000, 5_000], [1_006_000, 1_007_000]])  # one of a run that is out of view
    row = run_row(a_record(plan), "w, run 1", 0)
    timed = {"kind": "starved", "message": "m"}
    feed.run_ended({**row, "flags": [*row["flags"], timed, {**timed, "kind": "late-start"}]})
    held = [[999_000, 1_002_000], [1_008_000, 1_009_000]]
    feed.news(held={0: {"starved": held, "late-start": [[1_001_000, 1_001_000]]}})
    server = LiveServer(feed)
    server.start()
    visit = Visit(browser)
    visit.page.goto(server.url)
    visit.page.locator("#course svg").wait_for()
    boxes = "all => all.map(e => [e.x.baseVal.value, e.width.baseVal.value])"
    (dip,), (mark, *spans) = (
        visit.page.locator(f"#course .{name}").evaluate_all(boxes) for name in ("dip", "mark")
    )
    second_px = mark[1] / 11

    def box(second: int, length: int) -> list[object]:
        return [pytest.approx(mark[0] + second * second_px), pytest.approx(length * second_px)]

    assert dip == box(6, 1)
    assert spans == [box(0, 2), box(8, 1), [box(1, 0)[0], 2]]  # short times are visible too
    whole = visit.page.locator("#course .mark.whole").evaluate_all(boxes)
    assert whole == [mark]
    heat = visit.page.locator("#course .heat").all()
    assert [shade.get_attribute("style") for shade in heat] == ["fill-opacity: 1;"]
    assert (heat[0].get_attribute("d") or "").count("M") == 11 * 2  # empty bins are not drawn
    titles = visit.page.locator("#course .title").all_text_contents()
    assert "Device (MB/s; dashed: written)" in titles
    words = visit.page.locator("#course .word").all_text_contents()
    assert words == ["⚑ client bound", "⚑ starved", "⚑ late start"]
    visit.page.set_viewport_size({"width": 900, "height": 900})
    feed.run_ended({**row, "flags": [{**timed, "kind": "concurrency-mismatch"}] * 6})
    visit.page.locator("#runs tr").nth(1).wait_for()
    scroll = visit.page.locator(".scroll").evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert scroll[0] == scroll[1]  # flags wrap to another line
    assert visit.logged == []
    visit.context.close()
    server.stop()


def test_the_page_has_the_colours_of_the_brief() -> None:
    css = _resource("page.css").decode()
    own = [dict(re.findall(r"--([\w-]+):(#\w+)", part)) for part in css.split("\n")[:2]]
    for page, brief in zip(own, ({**PAGE_LIGHT, **LIGHT}, {**PAGE_DARK, **DARK}), strict=True):
        assert page == {name: brief[name] for name in page}
        assert len(page) > 15
