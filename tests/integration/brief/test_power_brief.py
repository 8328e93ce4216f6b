"""Power, density, cost and published results in the brief compare like with like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from integration.brief.brief_fixture import finished_run
from integration.brief.kinds import draw
from integration.brief.power_fixture import DRAWS, INFOS, WINDOW_NS, Kind, build_power_store, mean_w
from integration.conftest import LIMIT_MS
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.power_trace import power_trace
from storlab.base.errors import ResultError
from storlab.brief import write_brief
from storlab.brief.published import match
from storlab.cli.main import main
from storlab.figures.figure import Figure
from storlab.figures.svg import render
from storlab.model.published import read_table
from storlab.model.result import RunRecord, Sample
from storlab.results.store import ResultStore
from support.vega import assert_vega_lite

Make = Callable[..., ResultStore]
SSD, HDD = "1x SSD", "16x HDD"
EFFICIENCY = "efficiency_mb_s_w.all"
PUBLISHED = """id,config,rw_mix,block_size,op,metric,x_name,x_value,value,unit,kind,printed
1,2x Flash,30/70,256KB,read+write,throughput,numjobs,8,9000,MB/s,measured,"9,000"
2,2x Flash,30/70,256KB,read+write,power_efficiency,numjobs,not_stated,300,MB/s/W,measured,300
3,2x Flash,30/70,256KB,read,latency_avg,numjobs,not_stated,0.89,ms,measured,0.89
4,2x Flash,30/70,256KB,read+write,throughput,numjobs,16,9900,MB/s,measured,"9,900"
5,2x Flash,90/10,256KB,read+write,throughput,numjobs,8,9900,MB/s,measured,"9,900"
6,2x Flash,30/70,256KB,read+write,throughput_ratio,numjobs,8,7.2,x,ratio_claim,7.2x
7,,,,,iodepth,,,64,count,config,64
"""


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Provide stores by the kind of their targets' meters, each made once."""
    made: dict[tuple[str, ...], ResultStore] = {}

    def store(ssd: Kind, hdd: Kind, header: str = "") -> ResultStore:
        key = (ssd, hdd, header)
        if key not in made:
            directory = tmp_path_factory.mktemp("power") / "run"
            meters = {SSD: ssd, HDD: hdd}
            made[key] = build_power_store(directory, meters, repeats=2, mixes=(30,), header=header)
        return made[key]

    return store


def comparison_of(store: ResultStore) -> Comparison:
    return compare(load_dataset([store]))


def page_of(store: ResultStore) -> str:
    return write_brief(store, pdf=False).read_text("utf-8")


def section_of(html: str, anchor: str) -> str:
    found = re.search(rf'<section class="extra" id="{anchor}".*?</section>', html, re.S)
    assert found is not None, anchor
    return found.group(0)


def text_of(html: str) -> str:
    plain = re.sub(r"<(script|style|svg).*?</\1>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", plain)).replace("\u2060", "")


def test_joules_and_bytes_of_the_runs_are_what_the_table_says(make: Make) -> None:
    comparison = comparison_of(make("wall", "wall"))
    for row in comparison.rows.values():
        for cell in row.cells.values():
            records = [run.record for run in cell.runs]
            moved = sum(t.bytes for record in records for t in record.totals.values())
            joules = sum(s.energy_j or 0 for record in records for s in record.power)
            assert cell.values[EFFICIENCY].estimate == pytest.approx(moved / 1e6 / joules)
            assert cell.values["power_w.all"].estimate == pytest.approx(
                joules / len(records) / (WINDOW_NS / 1e9)
            )
        ratio = row.ratios[SSD][EFFICIENCY]
        parts = [row.cells[name].values[EFFICIENCY].estimate for name in (SSD, HDD)]
        assert ratio.interval.estimate == pytest.approx(parts[0] / parts[1])
        assert ratio.boundaries == ""


def test_a_common_boundary_is_found_where_headlines_differ(make: Make) -> None:
    comparison = comparison_of(make("both", "device"))
    accounts = [c.power for row in comparison.rows.values() for c in row.cells.values()]
    assert {account.boundary for account in accounts if account} == {"device"}
    assert not any(row.refused for row in comparison.rows.values())
    shares = next(a.share_rules for a in accounts if a)
    assert shares[0].startswith("50\u00a0% of rapl:package-0: two drives")


def bars_of(figure: Figure, name: str = "bars") -> list[dict[str, Any]]:
    """Return a data set of all panels of a figure."""
    return [d for own, data in figure.spec["datasets"].items() if own.startswith(name)
            for d in data]  # fmt: skip


def test_ratios_across_boundaries_are_refused(make: Make) -> None:
    store = make("device", "wall")
    comparison = comparison_of(store)
    for row in comparison.rows.values():
        assert row.refused == {SSD: "device (DC) against wall (AC)"}
        assert EFFICIENCY not in row.ratios[SSD]
        assert EFFICIENCY in row.cells[SSD].values
    text = text_of(section_of(page_of(store), "power"))
    assert "not compared: device (DC) against wall (AC)" in text
    assert "are not compared" in text
    figure = draw("efficiency_bars", comparison, comparison.sections)[0]
    assert f"{SSD} and {HDD} are not compared" in figure.title
    series = {datum["series"] for datum in bars_of(figure)}
    assert series == {f"{SSD}, device (DC)", f"{HDD}, wall (AC)"}


def test_a_study_may_accept_unequal_boundaries_and_then_they_are_marked(make: Make) -> None:
    store = make("device", "wall", "accept_unequal_boundaries = true")
    for row in comparison_of(store).rows.values():
        assert row.ratios[SSD][EFFICIENCY].boundaries == "device (DC) against wall (AC)"
    power = section_of(page_of(store), "power")
    assert 'href="#mark-unequal-boundaries"' in power
    assert "The study accepts their unequal boundaries" in text_of(power)


def test_declared_power_is_hatched_and_named(make: Make) -> None:
    store = make("device", "declared")
    comparison = comparison_of(store)
    figure = draw("efficiency_bars", comparison, comparison.sections)[0]
    fills = {d["target"]: (d["series"], d["fill"]) for d in bars_of(figure)}
    assert fills[HDD] == (f"{HDD} (declared)", "url(#hatch-s2)")
    assert fills[SSD] == (SSD, "var(--s1)")
    assert 'id="' + figure.name + '-hatch-s2"' in render(figure)
    power = section_of(page_of(store), "power")
    assert '<span class="chip">declared</span>' in power
    assert "swatch s2 hatched" in power
    assert f"The power of {HDD} is declared, not measured." in text_of(power)
    assert "not stated" in text_of(power)  # its accuracy


def test_what_was_not_measured_says_so_and_is_no_zero(make: Make) -> None:
    store = make("device", "none")
    comparison = comparison_of(store)
    for row in comparison.rows.values():
        cell = row.cells[HDD]
        assert cell.power is None
        assert not [key for key in cell.values if "power" in key or "efficiency" in key]
    html = page_of(store)
    text = text_of(section_of(html, "power"))
    assert f"Power of {HDD}: not measured (no meter)." in text
    assert f"power of {HDD} not measured" in text
    assert "only height limits its number" in text_of(section_of(html, "density"))
    figure = draw("efficiency_bars", comparison, comparison.sections)[0]
    assert {d["target"] for d in bars_of(figure, "missing")} == {HDD}
    assert all(d["value"] > 0 for d in bars_of(figure))


def test_runs_that_lost_their_sensor_are_left_out_on_both_sides_of_the_quotient(make: Make) -> None:
    store = make("lost", "device")
    comparison = comparison_of(store)
    for row in comparison.rows.values():
        account = row.cells[SSD].power
        assert account is not None
        assert (len(account.entries), account.runs) == (1, 2)
        first = next(r.record for r in row.cells[SSD].runs if r.record.repeat == 1)
        moved = sum(t.bytes for t in first.totals.values())
        joules = first.power[0].energy_j or 0
        value = row.cells[SSD].values[EFFICIENCY]
        assert value.estimate == pytest.approx(moved / 1e6 / joules)
        assert not value.is_known
    power = section_of(page_of(store), "power")
    assert 'href="#mark-energy-lost"' in power
    assert "the sensor was gone 0.4 s into the window" in power


def trims(*planned: Any) -> tuple[RunRecord, list[Sample]]:
    """Return a fixture run whose writes are trims, which transfer nothing."""
    record, samples = finished_run(*planned)
    fields = record.model_dump()
    fields["totals"] = {"trim": fields["totals"]["write"]}
    metrics = [m for m in fields["metrics"] if m["operation"] != "read"]
    for metric in metrics:
        metric["operation"] = "trim" if metric["operation"] == "write" else metric["operation"]
        metric["value"] *= (metric["name"], metric["operation"]) != ("throughput_mb_s", "all")
    return RunRecord.model_validate({**fields, "metrics": metrics}), [
        replace(sample, operation="trim") for sample in samples if sample.operation == "write"
    ]


def test_work_that_moves_no_bytes_has_watts_and_no_data_per_joule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("integration.brief.power_fixture.finished_run", trims)
    store = build_power_store(
        tmp_path / "run", {SSD: "wall", HDD: "wall"}, mixes=(0,), rack="trim_percent = 100"
    )
    text = text_of(section_of(page_of(store), "power"))
    assert "No ratio of throughput per watt" in text
    for row in comparison_of(store).rows.values():
        for cell in row.cells.values():
            assert {"power_w.all", "iops_w.all"} <= set(cell.values)
            assert not [key for key in cell.values if key.startswith("efficiency_")]
        assert "iops_w.all" in row.ratios[SSD]


def test_without_a_meter_there_is_no_section_about_power(make: Make) -> None:
    html = page_of(make("none", "none"))
    assert 'id="power"' not in html
    assert "no target of this study has a meter" in html
    assert "W/RU" not in html


def test_the_rack_is_filled_by_height_and_power(tmp_path: Path) -> None:
    store = build_power_store(
        tmp_path / "run", {SSD: "wall", HDD: "wall"}, repeats=1, mixes=(30,),
        rack="[rack]\nunits = 10\npower_budget = 700",
    )  # fmt: skip
    comparison = comparison_of(store)
    busy = max(
        v for r in comparison.rows.values() for v in r.cells[HDD].power.repeats("power_p95_w")
    )  # type: ignore[union-attr]
    text = text_of(section_of(page_of(store), "density"))
    by_power = int(700 // busy)
    assert by_power < 5
    assert f"{by_power} of {HDD}, {256 * by_power} TB, limited by power" in text.replace(",0", "0")
    assert "fit into 700 W" in text
    assert "193 per TB" in text
    assert "USD, declared in the study" in page_of(store)


def test_traces_are_in_watts_before_in_and_after_the_window(make: Make) -> None:
    comparison = comparison_of(make("device", "wall"))
    for target, name in ((SSD, "device"), (HDD, "wall")):
        info = INFOS[name]
        for run in next(iter(comparison.rows.values())).cells[target].runs:
            trace = power_trace(run, info.boundary)
            inside = [m.power_w for m in trace if 0.1 < m.time_s < 1.1]
            before = [m.power_w for m in trace if m.time_s < -0.4]
            assert np.mean(inside) == pytest.approx(mean_w(run.record, info), rel=0.05)
            idle = DRAWS[target].idle_w * (1.1 if name == "wall" else 1)
            assert np.mean(before) == pytest.approx(idle, rel=0.05)
            assert trace[-1].time_s > WINDOW_NS / 1e9
            assert len(power_trace(run, info.boundary, most=5)) <= 5


def test_a_damaged_trace_is_named(tmp_path: Path) -> None:
    store = build_power_store(tmp_path / "run", {SSD: "wall", HDD: "none"}, repeats=1, mixes=(30,))
    run = next(r for r in load_dataset([store]).all_runs() if r.target == SSD)
    path = store.run_dir(run.record.run_id) / "power.parquet"
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(ResultError, match=re.escape(str(path))):
        power_trace(run, "wall")
    none = next(r for r in load_dataset([store]).all_runs() if r.target == HDD)
    assert power_trace(none, "wall") == []


@pytest.mark.parametrize("kinds", [("wall", "wall"), ("device", "declared"), ("device", "none")])
def test_specifications_are_valid_and_have_their_data(make: Make, kinds: tuple[Kind, Kind]) -> None:
    comparison = comparison_of(make(*kinds))
    figures = [
        figure
        for name in ("efficiency_bars", "power_over_time", "cost_stack")
        for figure in draw(name, comparison, comparison.sections)
    ]
    assert len(figures) == 1 + 2 + 1
    for figure in figures:
        assert_vega_lite(figure.spec)
        assert figure.rows
        assert all(len(row) == len(figure.columns) for row in figure.rows)
        assert figure.alt
        assert render(figure).startswith("<svg")
    over_time = [f for f in figures if f.kind == "power_over_time"]
    assert all("device" in f.title or "wall" in f.title for f in over_time)


def published_store(directory: Path, text: str = PUBLISHED) -> ResultStore:
    table = directory / "other-lab.csv"
    table.write_text(text)
    return build_power_store(
        directory / "run", {SSD: "wall", HDD: "wall"}, repeats=2, mixes=(30,),
        header=f"published = [{json.dumps(str(table))}]",
    )  # fmt: skip


def test_only_cells_of_the_same_work_match(make: Make, tmp_path: Path) -> None:
    comparison = comparison_of(make("wall", "wall"))
    table = tmp_path / "other-lab.csv"
    table.write_text(PUBLISHED)
    found = match(comparison, [read_table(table)])
    assert [(c.rows[0], c.key, c.stated) for c in found] == [
        ("1", "throughput_mb_s.all", True),
        ("2", EFFICIENCY, False),
        ("3", "latency_mean_ns.read", False),
    ]
    assert found[2].value == pytest.approx(0.89e6)
    points = [comparison.rows[cell.point_key].point.params for cell in found]
    assert {(p["jobs"], p["block_size"], p["read_percent"]) for p in points} == {(8, 262144, 30)}


def test_published_results_stand_beside_and_enter_nothing(tmp_path: Path) -> None:
    store = published_store(tmp_path)
    html = page_of(store)
    section = section_of(html, "published")
    assert '<span class="chip">published</span>' in section
    assert "swatch s3 hatched" in section
    text = text_of(section)
    assert "9,000" in text
    assert "rows 1, 2, 3" in text
    assert "queue depth 64 in other-lab, 16 here" in text
    assert "9,900" not in text
    assert 'href="#mark-not-stated"' in section
    data = re.search(r'id="storlab-data">(.*?)</script>', html, re.S)
    assert data is not None
    assert "Flash" not in json.dumps(json.loads(data.group(1))["findings"])
    assert "Flash" not in json.dumps(json.loads(data.group(1))["comparison"])
    assert "Flash" not in html[html.index('id="findings"') : html.index('id="published"')]


def test_a_table_without_a_match_says_so(tmp_path: Path) -> None:
    store = published_store(tmp_path, PUBLISHED.replace("30/70", "31/69"))
    text = text_of(section_of(page_of(store), "published"))
    assert "no number for the mix, size and operating point of anything measured here" in text


def test_the_terminal_prints_efficiency_and_refusals(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(make("device", "wall").directory)
    assert main(["compare", directory, "--metric", "efficiency_mb_s_w"]) == 0
    assert "not compared: device (DC) against wall (AC)" in capsys.readouterr().out
    assert main(["compare", directory, "--json"]) == 0
    first: dict[str, Any] = json.loads(capsys.readouterr().out)["points"][0]
    decision = first["ratios"][SSD]["efficiency_mb_s_w.all"]
    assert decision["outcome"] == "refused"
    assert decision["reason"] == "device (DC) against wall (AC)"
    assert first["targets"][HDD]["power"]["boundary"] == "wall"


@pytest.mark.browser
def test_live_drawings_keep_their_hatches_and_nothing_overflows(
    browser: Browser, tmp_path: Path
) -> None:
    store = published_store(tmp_path)
    path = write_brief(store)
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.set_default_timeout(LIMIT_MS)
    logged: list[str] = []
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.goto(path.as_uri())
    for figure in page.locator(".extra figure").all():
        figure.evaluate("e => e.scrollIntoView({behavior: 'instant'})")
        figure.locator(".plot").dispatch_event("pointerenter")
        page.wait_for_timeout(30)
    page.wait_for_function("document.querySelectorAll('.extra .plot[data-live]').length >= 4")
    lost = page.evaluate(
        """() => [...document.querySelectorAll('.extra .plot[data-live] [fill^="url("]')]
          .map(e => e.getAttribute('fill').slice(5, -1))
          .filter(id => !document.getElementById(id))"""
    )
    hatched = page.locator('.extra .plot[data-live] [fill^="url("]').count()
    width = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    assert lost == []
    assert hatched >= 8
    assert width <= 360
    assert logged == []
