"""``storlab history``: planted changes found, no directory read twice, names stay text."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.history import index
from storlab.results.store import ResultStore
from support.result_histories import ResultHistory

DAYS, CHANGED, UPDATED = 200, 120, 60
HOSTILE = '"><script>alert(1)</script>]]>&amp;\u202eevil\u202c'
LONG = "x" * 300


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 nights: a disk slowed by 5 % by new firmware, and a kernel update without effect."""
    root = tmp_path_factory.mktemp("history") / "results"
    history = ResultHistory(root)
    for number in range(DAYS):
        history.make(
            number,
            {"Disk": 0.95 if number >= CHANGED else 1.0},
            firmware="FW2" if number >= CHANGED else "FW1",
            kernel="Linux 6.9" if number >= UPDATED else "Linux 6.8",
        )
    return root


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, Any]]:
    code = main(["history", *map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def shifts(told: dict[str, Any], target: str) -> list[list[dict[str, Any]]]:
    """Return the changes of a target by point."""
    return [point["changes"] for point in told["points"] if point["target"] == target]


def test_planted_changes_are_found_with_their_candidate(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = run(capsys, results, "--out", tmp_path / "site")
    assert code == ExitCode.OK
    assert told["directories"] == DAYS
    assert len(told["read"]) == DAYS
    assert {(p["target"], p["results"], p["runs"]) for p in told["points"]} == {
        ("Disk", DAYS, 3 * DAYS),
        ("Memory", DAYS, 3 * DAYS),
    }
    planted = [change for changes in shifts(told, "Disk") for change in changes]
    assert {c["metric"] for c in planted} >= {"throughput_mb_s.all", "latency_p99_ns.read"}
    near = [c for c in planted if abs(int(c["directory"][-4:]) - CHANGED) <= 2]
    assert len(near) >= 0.9 * len(planted)
    assert len(near) == 12  # six quantities of two points
    for change in near:
        assert change["verdict"] == "worse"
        assert change["chance"] == 0.001
        first = change["candidates"][0]
        assert first["field"] == "drives.1.firmware"
        assert (first["before"], first["after"], first["elsewhere"]) == ("FW1", "FW2", 0)
        if change["metric"].startswith("throughput"):
            ratio = change["ratio"]
            assert ratio["low"] <= 0.95 <= ratio["high"] or abs(ratio["estimate"] - 0.95) < 0.01
    assert all(not changes for changes in shifts(told, "Memory"))
    assert told["points"][0]["target"] == "Disk"  # newest change first


def test_only_what_is_new_or_changed_is_read(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "results"
    nights = sorted(results.iterdir())[:30]
    for night in nights[:20]:
        shutil.copytree(night, own / night.name)
    site = tmp_path / "site"
    assert len(run(capsys, own, "--out", site)[1]["read"]) == 20
    before = (site / "index.html").stat().st_mtime_ns
    assert run(capsys, own, "--out", site)[1]["read"] == []
    assert (site / "index.html").stat().st_mtime_ns == before
    for night in nights[20:]:
        shutil.copytree(night, own / night.name)
    _, told = run(capsys, own, "--out", site)
    assert sorted(told["read"]) == [str(own / night.name) for night in nights[20:]]
    assert told["directories"] == 30
    changed = own / nights[3].name
    store = ResultStore.open(changed)
    record = store.records()[0]
    store.write_run(record.model_copy(update={"status": "failed"}), [], {})
    _, told = run(capsys, own, "--out", site)
    assert told["read"] == [str(changed)]
    assert {point["runs"] for point in told["points"]} == {90, 89}


def test_what_is_no_longer_given_is_no_longer_shown(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights, site = sorted(results.iterdir()), tmp_path / "site"
    other = ResultHistory(tmp_path / "other", targets=("Tape",))
    run(capsys, *nights[:3], other.make(0), "--out", site)
    tape = next((site / "points").glob("tape-*.html"))
    (site / "points" / "mine.txt").write_text("somebody's")
    _, told = run(capsys, *nights[:2], "--out", site)
    assert told["directories"] == 2
    assert not tape.exists()
    assert (site / "points" / "mine.txt").exists()


def test_an_index_that_cannot_be_read_is_made_again(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights, site = sorted(results.iterdir())[:3], tmp_path / "site"
    run(capsys, *nights, "--out", site)
    (site / index.NAME).write_bytes(b"not Arrow")
    code, told = run(capsys, *nights, "--out", site)
    assert (code, len(told["read"])) == (ExitCode.OK, 3)


def test_a_folder_of_somebody_else_is_left_alone(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "index.html").write_text("mine")
    code, told = run(capsys, results / "night-0000", "--out", tmp_path / "thesis")
    assert code == ExitCode.USAGE
    assert "not empty" in told["error"]["what"]
    assert (tmp_path / "thesis" / "index.html").read_text() == "mine"


def test_what_cannot_be_read_is_named_and_the_others_are_shown(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights, site = sorted(results.iterdir()), tmp_path / "site"
    foreign, damaged = tmp_path / "foreign", tmp_path / "damaged"
    foreign.mkdir()
    shutil.copytree(nights[1], damaged)
    next(damaged.glob("runs/*/run.json")).write_text("{}")
    given = [nights[0], foreign, damaged, tmp_path / "absent"]
    code, told = run(capsys, *given, "--out", site)
    assert code == ExitCode.RESULT
    assert told["directories"] == 1
    assert [p["where"].startswith(str(tmp_path)) for p in told["problems"]] == [True] * 3
    assert all(problem["fix"] for problem in told["problems"])
    page = (site / "index.html").read_text()
    assert "3 directories could not be read" in page
    assert "is not a result directory" in page
    assert main(["history", *map(str, given), "--out", str(site)]) == ExitCode.RESULT
    printed = capsys.readouterr().err
    assert printed.count("error:") == 3
    assert str(foreign) in printed
    code, told = run(capsys, foreign, "--out", tmp_path / "none")
    assert code == ExitCode.RESULT
    assert told["error"]["where"] == str(foreign)
    a_file = tmp_path / "file"
    a_file.touch()
    code, told = run(capsys, a_file, "--out", tmp_path / "none")
    assert (code, told["error"]["what"]) == (8, "is a file, not a directory")
    assert not (tmp_path / "none").exists()


def test_a_directory_is_shown_once_and_a_folder_stands_for_its_results(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    night = results / "night-0000"
    (tmp_path / "link").symlink_to(night)
    _, told = run(capsys, night, tmp_path / "link", f"{night}/", "--out", tmp_path / "site")
    assert told["directories"] == 1
    _, told = run(capsys, results, night, "--out", tmp_path / "site")
    assert told["directories"] == DAYS
    baselines = tmp_path / "baselines"  # as `storlab gate --save` leaves it next to the results
    baselines.mkdir()
    (baselines / "stable.json").write_text("{}")
    code, told = run(capsys, night, baselines, "--out", tmp_path / "site")
    assert (code, told["directories"], told["problems"]) == (0, 1, [])


class Tags(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_hostile_names_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "re\u202esults javascript:'\"<b>"
    history = ResultHistory(root, targets=(HOSTILE, LONG), study=HOSTILE, repeats=2)
    names = [f"n{number} ]]><img src=x onerror=alert(1)>#?%41" for number in range(12)]
    for number, name in enumerate(names):
        made = history.make(
            number,
            {HOSTILE: 0.8 if number >= 6 else 1.0},
            name=name,
            firmware="<i>FW2</i>" if number >= 6 else "FW1",
        )
        (made / "brief.html").write_text("a brief")
    site = tmp_path / "site"
    code, told = run(capsys, root, "--out", site)
    assert code == ExitCode.OK
    assert {point["target"] for point in told["points"]} == {HOSTILE, LONG}
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 5
    assert all(re.fullmatch(r"[a-z0-9.-]{1,80}", page.name) for page in pages)
    scripts: set[str | None] = set()
    for page in pages:
        found = Tags(page.read_text(encoding="utf-8"))
        scripts |= {attrs.get("src") for tag, attrs in found.tags if tag == "script"}
        assert not {"img", "i"} & {tag for tag, _ in found.tags}
        assert not [a for _, attrs in found.tags for a in attrs if a.startswith("on")]
        links = [a["href"] or "" for tag, a in found.tags if tag == "a"]
        assert not [link for link in links if ":" in link.partition("#")[0]]
        briefs = [link for link in links if "brief.html" in link]
        assert briefs or page.name != "index.html"
    assert scripts == {"history.js", "../history.js"}
    point = next(p for p in told["points"] if p["changes"])
    text = "".join(Tags((site / point["page"]).read_text(encoding="utf-8")).texts)
    assert HOSTILE.translate(dict.fromkeys((0x202E, 0x202C), "\ufffd")) in text
    assert "<i>FW2</i>" in text


def test_links_lead_to_the_runs_in_each_brief(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from urllib.parse import unquote, urljoin, urlsplit

    night = tmp_path / "a night #1 100%"
    shutil.copytree(results / "night-0000", night)
    (night / "brief.html").write_text("a brief")
    site = tmp_path / "deep" / "site"
    _, told = run(capsys, night, "--out", site)
    for point in told["points"]:
        page = site / point["page"]
        links = [a["href"] or "" for tag, a in Tags(page.read_text()).tags if tag == "a"]
        (link,) = [link for link in links if "brief.html" in link]
        target = urlsplit(urljoin(page.as_uri(), link))
        assert unquote(target.path) == str(night / "brief.html")
        assert target.fragment.removeprefix("point-") in ResultStore.open(night).plan.points


def test_a_site_with_its_briefs_leads_nowhere_else(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from urllib.parse import unquote, urlsplit

    given = []
    for number in range(3):
        night = tmp_path / f"{number} a night #1 100% ../<b>"
        shutil.copytree(results / f"night-000{number}", night)
        given.append(night)
    (given[0] / "brief.html").write_text("brief of the first night")
    (given[1] / "brief.html").write_text("of the second")
    (tmp_path / "secret").write_text("of somebody")
    (given[2] / "brief.html").symlink_to(tmp_path / "secret")
    site = tmp_path / "deep" / "site"
    run(capsys, *given, "--out", site, "--briefs", "copy")
    linked = set()
    for page in site.rglob("*.html"):
        links = [a["href"] or "" for tag, a in Tags(page.read_text()).tags if tag == "a"]
        for link in links:
            path = (page.parent / unquote(urlsplit(link).path)).resolve()
            assert path.is_relative_to(site)
            assert path.exists()
            linked.add(path)
    briefs = sorted((site / "briefs").iterdir(), key=lambda path: path.read_text())
    assert set(briefs) <= linked
    assert [b.read_text() for b in briefs] == ["brief of the first night", "of the second"]
    before = [path.stat().st_ino for path in briefs]
    (given[1] / "brief.html").write_text("of the second, written anew")
    run(capsys, *given, "--out", site, "--briefs", "copy")
    assert briefs[1].read_text() == "of the second, written anew"
    assert briefs[0].stat().st_ino == before[0]
    run(capsys, given[0], "--out", site, "--briefs", "copy")
    assert list((site / "briefs").iterdir()) == [briefs[0]]
    run(capsys, *given, "--out", site)
    assert list((site / "briefs").iterdir()) == []


def test_a_campaign_without_runs_says_so(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    shutil.copytree(results / "night-0000", empty)
    shutil.rmtree(empty / "runs")
    (empty / "runs").mkdir()
    code, told = run(capsys, empty, "--out", tmp_path / "site")
    assert (code, told["points"]) == (ExitCode.OK, [])
    assert "No run has finished." in (tmp_path / "site" / "index.html").read_text()


def test_the_terminal_names_the_newest_changes(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(results), "--out", str(tmp_path / "site")]) == ExitCode.OK
    first, second, last = capsys.readouterr().out.splitlines()
    assert "Disk, 70/30 read/write" in first
    assert "less (worse); firmware of drive 1: FW1, then FW2" in first.replace("\u00a0", " ")
    assert "Disk" in second
    assert f"4\u00a0points in {DAYS}\u00a0results, {DAYS} read now" in last
