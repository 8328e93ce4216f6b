"""The brief of GPUDirect: best points, paths, proof of the path, published claims."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from integration.conftest import Made
from integration.gpudirect.gpudirect_fixture import (
    NEW,
    OLD,
    WINDOW_NS,
    build_gpudirect_store,
)
from integration.object.test_object_brief import mean, tables_of
from storlab.analysis import digits
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.efficiency import spread_ratio
from storlab.audit.from_results import audit_results
from storlab.base.units import format_number
from storlab.brief import write_brief
from storlab.brief.build import build_brief
from storlab.figures.drawing import draw
from storlab.model.result import RunRecord
from storlab.workloads.gpudirect.details import GpuDirectDetails
from storlab.workloads.gpudirect.figures import PATHS, PATHS_FURTHER
from storlab.workloads.gpudirect.figures.best import EFFICIENCY, THROUGHPUT, best_points
from storlab.workloads.gpudirect.findings.paths import FLATTERED, direct_path_gain, places
from storlab.workloads.gpudirect.findings.proof import counted_and_moved

SMALL, LARGE, NBSP = 4096, 1 << 20, "\u00a0"


@pytest.fixture(scope="module")
def comparison(gpudirect_made: Made) -> Comparison:
    return compare(load_dataset([gpudirect_made.store]))


def records_of(made: Made, target: str, **params: object) -> list[RunRecord]:
    return [
        record
        for record in made.store.records()
        if record.target == target
        and all(record.params[name] == value for name, value in params.items())
    ]


def test_sections_stand_in_the_order_that_readers_ask_for(comparison: Comparison) -> None:
    assert [section.own for section in comparison.sections] == [
        "direct, reads only",
        "bounce-overlapped, reads only, 2 in flight each",
        "bounce, reads only",
        "host, reads only",
    ]


def test_best_points_of_throughput_and_of_efficiency_are_named_apart(
    gpudirect_made: Made, comparison: Comparison
) -> None:
    best = tables_of(gpudirect_made.html, "gpu-paths")[0]
    direct = comparison.sections[0]
    (fast, _), (lean, _) = (
        best_points(comparison, direct, LARGE, key) for key in (THROUGHPUT, EFFICIENCY)
    )
    row = best.at("direct, reads only, 1 MiB", NEW)
    assert row["most throughput at"] == fast.at.replace(NBSP, " ")
    assert row["most per watt at"] == lean.at.replace(NBSP, " ")
    most = max(
        mean(records_of(gpudirect_made, NEW, path="direct", block_size=LARGE, workers=n),
             "throughput_mb_s")
        for n in (1, 16, 64, 256)
    )  # fmt: skip
    assert fast.value.estimate == pytest.approx(most)
    assert row["throughput GB/s"] == format_number(most / 1000)


def test_direct_is_divided_by_each_other_path_of_the_same_target(
    gpudirect_made: Made, comparison: Comparison
) -> None:
    _, absolute, ratios, _ = tables_of(gpudirect_made.html, "gpu-paths")
    place = next(p for p in places(comparison) if (p.target, p.workers) == (NEW, 256))
    assert place.block == SMALL
    direct, other = place.ways[:2]
    assert (direct.path, other.path) == ("direct", "bounce-overlapped")
    work = "reads only, 4 KiB, 256 workers"
    row = ratios.at(work, "direct over bounce-overlapped, 2 in flight each", NEW)
    first, second = (
        records_of(gpudirect_made, NEW, path=way.path, block_size=SMALL, workers=256)
        for way in (direct, other)
    )
    cpu = [mean(side, "cpu_s_per_gb") for side in (first, second)]
    assert float(row["client CPU per GB"].removesuffix("×")) == pytest.approx(
        cpu[0] / cpu[1], abs=0.005
    )
    assert direct.cell.power is not None
    assert other.cell.power is not None
    spreads = [way.cell.power.spread("efficiency_mb_s_w") for way in (other, direct)]  # type: ignore[union-attr]
    assert spreads[0] is not None
    assert spreads[1] is not None
    assert row["energy per GB"] == digits.times(spread_ratio(spreads[0], spreads[1]))
    energy = absolute.at(work, "direct", NEW)["energy per GB J/GB"]
    assert energy == format_number(1000 / spreads[1].estimate)


def test_published_claims_stand_beside_direct_points_at_their_place(gpudirect_made: Made) -> None:
    (claims,) = tables_of(gpudirect_made.html, "published")
    row = claims.at(
        "direct, reads only, 4 KiB, 256 workers",
        "throughput",
        f"147% more than {OLD}, with 256 gdsio workers",
        NEW,
    )
    assert row["which is"] == "2.47×"
    assert not any("bounce" in head for each in claims.rows for head in each)


def test_what_was_direct_is_said_with_who_counted_it(gpudirect_made: Made) -> None:
    assert "all bytes went by the kernel’s P2PDMA, counted by cuFile" in gpudirect_made.html
    proof = tables_of(gpudirect_made.html, "gpu-paths")[3]
    row = proof.at("direct, reads only, 4 KiB, 16 workers", NEW)
    assert (row["direct %"], row["POSIX %"], row["counted by"]) == ("100", "0", "cuFile")
    assert row["device / moved %"] == "100"  # both include the ramp


@pytest.mark.parametrize("forgotten", ["load_device", "device"])
def test_what_devices_counted_is_of_the_same_span_as_what_was_moved(
    gpudirect_made: Made, forgotten: str
) -> None:
    """Device counters and moved bytes cover the same span.

    Either the engine counts over the whole load or the lab around the window; with no other user of
    the device both give 100 %.
    """
    for target in (NEW, OLD):
        for record in records_of(gpudirect_made, target, path="direct"):
            told = GpuDirectDetails.model_validate({**record.details, forgotten: None})
            both = counted_and_moved(told, record.totals, WINDOW_NS)
            assert both is not None
            assert both[0] / both[1] == pytest.approx(1, rel=1e-6)
    assert "Example GPU" in gpudirect_made.html


def test_runs_that_were_not_direct_come_first(tmp_path: Path) -> None:
    store = build_gpudirect_store(
        tmp_path / "bad", paths='["direct", "bounce"]', posix={OLD: 1.0, NEW: 0.3}
    )
    html = write_brief(store, pdf=False).read_text(encoding="utf-8")
    cover = re.sub(r"<[^>]+>", "", html[: html.index('<div class="tile')])  # before any number
    assert f"Not GPUDirect on {NEW}: 30.0 % of the bytes went through host memory" in cover
    assert f"Not GPUDirect on {OLD}: cuFile ran in compatibility mode, and 100 %" in cover
    assert not [f for f in audit_results(store.directory) if f.severity == "error"]


def test_what_nobody_counted_is_not_proven(tmp_path: Path) -> None:
    store = build_gpudirect_store(tmp_path / "old", paths='"direct"', counted=False)
    html = write_brief(store, pdf=False).read_text(encoding="utf-8")
    assert f"direct path is not proven on {NEW}" in html
    assert "Only one path was measured" in html


@pytest.mark.parametrize(
    ("paths", "flattering"),
    [
        ('["direct", "bounce"]', True),
        ('["direct", "bounce", "host"]', True),
        ('["direct", "bounce", "bounce-overlapped"]', False),
        ('["direct", "bounce-overlapped"]', False),
    ],
)
def test_a_bounce_that_waits_is_called_flattering_where_it_stands_alone(
    tmp_path: Path, paths: str, flattering: bool
) -> None:
    store = build_gpudirect_store(tmp_path / "r", paths=paths, sizes='["4KiB"]', workers="[1, 16]")
    sentences = direct_path_gain(compare(load_dataset([store])))
    over = [sentence for sentence in sentences if "over bounce on" in sentence]
    assert [FLATTERED in sentence for sentence in over] == [flattering] * len(over)
    assert bool(over) == ('"bounce"' in paths)
    assert not any(FLATTERED in sentence for sentence in sentences if sentence not in over)


def test_every_path_is_a_line_of_one_drawing(gpudirect_made: Made, comparison: Comparison) -> None:
    figures = draw(PATHS_FURTHER, comparison, comparison.sections)
    assert len(figures) == 2 * 2 * 3, "targets, transfer sizes, quantities"
    paths = ["direct", "bounce-overlapped", "bounce", "host"]
    energy = next(
        f for f in figures if f.name.startswith("paths-energy") and f"1{NBSP}MiB" in f.note
    )
    assert energy.note == f"reads only, 1{NBSP}MiB, {NEW}"
    assert energy.columns == ["workers", *(f"{path} (J/GB)" for path in paths)]
    assert [row[0] for row in energy.rows] == ["1", "16", "64", "256"]
    for path in paths:
        for workers in (1, 256):
            where = {"path": path, "block_size": LARGE, "workers": workers}
            own = records_of(gpudirect_made, NEW, **where)
            moved = sum(total.bytes for r in own for total in r.totals.values())
            joules = sum(r.metric("energy_j") or 0.0 for r in own)
            (drawn,) = (
                m["mean"]
                for m in energy.spec["datasets"]["means"]
                if (m["target"], m["x"]) == (path, str(workers))
            )
            assert drawn == pytest.approx(joules / moved * 1e9, rel=1e-3)
    rates = draw(PATHS, comparison, comparison.sections)
    assert len(rates) == 2, "targets; transfer sizes are panels"
    (fast,) = (figure for figure in rates if figure.title.endswith(NEW))
    best = max(
        mean(records_of(gpudirect_made, NEW, path="host", block_size=LARGE, workers=n),
             "throughput_mb_s")
        for n in (1, 16, 64, 256)
    )  # fmt: skip
    row = next(r for r in fast.rows if r[:2] == [f"reads only, 1{NBSP}MiB", "256"])
    assert fast.columns[-1] == "host (GB/s)"
    assert any(f"{best / 1000:.3g}" in r[-1] for r in fast.rows if r[0] == row[0])
    assert html.escape(fast.title) in gpudirect_made.html
    alone = [s for s in comparison.sections if s.points[0].params["path"] == "direct"]
    assert draw(PATHS, comparison, alone) == [], "one path is compared with nothing"


def test_four_transfer_sizes_leave_a_page_short_and_nothing_out(tmp_path: Path) -> None:
    """Check that the throughput of each size is in the main part, and further figures are not."""
    sizes = '["4KiB", "16KiB", "128KiB", "1MiB"]'
    store = build_gpudirect_store(
        tmp_path / "four", paths='["direct", "host"]', sizes=sizes, workers="[1, 16]"
    )
    brief = build_brief(store, beside=store.directory)
    first = brief.body.sections[0]
    groups = {group.kind: group for group in first.groups}
    assert list(groups) == ["gpudirect_throughput", "gpudirect_efficiency", "gpudirect_latency"]
    assert len(brief.body.main) <= 16
    minor = {group.kind: group for group in first.more}
    for kind in (groups["gpudirect_throughput"], minor["gpudirect_median"], minor["gpudirect_cpu"]):
        (drawing,) = kind.drawings
        assert len(drawing.figure.spec["concat"]) == 4, "a panel for each size"
    once = {group.kind: group for extra in brief.body.extras for group in extra.more}
    assert once["gpudirect_efficiency_bars"].drawings
