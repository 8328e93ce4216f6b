"""The examples of docs/python.md, run in order as printed there."""

from __future__ import annotations

import re
from ast import literal_eval
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from html import escape
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest

import storlab
from storlab.base.errors import ResultError, UsageError
from storlab.cli.main import main
from storlab.results.store import ResultStore

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
    """Check that a study can run outside of the main thread, as in a dashboard server."""
    out = place / "results" / "in-a-thread"
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(storlab.run, place / "study.toml", out=out, progress=False)
    assert len(set(job.result().runs["run_id"].to_pylist())) == 8


@pytest.fixture(scope="module")
def printed(place: Path) -> dict[str, str]:
    """Run the page's examples in order; return the output of each by its first line of code."""
    outputs: dict[str, str] = {}
    names: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            with redirect_stdout(StringIO()) as out:
                exec(compile(example, str(PAGE), "exec"), names)
            outputs[example.splitlines()[0]] = out.getvalue()
    assert len(outputs) >= 8
    return outputs


def _output(printed: dict[str, str], code: str) -> str:
    """Return the output of the one example whose first line contains ``code``."""
    (text,) = [text for first, text in printed.items() if code in first]
    return text


def _words(text: str) -> str:
    return " ".join(text.split())


def _mean(place: Path, name: str, *, point: str = "", target: str = "") -> float:
    """Average a metric over the stored runs of one point, or of all points of a target."""
    records = ResultStore.open(place / "results" / "two-ssds").records()
    chosen = [r for r in records if point in ("", r.point_id) and target in ("", r.target)]
    values = [value for r in chosen if (value := r.metric(name)) is not None]
    assert len(values) == len(chosen)
    return sum(values) / len(values)


def test_the_verdict_that_an_example_prints_is_that_of_compare(
    place: Path, printed: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(place / "results" / "two-ssds")]) == 0
    shown = _words(capsys.readouterr().out)
    lines = _output(printed, "results.sentences").splitlines()
    assert lines
    assert [line for line in lines if _words(line) not in shown] == []


def test_the_means_that_an_example_prints_are_those_of_the_metrics(
    place: Path, printed: dict[str, str]
) -> None:
    """Check that printed means never mix an operation with the total that includes it."""
    text = _output(printed, "results.runs.to_pandas")
    means = re.findall(r"^(?:\w+)? +throughput_mb_s +([\d.e+]+)$", text, re.MULTILINE)
    for target, mean in zip(("first", "second"), means, strict=True):
        assert float(mean) == pytest.approx(
            _mean(place, "throughput_mb_s", target=target), rel=1e-3
        )


def test_the_points_that_an_example_prints_are_those_of_the_metrics(
    place: Path, printed: dict[str, str]
) -> None:
    text = _output(printed, "import polars")
    points, decided = re.findall(r"shape: \((\d+), \d\)", text)
    rows = re.findall(r"│ (first|second) +┆ [^┆]*(\d)\sjob[^┆]*┆ ([\d.e+-]+)", text)
    assert int(points) == len(rows) == 4
    plan = ResultStore.open(place / "results" / "two-ssds").plan
    of = {(p.target, str(p.params["jobs"])): p.point_id for p in plan.points.values()}
    for target, jobs, estimate in rows:
        mean = _mean(place, "throughput_mb_s", point=of[target, jobs])
        assert float(estimate) == pytest.approx(mean, rel=1e-3)
    intervals = [
        ratio.interval
        for row in storlab.load(place / "results" / "two-ssds").comparison.rows.values()
        for ratios in row.ratios.values()
        for ratio in ratios.values()
    ]
    ends = [(i.low, i.high) for i in intervals if i.low is not None and i.high is not None]
    assert int(decided) == sum(low > 1 or high < 1 for low, high in ends)


def test_the_cells_that_an_example_prints_are_the_runs_on_disk(
    place: Path, printed: dict[str, str]
) -> None:
    lines = _output(printed, "for row in results.comparison").splitlines()
    records = {r.run_id: r for r in ResultStore.open(place / "results" / "two-ssds").records()}
    seen: list[str] = []
    for line in lines:
        match = re.fullmatch(r"(\w+) (\[.*?\]) (\[.*\])", line)
        assert match is not None
        target, runs, flags = match.groups()
        own = [records[run_id] for run_id in literal_eval(runs)]
        assert {record.target for record in own} == {target}
        assert {f.kind for record in own for f in record.flags} <= set(literal_eval(flags))
        seen += literal_eval(runs)
    assert sorted(seen) == sorted(records)


def test_the_figure_that_an_example_names_is_the_one_it_writes(
    place: Path, printed: dict[str, str]
) -> None:
    title, rows = _output(printed, "from pathlib").strip().rsplit(" ", 1)
    svg = (place / "figure.svg").read_text()
    assert svg.startswith("<svg")
    assert f"<title>{escape(title, quote=False)}</title>" in svg
    assert int(rows) == storlab.load(place / "results" / "two-ssds").figures[0].table.num_rows > 0


def test_the_study_that_an_example_runs_is_the_one_it_counts(
    place: Path, printed: dict[str, str]
) -> None:
    again = place / "results" / "again"
    assert (again / "runs").is_dir()
    count = int(_output(printed, "storlab.run").strip().splitlines()[-1])
    assert count == len(storlab.load(again).points.to_pylist()) > 0


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
    """Check that figures equal the brief's: workloads of a kind apart, campaign-wide ones too."""
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
    with pytest.raises(UsageError, match="nobody"):
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
