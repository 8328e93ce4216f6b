"""The brief as a file: offline, with every number linked to its runs."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from integration.brief.brief_fixture import build_store
from integration.brief.kinds import FIGURES, draw, names_of
from integration.conftest import Made
from storlab.analysis import digits
from storlab.analysis.compare import Comparison
from storlab.base.errors import ExitCode
from storlab.brief import write_brief
from storlab.brief.pdf import PdfError
from storlab.cli.main import main
from storlab.figures.figure import Figure
from storlab.figures.svg import render, standalone
from storlab.figures.theme import DARK
from storlab.model.decision import Interval
from support.vega import assert_vega_lite

MOST_BYTES = 6_000_000
ADDRESS = re.compile(r"""(?:src|href|action|poster|data)\s*=\s*["'](?:https?:)?//""")
STYLE_ADDRESS = re.compile(r"url\(\s*['\"]?(?!#)|@import")


class Outline(HTMLParser):
    """Ids, links, headings and names of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.tables = self.captions = 0
        self.header_cells: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in ("img", "svg"):
            self.images.append(given)
        self.tables += tag == "table"
        self.captions += tag == "caption"
        if tag == "th":
            self.header_cells.append(given)


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    return found


def without_vega(html: str) -> str:
    """Return the page without scripts: Vega's code contains addresses that it never opens."""
    return re.sub(r"<script>.*?</script>", "", html, flags=re.S)


def test_the_page_is_one_file_that_needs_no_network(made: Made) -> None:
    page = without_vega(made.html)
    assert not ADDRESS.search(page)
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert style is not None
    assert not STYLE_ADDRESS.search(style.group(1))
    assert "default-src 'none'" in page
    assert len(made.html.encode()) < MOST_BYTES
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src)=", page)


def test_links_inside_lead_somewhere(made: Made) -> None:
    page = outline(made.html)
    assert len(page.ids) == len(set(page.ids))
    missing = {x for x in page.links if x.startswith("#")} - {f"#{i}" for i in page.ids}
    assert not missing


def test_links_beside_lead_to_files_of_the_result(made: Made) -> None:
    links = [x for x in outline(made.html).links if not x.startswith("#")]
    assert len(links) > 2 * len(made.store.plan.runs)
    assert [x for x in links if not (made.path.parent / x).is_file()] == []


def test_every_run_stands_in_the_appendix_with_its_files(made: Made) -> None:
    page = outline(made.html)
    for run in made.store.plan.runs:
        assert f"run-{run.run_id}" in page.ids
        assert f"runs/{run.run_id}/run.json" in page.links
        assert f"runs/{run.run_id}/samples.parquet" in page.links


def test_every_number_of_a_table_links_to_its_runs(made: Made) -> None:
    cells = re.findall(r'<td class="num[^"]*">(.*?)</td>', made.html, re.S)
    tables = re.split(r'<table class="data appendix">', made.html)[0]
    cells = re.findall(r'<td class="num([^"]*)">(.*?)</td>', tables, re.S)
    assert len(cells) > 300
    unlinked = {"missing", "fact"}
    assert all('href="#point-' in c for kind, c in cells if not unlinked & set(kind.split()))


def test_structure_reads_in_order(made: Made) -> None:
    page = outline(made.html)
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    steps = zip(page.headings, page.headings[1:], strict=False)
    assert all(after - before <= 1 for before, after in steps)
    assert page.tables == page.captions
    assert all(cell.get("scope") for cell in page.header_cells)
    assert page.images
    assert all(i.get("aria-label") for i in page.images)


def test_the_data_inside_is_the_comparison(made: Made, comparison: Comparison) -> None:
    found = re.search(r'id="storlab-data">(.*?)</script>', made.html, re.S)
    assert found is not None
    data = json.loads(found.group(1))
    assert len(data["comparison"]["points"]) == len(comparison.rows)
    assert len(data["runs"]) == len(made.store.plan.runs)
    assert "throughput_mb_s.all" in data["runs"][0]["metrics"]
    findings = {row["quantity"]: row for row in data["findings"]}
    assert {"throughput", "mean read latency", "p99 write latency"} <= set(findings)
    row, decision = findings["throughput"], findings["throughput"]["decision"]
    assert row["points"] == row["won"] == len(comparison.rows)
    assert decision["sides"] == ["Memory", "Disk"]
    assert all(len(side) == 3 for side in decision["runs"])
    assert digits.times(Interval(**decision["interval"])) in row["statement"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    store = build_store(tmp_path / "run", mixes=(30,), repeats=1)
    title = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    html = write_brief(store, title=title, pdf=False).read_text("utf-8")
    assert "<script>alert(1)" not in html
    assert "<img src=x" not in html


def test_an_interrupted_campaign_says_what_is_missing(made_partial: Made) -> None:
    html = made_partial.html
    assert "34 of 96 planned runs finished, 3 failed." in html
    assert "not measured" in html
    assert "3\u00a0runs failed" in html
    assert "EIO (Input/output error) at offset 4194304" in html
    assert "59\u00a0runs of 96 are missing" in html


def test_a_campaign_without_runs_still_makes_a_brief(tmp_path: Path) -> None:
    store = build_store(tmp_path / "empty", mixes=(30,), repeats=1, stop_after=0)
    html = write_brief(store).read_text("utf-8")
    assert "No run has finished yet." in html
    assert "nothing can be compared" in html
    assert (store.directory / "brief.pdf").read_bytes().startswith(b"%PDF")


def test_figures_are_files_without_script(made: Made) -> None:
    names = sorted((made.path.parent / "figures").glob("*.svg"))
    assert len(names) == 2 * (2 * (4 + 2 * 2) + 3)
    for name in names:
        text = name.read_text("utf-8")
        root = ElementTree.fromstring(text)
        assert root.find("{http://www.w3.org/2000/svg}title") is not None
        assert "<script" not in text
        assert "var(--" not in text


def test_the_pdf_is_set(made: Made) -> None:
    content = made.path.with_suffix(".pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert len(content) > 100_000


def test_a_pdf_that_could_not_be_set_leaves_no_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = build_store(tmp_path / "run", mixes=(30,), repeats=1)
    older = store.directory / "brief.pdf"
    older.write_bytes(b"%PDF of another brief")

    def refuse(*_: object) -> bytes:
        raise PdfError("no font")

    monkeypatch.setattr("storlab.brief.pdf.render_pdf", refuse)
    assert main(["report", str(store.directory)]) == ExitCode.OK
    assert "brief.pdf" not in capsys.readouterr().out
    assert not older.exists()


def test_figures_that_went_away_are_removed_and_others_stay(tmp_path: Path) -> None:
    store = build_store(tmp_path / "run", mixes=(30,), repeats=1)
    figures = store.directory / "figures"
    figures.mkdir()
    (figures / "drawn-by-hand.svg").write_text("<svg/>")
    write_brief(store, pdf=False)
    listed = json.loads((figures / "storlab-figures.json").read_text())["figures"]
    assert sorted([*listed, "drawn-by-hand.svg"]) == sorted(p.name for p in figures.glob("*.svg"))
    (figures / "throughput-gone.light.svg").write_text("<svg/>")
    of_before = {"figures": [*listed, "throughput-gone.light.svg", "../study.toml"]}
    (figures / "storlab-figures.json").write_text(json.dumps(of_before))
    write_brief(store, pdf=False)
    assert not (figures / "throughput-gone.light.svg").exists()
    assert (figures / "drawn-by-hand.svg").exists()
    assert (store.directory / "study.toml").exists()


def test_report_writes_elsewhere_and_its_links_still_hold(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "study.html"
    arguments = ["report", str(made.store.directory), "--out", str(out), "--no-pdf", "--json"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.pop("verdicts")
    assert report.pop("schema") == "report"
    assert report == {
        "version": 1,
        "html": str(out),
        "pdf": None,
        "directory": str(made.store.directory),
        "changed_settings": [],
    }
    links = [x for x in outline(out.read_text("utf-8")).links if not x.startswith("#")]
    assert [x for x in links if not (out.parent / x).is_file()] == []
    assert sorted(p.name for p in out.parent.iterdir()) == ["study-figures", "study.html"]


def figures_of(comparison: Comparison) -> list[Figure]:
    found = []
    for name in names_of("block"):
        sections = comparison.sections
        scopes = [[s] for s in sections] if FIGURES[name].scope == "section" else [sections]
        found += [figure for scope in scopes for figure in draw(name, comparison, scope)]
    return found


def test_specifications_are_valid_vega_lite(comparison: Comparison) -> None:
    figures = figures_of(comparison)
    without_meter = {"power_over_time", "efficiency_bars", "efficiency_vs_axis"}
    closed_loop = {"latency_under_load"}
    assert {f.kind for f in figures} == set(names_of("block")) - without_meter - closed_loop
    for figure in figures:
        assert_vega_lite(figure.spec)


def test_figures_have_data_a_name_and_a_finding(comparison: Comparison) -> None:
    figures = figures_of(comparison)
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert figure.rows
        assert all(len(row) == len(figure.columns) for row in figure.rows)
        assert any(character.isdigit() for character in figure.full_title)
        assert figure.point_ids


def test_modelled_values_are_hatched(comparison: Comparison) -> None:
    figure = draw("latency_points", comparison, comparison.sections[:1])[0]
    text = json.dumps(figure.spec).replace('"var(--s1)"', '"url(#hatch-s1)"')
    hatched = Figure(
        **{**{f: getattr(figure, f) for f in Figure.__slots__}, "spec": json.loads(text)}
    )
    svg = standalone(render(hatched), hatched, DARK)
    assert 'id="' + figure.name + '-hatch-s1"' in svg
    assert f"url(#{figure.name}-hatch-s1)" in svg
    assert DARK["s1"] in svg
