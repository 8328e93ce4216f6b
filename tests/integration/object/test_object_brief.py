"""The brief of an object study has every number of every mix, from the stored runs."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

from integration.brief.kinds import FIGURES, draw, names_of
from integration.conftest import Made
from integration.object.object_fixture import HDD, SSD, WARP, build_object_store
from storlab._native import Histogram
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.table import comparison_dict
from storlab.audit.from_results import audit_results
from storlab.base.units import format_number
from storlab.brief import write_brief
from storlab.brief.published import match
from storlab.cli.main import main
from storlab.figures.figure import Figure
from storlab.figures.svg import render
from storlab.model.published import load_published
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from support.vega import assert_vega_lite

MIXES = (30, 50, 70, 90)
STATISTICS = {"mean": None, "p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


@dataclass
class Table:
    """Table of a page; headings that span rows are repeated in each row."""

    caption: str = ""
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    def at(self, *headings: str) -> dict[str, str]:
        """Return the row that starts with these headings, by column names."""
        found = [row for row in self.rows if all(h in row for h in headings)]
        assert len(found) == 1, (headings, self.caption, len(found))
        return dict(zip(self.head, found[0], strict=True))


class Tables(HTMLParser):
    """All tables of a page, with the cells' numbers only, without marks and intervals."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Table] = []
        self._into: list[str] | None = None
        self._quiet = 0
        self._spans: dict[int, tuple[int, str]] = {}
        self._span = 1
        self._in_head = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = (given.get("class") or "").split()
        if tag == "table":
            self.found.append(Table())
            self._spans = {}
        elif tag == "thead":
            self._in_head = True
        elif tag == "tr" and not self._in_head and self.found:
            self.found[-1].rows.append([])
            self._carry()
        elif tag in ("th", "td", "caption"):
            self._into, self._span = [], int(given.get("rowspan") or 1)
        elif self._quiet or {"mark", "spread", "sr", "chip"} & set(names):
            self._quiet += tag not in ("br", "link", "meta", "img")

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self._in_head = False
        if tag in ("th", "td", "caption") and self._into is not None:
            text = re.sub(r"\s+", " ", "".join(self._into).replace("\u2060", "")).strip()
            self._place(tag, text)
            self._into = None
        elif self._quiet:
            self._quiet -= 1

    def handle_data(self, data: str) -> None:
        if self._into is not None and not self._quiet:
            self._into.append(data)

    def _place(self, tag: str, text: str) -> None:
        table = self.found[-1]
        if tag == "caption":
            table.caption = text
        elif self._in_head:
            table.head.append(text)
        else:
            row = table.rows[-1]
            if self._span > 1:
                self._spans[len(row)] = (self._span - 1, text)
            row.append(text)
            self._carry()

    def _carry(self) -> None:
        row = self.found[-1].rows[-1]
        while len(row) in self._spans:
            place = len(row)
            left, text = self._spans.pop(place)
            if left > 1:
                self._spans[place] = (left - 1, text)
            row.append(text)


def tables_of(html: str, anchor: str) -> list[Table]:
    """Return the tables of numbers in one section of a page, including the appendix."""
    name = re.escape(anchor)
    inside = [rf'<(section|details) [^>]*id="{name}".*?</\1>']
    inside += [rf'<div id="(numbers-)?{name}"><h3>.*?(?=<h3|</details>)']
    found = [each for each in (re.search(part, html, re.S) for part in inside) if each]
    assert found, anchor
    text = "".join(each.group(0) for each in found)
    reader = Tables()
    reader.feed(re.sub(r"<(svg|script).*?</\1>|<details>.*?</details>", "", text, flags=re.S))
    return reader.found


def records_of(store: ResultStore, mix: int, target: str) -> list[RunRecord]:
    return [r for r in store.records() if (r.params["get_percent"], r.target) == (mix, target)]


def merged(store: ResultStore, records: list[RunRecord], column: str, operation: str) -> Histogram:
    total = Histogram()
    for record in records:
        for row in store.samples(record.run_id).to_pylist():
            if row["operation"] == operation and row[column]:
                total.add(Histogram.from_v2(row[column]))
    return total


def mean(records: list[RunRecord], name: str, operation: str = "all") -> float:
    values = [record.metric(name, operation) for record in records]
    return statistics.fmean(value for value in values if value is not None)


@pytest.mark.parametrize("target", [SSD, HDD])
@pytest.mark.parametrize("mix", MIXES)
def test_every_number_of_every_mix_is_on_the_page(object_made: Made, mix: int, target: str) -> None:
    """Check that the page has every metric of every mix, from throughput to errors."""
    store = object_made.store
    records = records_of(store, mix, target)
    assert len(records) == 3
    anchor = f"mix-mixed-get-and-put-{mix}-{100 - mix}-get-put-native"
    rates, times = tables_of(object_made.html, anchor)
    for row in (
        rates.at(target),
        tables_of(object_made.html, "all-mixed-get-and-put-native")[0].at(
            f"{mix}/{100 - mix}", target
        ),
    ):
        moved = sum(t.bytes for r in records for t in r.totals.values())
        joules = sum(r.metric("energy_j") or 0 for r in records)
        failed = sum(n for r in records for t in r.totals.values() for n in t.errors.values())
        assert row["throughput MB/s"] == format_number(mean(records, "throughput_mb_s"))
        assert row["GET MB/s"] == format_number(mean(records, "throughput_mb_s", "get"))
        assert row["PUT MB/s"] == format_number(mean(records, "throughput_mb_s", "put"))
        assert row["requests/s"] == format_number(mean(records, "requests_s"))
        assert row["per watt MB/s/W"] == format_number(moved / 1e6 / joules)
        assert row["per TB MB/s/TB"] == format_number(mean(records, "throughput_mb_s_tb"))
        assert row["errors"] == f"{failed:,}"
        assert (failed > 0) == (target == HDD)
    for what, prefix, column, operation in (
        ("GET", "latency", "latency_hist", "get"),
        ("PUT", "latency", "latency_hist", "put"),
        ("GET, first byte", "ttfb", "ttfb_hist", "get"),
    ):
        together = merged(store, records, column, operation)
        shown = times.at(what, target)
        for name, percent in STATISTICS.items():
            value = (
                mean(records, f"{prefix}_mean_ns", operation)
                if percent is None
                else together.percentile(percent)
            )
            assert shown[f"{name} ms"] == format_number(value / 1e6), (what, name)


@pytest.mark.parametrize(
    "kind",
    [
        "object_throughput",
        "object_parts",
        "object_latency",
        "object_percentiles",
        "first_byte_percentiles",
        "ttfb_bars",
        "errors",
    ],
)
def test_a_figure_over_all_mixes_has_each_of_them(object_comparison: Comparison, kind: str) -> None:
    figures = draw(kind, object_comparison, object_comparison.sections)
    assert len(figures) == {"object_percentiles": 2}.get(kind, 1)
    for figure in figures:
        panels = figure.columns[0] == "request"
        rows = [row[1:] if panels else row for row in figure.rows]
        assert {row[0] for row in rows} == {f"{mix}/{100 - mix}" for mix in MIXES}
        assert {row[1] for row in rows} == ({HDD} if kind == "errors" else {SSD, HDD})
        assert len(set(figure.point_ids)) == 8


def test_bars_and_dots_are_what_the_runs_measured(object_comparison: Comparison) -> None:
    sections = object_comparison.sections
    (whole,) = draw("object_throughput", object_comparison, sections)
    (parts,) = draw("object_parts", object_comparison, sections)
    of_parts = parts.spec["datasets"]
    shown = {"all": whole.spec["datasets"]} | {
        operation: {name: of_parts[f"{name}{number}"] for name in ("bars", "dots")}
        for number, operation in enumerate(("get", "put"))
    }
    for operation, data in shown.items():
        assert (len(data["bars"]), len(data["dots"])) == (8, 24)
        for section in object_comparison.sections:
            for target, cell in object_comparison.row(section.points[0]).cells.items():
                values = [r.record.metric("throughput_mb_s", operation) for r in cell.runs]
                place = (section.mix, target)
                dots = [d["value"] for d in data["dots"] if (d["x"], d["target"]) == place]
                (bar,) = [d for d in data["bars"] if (d["x"], d["target"]) == place]
                assert dots == pytest.approx([v for v in values if v is not None], abs=1e-3)
                assert bar["value"] == pytest.approx(statistics.fmean(dots), abs=1e-2)
                assert bar["low"] <= bar["value"] <= bar["high"]
                assert bar["low"] < bar["high"] or len(set(dots)) == 1


def figures_of(comparison: Comparison) -> list[Figure]:
    found: list[Figure] = []
    for name in (*names_of("object"), "published_mixes"):
        sections = comparison.sections
        scopes = [[s] for s in sections] if FIGURES[name].scope == "section" else [sections]
        found += [figure for scope in scopes for figure in draw(name, comparison, scope)]
    return found


def test_specifications_are_valid_vega_lite(object_store: ResultStore) -> None:
    comparison = compare(load_dataset([object_store]))
    comparison.published = match(comparison, [load_published(WARP)])
    figures = figures_of(comparison)
    not_swept = {
        *("throughput_vs_axis", "latency_vs_axis", "efficiency_vs_axis", "latency_under_load")
    }
    assert {f.kind for f in figures} == {
        *set(names_of("object")) - not_swept,
        "published_mixes",
    }
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert_vega_lite(figure.spec)
        assert all(len(row) == len(figure.columns) for row in figure.rows)
        assert any(character.isdigit() for character in figure.full_title)
        assert figure.point_ids
        assert render(figure).startswith("<svg")


def test_what_failed_stands_with_its_runs(object_made: Made) -> None:
    html = object_made.html
    for record in records_of(object_made.store, 30, HDD):
        kinds = record.totals["put"].errors
        text = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
        assert set(kinds) == {"SlowDown (503)", "time-out"}
        assert f"<code>{record.run_id}</code>: PUT: {text}" in html
    assert "They are not part of rates, bytes and latencies" in html
    table = tables_of(html, "all-mixed-get-and-put-native")[1]
    row = table.at("30/70 GET/PUT, 4 MiB, concurrency 16", "PUT", "time-out", HDD)
    records = records_of(object_made.store, 30, HDD)
    assert row["failed"] == str(sum(r.totals["put"].errors["time-out"] for r in records))


def test_without_errors_nothing_is_drawn_of_them(tmp_path: Path) -> None:
    store = build_object_store(tmp_path / "run", mixes=(50,), repeats=1, refuse=False)
    comparison = compare(load_dataset([store]))
    assert draw("errors", comparison, comparison.sections) == []
    html = write_brief(store, pdf=False).read_text("utf-8")
    assert "Failed requests of all finished runs" not in html
    (rates,) = tables_of(html, "all-mixed-get-and-put-native")
    assert {row[rates.head.index("errors")] for row in rates.rows} == {"0"}


def test_published_mixes_stand_hatched_beside_the_measured(object_made: Made) -> None:
    (table,) = tables_of(object_made.html, "published")
    row = table.at("30/70 GET/PUT, 4 MiB, concurrency 16", "1x SSD", "rows 023, 024, 042, 063, 080")
    assert (row["GET MB/s"], row["PUT MB/s"]) == ("1,251", "2,920")
    assert (row["per watt MB/s/W"], row["per TB MB/s/TB"]) == ("167.40", "17.0")
    assert row["GET first byte mean ms"] == "5.00"
    section = object_made.html[object_made.html.index('id="published"') :]
    assert section.count('<span class="chip">published</span>') == 8
    assert 'href="#mark-not-stated"' in section
    assert "-hatch-s1)" in section
    before = object_made.html[object_made.html.index('id="findings"') :]
    before = before[: before.index('id="published"')]
    assert "8,473" not in before


def test_published_values_are_converted_and_drawn(object_store: ResultStore) -> None:
    comparison = compare(load_dataset([object_store]))
    comparison.published = match(comparison, [load_published(WARP)])
    figures = draw("published_mixes", comparison, comparison.sections)
    assert [f.name.removeprefix("published-") for f in figures] == [
        "mixed-get-and-put-throughput-mb-s-all-4-mib",
        "mixed-get-and-put-throughput-mb-s-get-4-mib",
        "mixed-get-and-put-throughput-mb-s-put-4-mib",
        "mixed-get-and-put-ttfb-mean-ns-get-4-mib",
    ]
    printed = [d for d in figures[3].spec["datasets"]["values"] if d["provenance"] == "published"]
    assert len(printed) == 8
    hdd = {d["x"]: d["value"] for d in printed if d["name"] == HDD}
    assert hdd == pytest.approx({"30/70": 180e6, "50/50": 196e6, "70/30": 227e6, "90/10": 289e6})
    assert {d["fill"] for d in printed} == {"url(#hatch-s1)", "url(#hatch-s2)"}


def test_a_publication_of_reads_and_writes_is_not_of_gets_and_puts(
    object_store: ResultStore,
) -> None:
    comparison = compare(load_dataset([object_store]))
    assert match(comparison, [load_published("micron-6600-ion-vs-16-hdd-fio")]) == []


def test_a_swept_concurrency_is_the_axis_in_each_mix(tmp_path: Path) -> None:
    store = build_object_store(
        tmp_path / "run", mixes=(30, 90), repeats=2, sizes='["64KiB", "4MiB"]',
        concurrency="[4, 16]", power=False,
    )  # fmt: skip
    comparison = compare(load_dataset([store]))
    assert [s.title for s in comparison.sections] == ["30/70 GET/PUT", "90/10 GET/PUT"]
    for kind, number in (("throughput_vs_axis", 2), ("latency_vs_axis", 2 * 2)):
        figures = draw(kind, comparison, comparison.sections)
        assert len(figures) == number
        assert all({row[1] for row in figure.rows} == {"4", "16"} for figure in figures)
        assert all(len({row[0] for row in figure.rows}) == 2 for figure in figures)
    (whole,) = draw("object_throughput", comparison, comparison.sections)
    assert len(whole.spec["concat"]) == 2
    assert "concurrency 16" in json.dumps(whole.spec, ensure_ascii=False).replace("\u00a0", " ")
    html = write_brief(store, pdf=False).read_text("utf-8")
    rates, times = tables_of(html, "mix-mixed-get-and-put-30-70-get-put-native")
    assert len(rates.rows) == 2 * 2 * 2
    assert len(times.rows) == 2 * 2 * 3 * 2
    assert rates.at("64 KiB", "4", SSD)["throughput MB/s"]


def test_the_audit_knows_object_requests(object_store: ResultStore) -> None:
    found = {finding.rule: finding for finding in audit_results(object_store.directory)}
    assert {rule for rule, f in found.items() if f.severity == "error"} == set()
    assert found["errors"].printed == f"{HDD}: 4 of 4 points"
    assert set(found) <= {"errors", "effective_concurrency", "mix_off", "not_steady"}


def test_swept_distributions_of_sizes_are_cells_of_their_own(tmp_path: Path) -> None:
    sizes = '[{ uniform = ["1MiB", "2MiB"] }, { uniform = ["2MiB", "8MiB"] }]'
    store = build_object_store(tmp_path / "run", mixes=(50,), repeats=2, sizes=sizes, refuse=False)
    found = audit_results(store.directory)
    assert [finding for finding in found if finding.rule == "duplicates"] == []


def test_an_older_result_has_no_first_bytes(
    object_store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ResultStore.samples

    def old(store: ResultStore, run_id: str) -> object:
        return whole(store, run_id).drop_columns(["ttfb_hist", "errors"])

    monkeypatch.setattr(ResultStore, "samples", old)
    runs = list(load_dataset([object_store]).all_runs())
    assert all(run.reduced.times["ttfb"] == {} and run.reduced.times["latency"] for run in runs)
    assert {i.errors for run in runs for i in run.series} == {0}


def test_families_have_sections_tables_and_scales_of_their_own(two_families: Made) -> None:
    html = two_families.html
    assert 'id="all-mixed-get-and-put-native"' in html
    assert 'id="all-block-native"' not in html
    (block,) = tables_of(html, "mix-block-block-30-70-read-write-native")
    assert "read mean ms" in block.head
    assert {row[2] for row in block.rows} == {"Disk", "Memory"}
    density = {t.caption: t for t in tables_of(html, "density")}
    objects = density["mixed GET and PUT: per terabyte of raw capacity"]
    assert {row[1] for row in objects.rows} == {SSD, HDD}
    disks = density["block: per terabyte of raw capacity"]
    assert {row[1] for row in disks.rows} == {"Disk", "Memory"}
    assert not any("not measured" in row for t in (objects, disks) for row in t.rows)
    runs = tables_of(html, "runs")
    assert [table.caption for table in runs] == [
        "All runs of mixed GET and PUT, by workload point and target",
        "All runs of block, by workload point and target",
    ]
    assert "server CPU s/GB" in runs[0].head
    assert "client CPU µs/IO" in runs[1].head
    found = tables_of(html, "findings")
    families = [table.caption.partition(":")[0] for table in found[:2]]
    assert families == ["mixed GET and PUT", "block"]
    assert "every mix and object size at the highest concurrency" in html
    assert "every mix and block size at the largest number of jobs" in html
    assert two_families.path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_the_embedded_server_is_named_beside_its_numbers(two_families: Made) -> None:
    html = two_families.html
    assert 'id="mark-embedded-server"' in html
    assert "storlab’s own server, over loopback" in html
    assert "is not a product" in html


def test_the_terminal_says_the_same(
    object_made: Made, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlab.cli.terminal.out._width", 160)
    directory = str(object_made.store.directory)
    assert main(["compare", directory]) == 0
    text = capsys.readouterr().out
    records = records_of(object_made.store, 70, SSD)
    for value in (
        mean(records, "throughput_mb_s", "get"),
        mean(records, "requests_s"),
        mean(records, "ttfb_mean_ns", "get") / 1e6,
    ):
        assert f" {format_number(value)} " in text
    assert "GET, first byte" in text
    assert main(["compare", directory, "-m", "ttfb_p99_ns", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [column["key"] for column in data["columns"]] == ["ttfb_p99_ns.get"]
    assert main(["status", directory]) == 0
    assert "failed requests: " in capsys.readouterr().out


def test_errors_are_in_the_data_by_operation_and_kind(object_comparison: Comparison) -> None:
    points = comparison_dict(object_comparison)["points"]
    cells = [point["targets"][HDD]["errors"] for point in points]
    assert all(set(cell) == {"put"} for cell in cells)
    assert cells[0]["put"]["SlowDown (503)"] > 0
    assert all(point["targets"][SSD]["errors"] == {} for point in points)
