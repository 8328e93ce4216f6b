"""The table shared by terminal and brief, against values computed here."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from storlab._native import Histogram
from storlab.analysis.compare import Cell, Comparison, Row, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.points import WorkloadPoint
from storlab.analysis.table import comparison_dict
from storlab.brief.selection import only_points
from storlab.brief.tables import scales_of, section_tables
from storlab.cli.consoles import PipeConsole
from storlab.cli.main import main
from storlab.results.store import ResultStore
from support.made_comparisons import comparison_of, study_of


def row_at(comparison: Comparison, read: int, block: int, jobs: int) -> Row:
    for row in comparison.rows.values():
        params = row.point.params
        if (params["read_percent"], params["block_size"], params["jobs"]) == (read, block, jobs):
            return row
    raise AssertionError("no such point")


def cell_at(comparison: Comparison, target: str = "Disk") -> Cell:
    return row_at(comparison, 70, 262144, 4).cells[target]


def test_every_point_has_every_target(comparison: Comparison) -> None:
    assert len(comparison.rows) == 2 * 2 * 4
    assert comparison.targets == ["Disk", "Memory"]
    assert comparison.baseline == "Memory"
    assert all(len(c.runs) == 3 for row in comparison.rows.values() for c in row.cells.values())


def test_a_mean_is_the_mean_of_the_repeats(comparison: Comparison) -> None:
    cell = cell_at(comparison)
    values = [run.record.metric("throughput_mb_s") for run in cell.runs]
    found = cell.values["throughput_mb_s.all"]
    assert found.estimate == pytest.approx(statistics.fmean(v for v in values if v))
    assert found.low is not None
    assert found.low < found.estimate


def test_no_share_has_an_interval_above_all_of_it() -> None:
    key, drawn = "au_percent.all", cycle([96.0, 99.5, 100.0])
    made = comparison_of(study_of(["a", "b"]), lambda *_: {key: next(drawn)})
    cells = [cell for row in made.rows.values() for cell in row.cells.values()]
    found = [cell.values[key] for cell in cells]
    assert {value.high for value in found} == {100.0}
    assert all(value.low is not None and value.low < 96 for value in found)


def test_a_percentile_is_read_from_merged_histograms(
    comparison: Comparison, full_store: ResultStore
) -> None:
    cell = cell_at(comparison)
    merged = Histogram()
    for run_id in cell.run_ids:
        for sample in full_store.samples(run_id).to_pylist():
            if sample["operation"] == "read":
                merged.add(Histogram.from_v2(sample["latency_hist"]))
    found = cell.values["latency_p99_ns.read"]
    own = [run.record.metric("latency_p99_ns", "read") for run in cell.runs]
    assert found.estimate == merged.percentile(99.0)
    assert found.estimate != statistics.fmean(v for v in own if v)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.estimate <= found.high


def test_latencies_at_different_concurrency_are_marked(comparison: Comparison) -> None:
    apart = row_at(comparison, 70, 262144, 8).ratios["Disk"]
    alike = row_at(comparison, 70, 262144, 4).ratios["Disk"]
    assert apart["latency_mean_ns.read"].concurrency == pytest.approx((126.72, 102.4))
    assert apart["throughput_mb_s.all"].concurrency is None
    assert alike["latency_mean_ns.read"].concurrency is None


def test_flags_stand_with_the_cell_they_touch(comparison: Comparison) -> None:
    bound = row_at(comparison, 30, 4194304, 8).cells["Memory"]
    assert {"client-bound", "concurrency-mismatch"} <= {flag.kind for flag in bound.flags}
    assert all(flag.runs == 3 for flag in bound.flags)
    few = row_at(comparison, 70, 4194304, 1).cells["Disk"]
    assert [flag.kind for flag in few.flags] == ["few-operations"]


def test_failed_runs_are_part_of_no_mean(partial_store: ResultStore) -> None:
    comparison = compare(load_dataset([partial_store]))
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    assert sum(len(cell.failed) for cell in cells) == 3
    once = next(cell for cell in cells if cell.failed and len(cell.runs) == 1)
    assert once.values["throughput_mb_s.all"].n == 1
    assert once.values["throughput_mb_s.all"].low is None
    data = comparison_dict(comparison)
    assert len(data["failed"]) == 3
    assert "EIO" in data["failed"][0]["message"]


def test_no_target_is_compared_with_itself(comparison: Comparison) -> None:
    assert all("Memory" not in row.ratios for row in comparison.rows.values())


def test_two_directories_tell_their_targets_apart(tmp_path: Path, full_store: ResultStore) -> None:
    other = build_store(tmp_path / "again", mixes=(30,), repeats=2, seed=9)
    comparison = compare(load_dataset([full_store, other]))
    assert comparison.targets == [
        "Disk (full)",
        "Memory (full)",
        "Disk (again)",
        "Memory (again)",
    ]
    row = row_at(comparison, 30, 262144, 2)
    assert [len(cell.runs) for cell in row.cells.values()] == [3, 3, 2, 2]
    assert row.ratios["Disk (again)"]["throughput_mb_s.all"].decided
    elsewhere = row_at(comparison, 70, 262144, 2)
    assert not elsewhere.cells["Disk (again)"].measured


def test_the_verb_prints_the_table(
    full_store: ResultStore, capsys: pytest.CaptureFixture[str], comparison: Comparison
) -> None:
    assert main(["compare", str(full_store.directory)]) == 0
    text = capsys.readouterr().out
    cell = cell_at(comparison)
    assert f"{cell.values['throughput_mb_s.all'].estimate:,.0f}" in text
    assert "Ratio to Memory" in text
    assert "read\n" not in text.splitlines()[0]
    assert "client-bound: The load generator was near the limit of its CPU" in text


def test_the_verb_prints_json_of_chosen_metrics(
    full_store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["compare", str(full_store.directory), "-m", "latency_p99_ns:read", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [c["key"] for c in data["columns"]] == ["latency_p99_ns.read"]
    assert set(data["points"][0]["targets"]["Disk"]["values"]) == {"latency_p99_ns.read"}


def test_an_unknown_metric_is_named(
    full_store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(full_store.directory), "-m", "latency_p42_ns"]) == 2
    assert '"latency_p42_ns" was not measured' in capsys.readouterr().err


def test_a_narrow_terminal_loses_no_digit(
    full_store: ResultStore,
    comparison: Comparison,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("storlab.cli.terminal.out._width", 64)
    assert main(["compare", str(full_store.directory)]) == 0
    text = capsys.readouterr().out
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 64
    assert f"{cell_at(comparison, 'Memory').values['iops.all'].estimate:,.0f}" in text


Place = tuple[int, int, int]


def places(store: ResultStore, capsys: pytest.CaptureFixture[str], *options: str) -> list[Place]:
    """Return the points that `compare --json` prints with these options, in order."""
    capsys.readouterr()
    assert main(["compare", str(store.directory), "--json", *options]) == 0
    params = [point["params"] for point in json.loads(capsys.readouterr().out)["points"]]
    return [(p["read_percent"], p["block_size"], p["jobs"]) for p in params]


def test_points_are_selected_by_their_description(
    full_store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    found = places(full_store, capsys, "--point", "256 KiB, 4 JOBS")
    assert len(found) == 2
    assert {place[1:] for place in found} == {(262144, 4)}
    assert main(["compare", str(full_store.directory), "--point", "3 jobs"]) == 2
    assert "fix" in capsys.readouterr().err


def test_points_are_selected_by_the_terms_of_report(
    full_store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    described = places(full_store, capsys, "--point", "256 KiB, 4 jobs")
    for terms in ("jobs=4,block_size=256KiB", "jobs=4,256 kib", "target=Disk,jobs=4,256 kib"):
        assert places(full_store, capsys, "--point", terms) == described
    more = places(full_store, capsys, "--point", "jobs=1", "-p", "jobs=4,block_size=256KiB")
    every = places(full_store, capsys)
    assert more == [p for p in every if p[2] == 1 or p[1:] == (262144, 4)]
    point_id, point = next(iter(full_store.plan.points.items()))
    params = point.params
    found = places(full_store, capsys, "--point", point_id)
    assert found == [(params["read_percent"], params["block_size"], params["jobs"])]
    assert main(["compare", str(full_store.directory), "--point", "jobs=77"]) == 2
    assert '"jobs=77"' in capsys.readouterr().err


def test_points_with_the_largest_difference_are_selected(
    comparison: Comparison, full_store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    def difference(row: Row) -> float:
        return abs(math.log(row.ratios["Disk"]["throughput_mb_s.all"].ratio.estimate))

    found = places(full_store, capsys, "--sort", "throughput_mb_s", "--top", "3")
    differences = sorted((difference(row_at(comparison, *place)) for place in found), reverse=True)
    every = sorted(map(difference, comparison.rows.values()), reverse=True)
    assert differences == pytest.approx(every[:3])
    assert main(["compare", str(full_store.directory), "--sort", "throughptu"]) == 2
    assert "--sort" in capsys.readouterr().err


def test_points_are_sorted_by_a_metric_without_ratios(
    comparison: Comparison, full_store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    def difference(row: Row) -> float:
        values = [
            cell.values["latency_p50_ns.read"].estimate
            for cell in row.cells.values()
            if "latency_p50_ns.read" in cell.values
        ]
        return max(values) / min(values)

    assert "latency_p50_ns.read" not in next(iter(comparison.rows.values())).ratios["Disk"]
    options = ("--sort", "latency_p50_ns.read", "--top", "3")
    found = [difference(row_at(comparison, *p)) for p in places(full_store, capsys, *options)]
    every = sorted(map(difference, comparison.rows.values()), reverse=True)
    assert sorted(found, reverse=True) == pytest.approx(every[:3])


def test_tables_keep_the_order_of_selected_points(comparison: Comparison) -> None:
    first, *_ = comparison.sections
    jobs = [point.params["jobs"] for point in first.points]
    part = only_points(comparison, first.points[::-1])
    (section,) = part.sections
    table, *_ = section_tables(part, section, scales_of(part)["block"])
    shown = [row.heads[-1][0] for row in table.rows if row.target == comparison.baseline]
    assert shown == [str(number) for number in reversed(jobs)]
    assert [s.title for s in only_points(comparison, list(_backwards(comparison))).sections] == [
        s.title for s in reversed(comparison.sections)
    ]


def _backwards(comparison: Comparison) -> Iterator[WorkloadPoint]:
    for section in reversed(comparison.sections):
        yield from reversed(section.points)


def test_a_terminal_gets_one_table_that_fits(
    full_store: ResultStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = PipeConsole(force_terminal=True, width=120, height=40, markup=False, highlight=False)
    monkeypatch.setattr("storlab.cli.terminal.out", console, raising=False)
    assert main(["compare", str(full_store.directory)]) == 0
    short = capsys.readouterr().out
    assert main(["compare", str(full_store.directory), "--all"]) == 0
    assert len(short.splitlines()) <= 50 < len(capsys.readouterr().out.splitlines())
