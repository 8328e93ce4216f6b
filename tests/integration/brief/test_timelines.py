"""Timelines of single runs: planted dips are found and explained, without false ones."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import INTERVAL_NS, build_store
from storlab._native import Histogram
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import RunData, load_dataset
from storlab.analysis.timeline import LATENCY_BINS, MOST_COLUMNS, MOST_DIPS, timeline
from storlab.base.errors import ResultError, UsageError
from storlab.base.units import MB
from storlab.brief import write_brief
from storlab.brief.key_findings import key_findings
from storlab.brief.timelines import MOST_DRAWN, run_figures, timelines_section
from storlab.cli.main import main
from storlab.figures.timeline import timeline_figure
from storlab.model.result import Flag, Metric, OperationTotals, Sample
from storlab.model.run_course import COURSE_FILE
from storlab.model.samples import table_to_samples
from storlab.results.store import ResultStore
from support.vega import assert_vega_lite

FIXED_WORK = {
    "checkpoint": 'profile = "llama3-8b"\nscale = 0.001\nrestores = 1\npause = "100ms"',
    "training": 'profile = "unet3d-small"\nscale = 0.1\nepochs = 20',
    "preprocess": 'rows = 20_000\nfiles = 2\npart_size = "256KiB"\nrow_group_rows = 4_096',
}
FIXED_STUDY = """
[study]
name = "fixed work"
repeats = 1
interval = "50ms"
[[target]]
name = "folder"
directory = "{folder}"
direct = false
[[workload]]
kind = "{kind}"
{fields}
"""
DIPS = (4, 5)
TENTH, SLOW_NS = 0.1, 90_000_000


def slowed(sample: Sample) -> Sample:
    """Return the interval with a tenth of its work, each operation slow."""
    histogram = Histogram()
    histogram.record(SLOW_NS, max(1, int(sample.operations * TENTH)))
    moved, done = int(sample.bytes * TENTH), max(1, int(sample.operations * TENTH))
    return replace(sample, bytes=moved, operations=done, latency=histogram.to_v2(), errors=2)


def plant(store: ResultStore, run_id: str, content: bytes | None = None) -> None:
    """Add dips to the samples of a run, and counters of a device that is busy meanwhile."""
    record = store.record(run_id)
    start = record.window_start_ns
    samples = [
        slowed(sample) if sample.interval in DIPS else sample
        for sample in table_to_samples(store.samples(run_id))
    ]
    written = [0, 100, 200, 300, 400, 10_400, 20_400, 20_500, 20_600]
    beside = {
        "time_ns": [start + number * INTERVAL_NS for number in range(len(written))],
        "read_bytes": [0] * len(written),
        "written_bytes": [value * 10_000 for value in written],
        "celsius": {"nvme0n1": [[start - 1, 30.0], [start + 450_000_000, 79.5]]},
    }
    # Others would come from other histograms.
    kept = [metric for metric in record.metrics if metric.unit != "ns"]
    flags = [Flag(kind="not-steady", message="m")]
    record = record.model_copy(update={"flags": flags, "metrics": kept})
    raw = {COURSE_FILE: content if content is not None else json.dumps(beside).encode()}
    store.write_run(record, samples, raw)


def runs_of(comparison: Comparison) -> dict[str, RunData]:
    return {run.record.run_id: run for run in comparison.dataset.all_runs()}


def compared(store: ResultStore) -> Comparison:
    return compare(load_dataset([store]))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return build_store(tmp_path / "run", repeats=2, mixes=(70,))


def first_of(store: ResultStore, target: str) -> str:
    return next(r.run_id for r in store.records() if r.target == target)


def test_planted_dips_are_found_with_what_happened_beside_them(store: ResultStore) -> None:
    run_id = first_of(store, "Disk")
    plant(store, run_id)
    comparison = compared(store)
    run = runs_of(comparison)[run_id]
    known = timeline(run)
    assert known is not None
    (dip,) = known.dips
    assert (round(dip.start_s * 10), round(dip.end_s * 10)) == (DIPS[0], DIPS[-1] + 1)
    assert [round(each.start_s * 10) for each in known.stretches if each.dips] == list(DIPS)
    assert known.depth == pytest.approx(1 - TENTH, abs=0.05)
    assert dip.p99_ns == pytest.approx(SLOW_NS, rel=0.01)
    busy = [each for each in known.device if each.written_mb_s > 500]
    assert [round(each.start_s * 10) for each in busy] == list(DIPS)
    assert known.celsius == [(0.45, "nvme0n1", 79.5)]
    shares: dict[float, float] = defaultdict(float)
    for cell in known.heat():
        assert cell.low_ns < cell.high_ns
        shares[cell.start_s] += cell.share
    assert len(shares) == len(known.stretches)
    assert all(share == pytest.approx(1) for share in shares.values())
    figure = timeline_figure(known, 0, "here", [run.record.point_id])
    assert_vega_lite(figure.spec)
    assert "% of its median" in figure.title
    data = figure.spec["datasets"]
    assert [flag["kind"] for flag in data["flags"]] == ["not-steady", "errors", "errors"]
    assert data["flags"][0]["end"] == pytest.approx(known.window_s)
    assert len(figure.rows) == 1
    assert figure.rows[0][5:] == ["–", "79.5"]  # no meter
    assert "written 1,000" in figure.rows[0][4]
    for name in ("throughput", "heat map", "device", "temperature"):
        assert name in figure.alt


def stretch_out(store: ResultStore, count: int, work: Mapping[int, float]) -> str:
    """Return a run of this many seconds of equal work, scaled by ``work`` in some."""
    run_id = first_of(store, "Disk")
    record = store.record(run_id)
    (sample, *_) = table_to_samples(store.samples(run_id))
    start, histogram = record.window_start_ns, Histogram()
    histogram.record(1_000_000, 1_000)
    usual = replace(sample, operations=1_000, bytes=100_000_000, latency=histogram.to_v2())
    samples = [
        replace(
            usual,
            interval=n,
            start_ns=start + n * 10**9,
            end_ns=start + (n + 1) * 10**9,
            operations=int(usual.operations * work.get(n, 1)),
            bytes=int(usual.bytes * work.get(n, 1)),
        )
        for n in range(count)
    ]
    totals = {sample.operation: OperationTotals(
        operations=sum(s.operations for s in samples), bytes=sum(s.bytes for s in samples)
    )}  # fmt: skip
    throughput = Metric(
        name="throughput_mb_s",
        operation="all",
        value=sum(each.bytes for each in totals.values()) / count / MB,
        unit="MB/s",
    )
    record = record.model_copy(
        update={"window_end_ns": start + count * 10**9, "totals": totals, "metrics": [throughput]}
    )
    store.write_run(record, samples, {})
    return run_id


def test_a_long_run_has_as_many_columns_as_have_room(store: ResultStore) -> None:
    run_id = stretch_out(store, 10 * MOST_COLUMNS + 7, {})
    known = timeline(runs_of(compared(store))[run_id])
    assert known is not None
    assert MOST_COLUMNS / 2 < len(known.stretches) <= MOST_COLUMNS
    assert len(known.heat()) <= MOST_COLUMNS * LATENCY_BINS
    assert known.dips == []


def test_a_short_stall_of_a_long_run_is_a_dip_and_is_drawn(store: ResultStore) -> None:
    """Check that a stall of 2 s is a dip, although a 10 s mean falls by only a fifth."""
    run_id = stretch_out(store, 10 * MOST_COLUMNS, {304: 0.0, 305: 0.0, 17: 0.5})
    known = timeline(runs_of(compared(store))[run_id])
    assert known is not None
    assert known.usual_mb_s == pytest.approx(100)
    assert [(e.start_s, e.end_s, e.least_mb_s) for e in known.dips] == [(17, 18, 50), (304, 306, 0)]
    assert known.depth == 1
    figure = timeline_figure(known, 0, "here", [])
    data = figure.spec["datasets"]
    assert data["dips"] == [{"start": 10.0, "end": 20.0}, {"start": 300.0, "end": 310.0}]
    drawn = {each["start"]: each["value"] for each in data["rates"]}
    assert (drawn[0.0], drawn[10.0], drawn[300.0]) == (100.0, 50.0, 0.0)
    assert "falls to 0 MB/s at 304 s" in figure.title
    assert [row[0] for row in figure.rows] == ["17.0 to 18.0", "304 to 306"]


@pytest.mark.parametrize(("operations", "dips"), [(4, 0), (1_000, 1)])
def test_what_chance_makes_of_few_operations_is_no_dip(
    store: ResultStore, operations: int, dips: int
) -> None:
    """Check that half of 4 operations is no dip, but half of 1,000 is."""
    run_id = stretch_out(store, 100, {50: 0.5})
    record = store.record(run_id)
    samples = [
        replace(sample, operations=sample.operations * operations // 1_000)
        for sample in table_to_samples(store.samples(run_id))
    ]
    store.write_run(record, samples, {})
    known = timeline(runs_of(compared(store))[run_id])
    assert known is not None
    assert len(known.dips) == dips


def test_the_deepest_of_many_dips_are_told(store: ResultStore) -> None:
    deep = {4 * n: 0.05 * n for n in range(1, 12)}
    known = timeline(runs_of(compared(store))[stretch_out(store, 100, deep)])
    assert known is not None
    assert [each.start_s for each in known.dips] == [4 * n for n in range(1, MOST_DIPS + 1)]
    assert sum(each.dips for each in known.stretches) == len(deep)


def test_a_damaged_file_is_named(store: ResultStore) -> None:
    run_id = first_of(store, "Disk")
    plant(store, run_id, b"{")
    with pytest.raises(ResultError, match=COURSE_FILE):
        timeline(runs_of(compared(store))[run_id])


def test_a_brief_without_dips_says_nothing_of_them(store: ResultStore) -> None:
    comparison = compared(store)
    assert timelines_section(comparison, key_findings(comparison)) is None


def test_a_brief_draws_a_few_however_many_dip(store: ResultStore) -> None:
    plain = write_brief(store, pdf=False).stat().st_size
    for record in store.records():
        plant(store, record.run_id)
    comparison = compared(store)
    section = timelines_section(comparison, key_findings(comparison))
    assert section is not None
    (group,) = section.groups
    assert not group.main
    assert len(group.drawings) == MOST_DRAWN
    assert "24 of 24\u00a0runs" in section.lead[0]  # of 32
    assert ": 1 run by" in group.drawings[0].figure.source
    html = write_brief(store, pdf=True).read_text()
    assert 'id="dips"' in html
    assert len(html) - plain < 600_000


def test_any_run_can_be_drawn_in_the_brief(
    store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that any run can be drawn on request, and none is drawn twice."""
    dipping, calm = first_of(store, "Disk"), first_of(store, "Memory")
    plant(store, dipping)
    where = str(store.directory)
    assert main(["report", where, "--no-pdf"]) == 0
    page = store.directory / "brief.html"
    plain = page.read_text()
    assert f"timeline-{calm}" not in plain
    assert main(["report", where, "--run", calm, "--run", dipping, "--no-pdf"]) == 0
    html = page.read_text()
    assert "throughput stays at" in html
    for run_id in (calm, dipping):
        assert html.count(f'id="fig-timeline-{run_id}"') == 1
        assert (store.directory / "figures" / f"timeline-{run_id}.light.svg").is_file()
    assert 'id="single-runs"' in html
    assert 'id="dips"' not in html
    assert len(html) - len(plain) < 200_000
    capsys.readouterr()
    assert main(["report", where, "--run", "nobody", "--no-pdf"]) == 2
    assert "nobody: is not a run of these results" in capsys.readouterr().err


def test_a_run_that_did_not_finish_is_not_drawn(tmp_path: Path) -> None:
    comparison = compared(build_store(tmp_path / "run", repeats=1, mixes=(70,), fail=1))
    (failed,) = (r for r in comparison.dataset.all_runs() if not r.finished)
    with pytest.raises(UsageError, match="did not finish"):
        run_figures(comparison, failed.record.run_id)


def test_a_run_of_one_interval_is_not_drawn(store: ResultStore) -> None:
    run_id = stretch_out(store, 1, {})
    with pytest.raises(UsageError, match="fewer than two intervals"):
        run_figures(compared(store), run_id)


def test_a_run_that_mostly_waits_is_drawn(store: ResultStore) -> None:
    """Check the timeline of a low rate, whose intervals are mostly empty (median 0)."""
    run_id = stretch_out(store, 20, {n: 0.0 for n in range(20) if n % 3})
    (figure,) = run_figures(compared(store), run_id)
    assert "its course over 20.0 s" in figure.title
    assert figure.rows == []


def test_of_several_directories_the_run_of_each_is_drawn(tmp_path: Path) -> None:
    stores = [build_store(tmp_path / n, repeats=1, mixes=(70,)) for n in ("old", "new")]
    comparison = compare(load_dataset(stores))
    run_id = first_of(stores[0], "Disk")
    figures = run_figures(comparison, run_id)
    assert len({figure.name for figure in figures}) == 2
    (newer,) = run_figures(comparison, run_id.replace("-r1", "-2-r1"))
    assert newer.name in {figure.name for figure in figures}


@pytest.mark.parametrize("kind", ["checkpoint", "training", "preprocess"])
def test_runs_of_fixed_work_have_a_time_axis(tmp_path: Path, kind: str) -> None:
    """Check that a timeline of fixed work has no dips, because stages start and end by design."""
    study = tmp_path / "study.toml"
    study.write_text(FIXED_STUDY.format(folder=tmp_path, kind=kind, fields=FIXED_WORK[kind]))
    out = tmp_path / "results"
    assert main(["run", str(study), "--out", str(out), "--clean", "--no-report", "--quiet"]) == 0
    comparison = compared(ResultStore.open(out))
    for run_id in runs_of(comparison):
        (figure,) = run_figures(comparison, run_id)
        assert_vega_lite(figure.spec)
        data = figure.spec["datasets"]
        assert sum(each["value"] for each in data["rates"]) > 0
        assert data["heat"]
        assert data["dips"] == []
        assert "its course over" in figure.title
