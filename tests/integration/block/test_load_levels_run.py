"""Load levels of block I/O on a real file: rates, repeats, resume, audit and figure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean

import pytest

from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.load_curve import curve_documents, load_curve
from storlab.analysis.offered_load import level_of
from storlab.audit.from_results import audit_comparison
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.contracts.registry import FAMILIES
from storlab.figures.drawing import draw
from storlab.figures.svg import render
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.common.figure_kinds import LATENCY_UNDER_LOAD
from support.vega import assert_vega_lite

LEVELS = [20, 40, 60, 80, 100, 1000]  # a tenfold rate cannot be reached
STUDY = f"""\
[study]
name = "load levels"
repeats = 2
ramp = "20ms"
runtime = "250ms"
interval = "50ms"

[[target]]
name = "file"
path = "one.dat"
size = "8MiB"
direct = false

[[target]]
name = "nothing"
path = "null:"

[[workload]]
kind = "block"
name = "mixed"
read_percent = 70
queue_depth = 4
load_percent = {LEVELS}
arrival = "poisson"
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the result directory of the study, executed once."""
    place = tmp_path_factory.mktemp("levels")
    (place / "study.toml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        code = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert code == ExitCode.OK
    return place / "results"


@pytest.fixture(scope="module")
def comparison(out: Path) -> Comparison:
    return compare(load_dataset([ResultStore.open(out)]))


def of_target(records: list[RunRecord], target: str) -> dict[float | None, list[RunRecord]]:
    found: dict[float | None, list[RunRecord]] = {}
    for record in records:
        if record.target == target:
            found.setdefault(level_of(record), []).append(record)
    return found


@pytest.mark.parametrize("target", ["file", "nothing"])
def test_every_repeat_offers_its_percentage_of_the_mean_maximum(out: Path, target: str) -> None:
    store = ResultStore.open(out)
    by_level = of_target(store.records(), target)
    assert [*by_level] == [None, *LEVELS]
    closed = by_level[None]
    maximum = fmean(record.metric("iops") or 0 for record in closed)
    assert all(record.offered is None for record in closed)
    for level in LEVELS:
        for record in by_level[level]:
            load = record.offered
            assert load is not None
            assert load.maximum_runs == [run.run_id for run in closed]
            assert load.maximum_s == pytest.approx(maximum)
            assert load.rate_s == pytest.approx(maximum * level / 100)
            assert record.metric("offered_iops") == load.rate_s
            job = json.loads(store.raw(record.run_id, "job.json"))
            assert job["arrival"] == {"kind": "poisson", "rate_iops": load.rate_s}
            assert record.metric("intended_latency_p99_ns", "read") is not None
            kinds = {flag.kind for flag in record.flags}
            assert "concurrency-mismatch" not in kinds
            if level == 1000:
                assert "open-loop-behind" in kinds


def test_runs_that_are_made_again_keep_the_rate(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "again"
    shutil.copytree(out, place)
    before = of_target(ResultStore.open(place).records(), "file")
    # The second run of the closed loop and one of a load level were lost.
    for record in (before[None][1], before[40][1]):
        shutil.rmtree(place / "runs" / record.run_id)
    monkeypatch.chdir(out.parent)
    assert main(["resume", str(place), "--no-report", "--quiet"]) == ExitCode.OK
    after = of_target(ResultStore.open(place).records(), "file")
    assert after[None][1].started_at >= before[None][1].started_at
    assert after[40][1].offered == before[40][1].offered
    assert len(after[40]) == 2


def test_the_curve_has_all_loads_in_order(comparison: Comparison) -> None:
    (section,) = comparison.sections
    assert section.axes.x == "load_percent"
    for target in ("file", "nothing"):
        curve = load_curve(comparison, section, section.facets()[0], target)
        assert [load.level for load in curve] == LEVELS
        rates = [load.rate_s for load in curve]
        assert rates == sorted(rates)
        assert curve[-1].overloaded
        assert curve[-1].achieved is not None
        assert curve[-1].achieved.estimate < curve[-1].rate_s
        assert all(load.latency("p99", "read") is not None for load in curve)
    last = comparison.last_point(section, section.facets()[0])
    assert last is not None
    assert last.params.get("load_percent") is None  # targets are compared at their maximum


def test_each_operation_has_a_figure_of_percentiles_and_achieved_rate(
    comparison: Comparison,
) -> None:
    assert LATENCY_UNDER_LOAD in FAMILIES["block"].figures
    figures = draw(LATENCY_UNDER_LOAD, comparison, comparison.sections)
    assert [figure.name for figure in figures] == [
        "latency-under-load-read-mixed-70-30-read-write-4-kib",
        "latency-under-load-write-mixed-70-30-read-write-4-kib",
    ]
    for figure in figures:
        assert len(figure.rows) == 2 * len(LEVELS)
        overloaded = {row[1] for row in figure.rows if row[-1] == "yes"}
        assert "1000 %" in overloaded
        assert len(figure.spec["vconcat"]) == 4
        data = figure.spec["datasets"]
        assert [record["over"] for record in data["rates"]].count(True) >= 2
        assert "Hollow" in figure.remark
        assert_vega_lite(figure.spec)
        assert render(figure).startswith("<svg")


def test_the_data_of_a_brief_have_the_curves(comparison: Comparison) -> None:
    curves = curve_documents(comparison)
    assert [(c["target"], c["operation"]) for c in curves] == [
        (target, operation) for target in ("file", "nothing") for operation in ("read", "write")
    ]
    for curve in curves:
        offered = [point["offered_s"] for point in curve["points"]]
        assert [point["load_percent"] for point in curve["points"]] == LEVELS
        knee = curve["knee"]
        if knee is not None:  # on a busy machine even low loads may be overloaded
            assert knee["beyond_s"] in offered
        for point in curve["points"]:
            p50, p99 = (point[f"intended_latency_{p}_ns"]["estimate"] for p in ("p50", "p99"))
            assert p50 <= p99


def test_the_terminal_names_each_knee(
    comparison: Comparison, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(out), "--answer"]) == ExitCode.OK
    printed = " ".join(capsys.readouterr().out.split())
    for curve in curve_documents(comparison):
        knees = [c for c in curve_documents(comparison) if c["operation"] == curve["operation"]]
        known = any(c["knee"] is not None for c in knees)
        assert (f"{curve['operation']} p99 doubles" in printed) == known


RATES = """\
[study]
name = "rates"
repeats = 1
ramp = 0
runtime = "200ms"
interval = "50ms"
[[target]]
name = "nothing"
path = "null:"
[[workload]]
kind = "block"
rate_iops = [100, 200, 300, 400, 500]
"""


def test_rates_that_the_study_sets_are_drawn_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(RATES)
    code = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert code == ExitCode.OK
    comparison = compare(load_dataset([ResultStore.open(Path("results"))]))
    (figure,) = draw(LATENCY_UNDER_LOAD, comparison, comparison.sections)
    assert [row[1:3] for row in figure.rows] == [["", f"{n}"] for n in (100, 200, 300, 400, 500)]
    records = ResultStore.open(Path("results")).records()
    assert all(record.offered is None for record in records)


def test_the_audit_recomputes_the_offered_load(out: Path, tmp_path: Path) -> None:
    place = tmp_path / "forged"
    shutil.copytree(out, place)
    good = audit_comparison(compare(load_dataset([ResultStore.open(place)])))
    assert "offered_load" not in {finding.rule for finding in good}
    store = ResultStore.open(place)
    data = load_dataset([store])
    for run in data.all_runs():
        if run.record.offered is not None and level_of(run.record) == 60:
            forged = run.record.offered.model_copy(update={"rate_s": 1.0})
            run.record = run.record.model_copy(update={"offered": forged})
    (finding,) = [f for f in audit_comparison(compare(data)) if f.rule == "offered_load"]
    assert finding.severity == "error"
    assert len(finding.rows) == 4


def test_the_brief_says_that_equal_levels_are_not_equal_loads(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "brief.html"
    assert main(["report", str(out), "--out", str(page)]) == ExitCode.OK
    capsys.readouterr()
    text = page.read_text()
    assert "Latency under load" in text
    assert "percentages of each target’s own maximum" in text
