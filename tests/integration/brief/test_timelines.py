"""Single runs on one time axis: dips planted in a campaign are found, explained, and few."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import INTERVAL_NS, build_store
from storlab._native import Histogram
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import RunData, load_dataset
from storlab.analysis.timeline import LATENCY_BINS, MOST_COLUMNS, timeline
from storlab.base.errors import ResultError
from storlab.brief import write_brief
from storlab.brief.claims import make_claims
from storlab.brief.timelines import MOST_DRAWN, timelines_section
from storlab.figures.timeline import timeline_figure
from storlab.lab.results.store import ResultStore
from storlab.model.result import Flag, Sample
from storlab.model.run_course import COURSE_FILE
from storlab.model.samples import table_to_samples
from support.vega import assert_vega_lite

DIPS = (4, 5)
TENTH, SLOW_NS = 0.1, 90_000_000


def slowed(sample: Sample) -> Sample:
    """A tenth of its work, each operation of it slow."""
    histogram = Histogram()
    histogram.record(SLOW_NS, max(1, int(sample.operations * TENTH)))
    moved, done = int(sample.bytes * TENTH), max(1, int(sample.operations * TENTH))
    return replace(sample, bytes=moved, operations=done, latency=histogram.to_v2(), errors=2)


def plant(store: ResultStore, run_id: str, content: bytes | None = None) -> None:
    """Dips in the samples of a run, and counters beside it whose device is busy meanwhile."""
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
    record = record.model_copy(update={"flags": [Flag(kind="not-steady", message="m")]})
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
    starts = [round(each.start_s / (INTERVAL_NS / 1e9)) for each in known.dips]
    assert starts == list(DIPS)
    assert known.depth == pytest.approx(1 - TENTH, abs=0.05)
    assert all(each.p99_ns == pytest.approx(SLOW_NS, rel=0.01) for each in known.dips)
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
    assert len(figure.rows) == len(DIPS)
    assert figure.rows[0][5:] == ["–", "79.5"]  # no meter
    assert "written 1,000" in figure.rows[0][4]
    for name in ("throughput", "heat map", "device", "temperature"):
        assert name in figure.alt


def test_a_long_run_has_as_many_columns_as_have_room(store: ResultStore) -> None:
    run_id = first_of(store, "Disk")
    record = store.record(run_id)
    (sample, *_) = table_to_samples(store.samples(run_id))
    start, count = record.window_start_ns, 10 * MOST_COLUMNS + 7
    samples = [
        replace(sample, interval=n, start_ns=start + n * 10**9, end_ns=start + (n + 1) * 10**9)
        for n in range(count)
    ]
    store.write_run(record, samples, {})
    known = timeline(runs_of(compared(store))[run_id])
    assert known is not None
    assert MOST_COLUMNS / 2 < len(known.stretches) <= MOST_COLUMNS
    assert len(known.heat()) <= MOST_COLUMNS * LATENCY_BINS
    assert known.dips == []


def test_a_damaged_file_is_named(store: ResultStore) -> None:
    run_id = first_of(store, "Disk")
    plant(store, run_id, b"{")
    with pytest.raises(ResultError, match=COURSE_FILE):
        timeline(runs_of(compared(store))[run_id])


def test_a_brief_without_dips_says_nothing_of_them(store: ResultStore) -> None:
    comparison = compared(store)
    assert timelines_section(comparison, make_claims(comparison)) is None


def test_a_brief_draws_a_few_however_many_dip(store: ResultStore) -> None:
    plain = write_brief(store, pdf=False).stat().st_size
    for record in store.records():
        plant(store, record.run_id)
    comparison = compared(store)
    section = timelines_section(comparison, make_claims(comparison))
    assert section is not None
    (group,) = section.groups
    assert group.folded
    assert len(group.drawings) == MOST_DRAWN
    assert "24 of 24\u00a0runs" in section.lead[0]  # of 32
    foot = group.drawings[0].figure.foot
    assert any(": 1 run by" in line for line in foot)
    html = write_brief(store, pdf=True).read_text()
    assert 'id="dips"' in html
    assert len(html) - plain < 600_000
