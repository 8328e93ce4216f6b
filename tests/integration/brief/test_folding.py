"""The brief is short, with details folded, and its figures name their source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from integration.brief.kinds import draw
from integration.brief.power_fixture import Kind, build_power_store
from storlab.analysis import digits
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.base.units import format_number
from storlab.brief.fact_tables import environment_tables
from storlab.brief.heat import STEPS, heat_tables
from storlab.figures.axis_extent import CUT_WORDS, cut_words
from storlab.figures.common import is_small, last_point
from storlab.figures.figure import Figure
from storlab.figures.footer import with_foot
from storlab.figures.svg import render, standalone
from storlab.figures.theme import LIGHT, SHAPES, TAIL
from storlab.figures.throughput_vs_jobs import KEY, draw_rates
from storlab.results.store import ResultStore
from storlab.workloads.block.page import BLOCK_PAGE
from support.golden import golden_text
from support.vega import assert_vega_lite

KINDS = ("throughput_vs_jobs", "rates_vs_jobs", "latency_points", "latency_cdf", "ratios")


def first_of(comparison: Comparison, kind: str) -> Figure:
    sections = comparison.sections
    return draw(kind, comparison, sections if kind == "ratios" else sections[:1])[0]


def golden(name: str, spec: dict[str, Any]) -> None:
    """Compare a specification without its values with the golden file (STORLAB_GOLDEN=write)."""
    plain = {key: value for key, value in spec.items() if key not in ("datasets", "$schema")}
    text = json.dumps(plain, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    assert json.loads(text) == json.loads(golden_text(f"figures/{name}.json", text))


@pytest.mark.parametrize("kind", KINDS)
def test_specifications_golden(comparison: Comparison, kind: str) -> None:
    golden(kind, first_of(comparison, kind).spec)


def test_stacks_of_get_and_put_golden(object_comparison: Comparison) -> None:
    (figure,) = draw("object_stacked", object_comparison, object_comparison.sections)
    assert_vega_lite(figure.spec)
    golden("object_stacked", figure.spec)
    parts, wholes = (figure.spec["datasets"][name] for name in ("parts", "wholes"))
    assert {part["part"] for part in parts} == {"GET", "PUT"}
    for whole in wholes:
        ends = [p["to"] for p in parts if (p["x"], p["target"]) == (whole["x"], whole["target"])]
        assert max(ends) == pytest.approx(whole["value"], rel=0.02)


def marks_of(spec: Any) -> list[dict[str, Any]]:
    if isinstance(spec, list):
        return [mark for each in spec for mark in marks_of(each)]
    if not isinstance(spec, dict):
        return []
    own = [spec["mark"]] if isinstance(spec.get("mark"), dict) else []
    return own + [mark for value in spec.values() for mark in marks_of(value)]


def test_latency_is_drawn_as_points_and_ticks(comparison: Comparison) -> None:
    spec = first_of(comparison, "latency_points").spec
    types = [mark["type"] for mark in marks_of(spec)]
    assert "bar" not in types
    assert {mark["shape"] for mark in marks_of(spec) if "shape" in mark} == {TAIL}
    panel = spec["concat"][0]
    assert panel["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"


@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_is_a_target_in_every_figure(comparison: Comparison, kind: str) -> None:
    """Check that a marker shape stands for the same target in every figure."""
    text = json.dumps(first_of(comparison, kind).spec)
    at = text.find('"shape": {')
    while at >= 0:
        shape, _ = json.JSONDecoder().raw_decode(text[at + len('"shape": ') :])
        assert shape["field"] == "target"
        wanted = dict(zip(comparison.targets, SHAPES, strict=False))
        scale = shape["scale"]
        assert dict(zip(scale["domain"], scale["range"], strict=True)).items() <= wanted.items()
        at = text.find('"shape": {', at + 1)


def test_source_and_flags_stand_in_every_drawing(comparison: Comparison) -> None:
    for kind in KINDS:
        figure = first_of(comparison, kind)
        svg = standalone(render(figure), figure, LIGHT)
        assert "Source: storlab study" in svg
        assert "20 November 2026" in figure.source
        assert any(line.startswith("client-bound: Memory") for line in figure.flags)
        mismatch = any(line.startswith("other concurrency") for line in figure.flags)
        assert mismatch == figure.latencies


def test_the_heat_table_names_the_better_side_with_its_ratio(comparison: Comparison) -> None:
    (table,) = heat_tables(comparison)
    assert [title for title, _ in table.groups][:2] == ["throughput", "mean read latency"]
    assert sum(span for _, span in table.groups) == len(table.columns)
    for row, section in zip(table.rows, comparison.sections, strict=True):
        facets = section.facets()
        keys = [
            "throughput_mb_s.all",
            *(f"latency_{s}_ns.{op}" for s in ("mean", "p99") for op in ("read", "write")),
        ]
        places = [(key, facet) for key in keys for facet in facets]
        for cell, (key, facet) in zip(row.cells, places, strict=True):
            point = last_point(comparison, section, facet)
            assert cell is not None
            assert point is not None
            interval = comparison.row(point).ratios["Disk"][key].interval
            times = interval.inverse() if interval.estimate < 1 else interval
            gain = times.estimate
            assert cell.text == digits.times(times)
            assert cell.index == comparison.targets.index("Memory")
            assert cell.step == sum(gain >= step for step in STEPS)
            low, high = (float(end) for end in cell.spread.split("–"))
            assert low <= gain <= high


def test_a_mark_of_all_cells_of_a_quantity_stands_once_in_its_head(comparison: Comparison) -> None:
    (table,) = heat_tables(comparison)
    everywhere = {mark.kind for mark in table.everywhere}
    shared = [{mark.kind for mark in marks} for marks in table.shared]
    assert table.groups[0][0] == "throughput"
    assert everywhere == {"client-bound"}
    assert shared[0] == set()
    assert shared[1] == {"concurrency-mismatch", "different-concurrency"}
    at = 0
    for (_, count), kinds in zip(table.groups, shared, strict=True):
        cells = [cell for row in table.rows for cell in row.cells[at : at + count] if cell]
        assert not any(m.kind in kinds | everywhere for cell in cells for m in cell.marks)
        at += count
    own = {mark.kind for row in table.rows for cell in row.cells if cell for mark in cell.marks}
    assert own == {"few-operations"}  # at some of the points


def test_an_interval_far_above_all_runs_hides_nothing_else(full_store: ResultStore) -> None:
    found = compare(load_dataset([full_store]))
    section = found.sections[0]
    values = [cell.values for p in section.points for cell in found.row(p).cells.values()]
    highest = max(each[KEY].high or 0 for each in values)
    values[0][KEY] = replace(values[0][KEY], high=1000 * highest)
    figures = draw("throughput_vs_jobs", found, [section])
    for figure in figures:
        data = figure.spec["datasets"]
        means = [mean for name in data if name.startswith("means") for mean in data[name]]
        assert max(mean["high"] for mean in means) < 2.2 * highest
    cut = [with_foot(found, found.sections, figure).foot for figure in figures]
    assert [CUT_WORDS in foot for foot in cut].count(True) == 1


def test_bars_end_intervals_where_the_axis_ends() -> None:
    bars = [{"value": 3.0, "high": 5.0}, {"value": 4.0, "high": 900.0}]
    assert cut_words(bars) == CUT_WORDS
    assert [bar["high"] for bar in bars] == [5.0, 8.0]
    assert cut_words(bars) == ""


def test_small_blocks_are_drawn_by_their_operations(comparison: Comparison) -> None:
    def of_size(size: int) -> Any:
        axes = SimpleNamespace(facet="block_size")
        return SimpleNamespace(page=BLOCK_PAGE, axes=axes, points=[SimpleNamespace(clients=None)])

    assert is_small(of_size(4096), 4096)
    assert not is_small(of_size(262144), 262144)
    figures = draw_rates(comparison, comparison.sections[:1])
    assert [figure.kind for figure in figures] == ["rates_vs_jobs"]
    assert all("IOPS" in json.dumps(figure.spec) for figure in figures)
    mean = figures[0].spec["datasets"]["means0"][0]
    cells = comparison.row(comparison.sections[0].points[0]).cells
    assert mean["label"] == format_number(cells[mean["target"]].values["iops.all"].estimate)


def test_efficiency_is_drawn_along_the_sweep(tmp_path: Path) -> None:
    meters: dict[str, Kind] = {"1x SSD": "device", "16x HDD": "device"}
    store = build_power_store(tmp_path / "power", meters, repeats=2, mixes=(30,))
    comparison = compare(load_dataset([store]))
    figures = draw("efficiency_vs_axis", comparison, comparison.sections)
    assert len(figures) == len(comparison.sections[0].facets())
    for figure in figures:
        assert_vega_lite(figure.spec)
        assert {mean["x"] for mean in figure.spec["datasets"]["means"]} == {"1", "2", "4", "8"}


def test_engines_that_were_not_used_are_not_listed(full_store: ResultStore) -> None:
    full_store.environment["engines"] = {"native": {"version": "1"}, "warp": {"version": "2"}}
    tables = {table.heading: table.rows for table in environment_tables([full_store])}
    text = json.dumps(tables["Engines"])
    assert "native" in text
    assert "warp" not in text
