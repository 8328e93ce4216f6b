"""The examples of docs/python.md, run one after the other as they stand there."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import storlab
from storlab.base.errors import ResultError, UsageError
from storlab.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
STUDY = """
[study]
name = "two of nothing"
repeats = 2
ramp = 0
runtime = "500ms"
interval = "250ms"
[[target]]
name = "first"
path = "null:"
[[target]]
name = "second"
path = "null:"
[[workload]]
kind = "block"
jobs = [1, 2]
queue_depth = 4
read_percent = 70
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("notebook")
    study = directory / "study.toml"
    study.write_text(STUDY)
    out = directory / "results" / "two-ssds"
    assert main(["run", str(study), "--out", str(out), "--no-report", "--quiet"]) == 0
    return directory


def test_a_study_runs_in_a_thread_of_its_own(place: Path) -> None:
    """As the server of somebody's dashboard may start it: signals belong to the main thread."""
    out = place / "results" / "in-a-thread"
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(storlab.run, place / "study.toml", out=out, progress=False)
    assert len(set(job.result().runs["run_id"].to_pylist())) == 8


def test_every_example_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert len(examples) >= 7
    printed = capsys.readouterr().out
    assert "throughput_mb_s" in printed
    assert (place / "figure.svg").read_text().startswith("<svg")
    assert (place / "results" / "again" / "runs").is_dir()


def test_tables_say_what_the_comparison_says(place: Path) -> None:
    results = storlab.load(place / "results" / "two-ssds")
    rows = results.points.to_pylist()
    cells = [
        (row.point.workload, target, key, value.estimate)
        for row in results.comparison.rows.values()
        for target, cell in row.cells.items()
        for key, value in cell.values.items()
    ]
    told = [(r["workload"], r["target"], r["metric"], r["estimate"]) for r in rows]
    assert sorted(told) == sorted(cells)
    assert len({r["where"] for r in rows}) == 2
    assert {r["target"] for r in results.ratios.to_pylist()} == {"first"}
    assert set(results.runs.column("run_id").to_pylist()) == {
        run.record.run_id for run in results.comparison.dataset.all_runs()
    }
    assert any(pa.types.is_binary(field.type) for field in results.samples.schema)


def test_figures_draw_themselves(place: Path) -> None:
    results = storlab.load(place / "results" / "two-ssds")
    assert len({drawing.figure.name for drawing in results.figures}) == len(results.figures) > 3
    for drawing in results.figures:
        assert drawing._repr_html_().startswith("<svg")
        assert drawing.table.num_rows == len(drawing.figure.rows)
    assert results._repr_html_().startswith("<p>")


def test_figures_are_those_of_the_brief(tmp_path: Path) -> None:
    """Two workloads of one kind apart, and what stands once for the campaign, too."""
    study = tmp_path / "study.toml"
    second = '[[workload]]\nkind = "block"\nname = "other"\nblock_size = "64KiB"\njobs = [1, 2]\n'
    priced = 'path = "null:"\ncapacity = "1TB"\nprice = 100\ncost = { servers = 50 }\n'
    study.write_text(STUDY.replace('path = "null:"\n', priced) + second)
    out = tmp_path / "results"
    assert main(["run", str(study), "--out", str(out), "--quiet"]) == 0
    names = [drawing.figure.name for drawing in storlab.load(out).figures]
    drawn = {path.name for path in (out / "figures").glob("*.light.svg")}
    assert {f"{name}.light.svg" for name in names} == drawn
    assert len(names) == len(set(names))
    kinds = {drawing.figure.kind for drawing in storlab.load(out).figures}
    assert {"worth", "cost_stack"} <= kinds


def test_any_run_has_a_time_axis(place: Path) -> None:
    results = storlab.load(place / "results" / "two-ssds")
    (run_id, *_) = results.runs["run_id"].to_pylist()
    drawing = results.timeline(run_id)
    assert drawing.figure.kind == "timeline"
    assert drawing._repr_html_().startswith("<svg")
    with pytest.raises(UsageError, match="no run of these results"):
        results.timeline("nobody")
    twice = storlab.load(place / "results" / "two-ssds", place / "results" / "in-a-thread")
    with pytest.raises(UsageError, match="several"):
        twice.timeline(run_id)
    assert twice.timeline(run_id.replace("-r", "-2-r")).figure.kind == "timeline"


def test_what_is_no_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=tmp_path.name):
        storlab.load(tmp_path)
    with pytest.raises(UsageError, match="no result directory"):
        storlab.load()


def test_the_means_of_the_tables_are_those_of_the_metrics(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operation is never averaged with the whole that it is a part of."""
    monkeypatch.chdir(place)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (snippet,) = [text for text in examples if "groupby" in text]
    results = storlab.load("results/two-ssds")
    exec(snippet, {"results": results})
    printed = re.findall(r"^(?:\w+)? +throughput_mb_s +([\d.e+]+)$", capsys.readouterr().out, re.M)
    records = [run.record for run in results.comparison.dataset.all_runs()]
    for target, text in zip(("first", "second"), printed, strict=True):
        values = [r.metric("throughput_mb_s") or 0.0 for r in records if r.target == target]
        assert float(text) == pytest.approx(sum(values) / len(values), rel=1e-3)
