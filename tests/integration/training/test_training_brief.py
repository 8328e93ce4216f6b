"""The brief of training reads: utilisation, waits, device bytes, capacity, emulation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from integration.brief.fixed_fixture import NEW, OLD
from integration.brief.kinds import FIGURES, draw, names_of
from integration.conftest import Made
from integration.object.test_object_brief import mean, tables_of
from integration.training.training_fixture import build_training_store
from storlab._native import Histogram
from storlab.analysis.capacity_file import searches
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.audit.from_results import audit_results
from storlab.base.errors import ResultError
from storlab.base.units import format_number
from storlab.brief import write_brief
from storlab.cli.main import main
from storlab.figures.figure import Figure
from storlab.figures.svg import render
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.words.outcomes import UNDECIDED
from storlab.words.text import MISSING
from storlab.workloads.training.capacity_answer import Kept, found_text, largest, title
from storlab.workloads.training.findings import capacity_section
from support.made_comparisons import told
from support.vega import assert_vega_lite

FEW = " (not reliable: epochs have too few steps)"
SECTION = "mix-unet3d-unet3d-native"


def records_of(store: ResultStore, accelerators: int, target: str) -> list[RunRecord]:
    found = [r for r in store.records() if r.target == target]
    return [r for r in found if r.params["accelerators"] == accelerators]


@pytest.fixture(scope="session")
def training_comparison(training_store: ResultStore) -> Comparison:
    return compare(load_dataset([training_store]))


def test_utilisation_stands_by_definition_with_the_runs_own_values(training_made: Made) -> None:
    busy = tables_of(training_made.html, SECTION)[0]
    assert busy.caption.startswith("Utilisation of the emulated accelerators (DLIO-equivalent)")
    for accelerators in (1, 3, 4):
        for target in (NEW, OLD):
            row = busy.at("unet3d-h100", str(accelerators), target)
            records = records_of(training_made.store, accelerators, target)
            assert row["AU %"] == format_number(mean(records, "au_percent"))
            assert row["AU with the first step %"] == format_number(
                mean(records, "au_with_first_percent")
            )
            assert row["required %"] == "90.0"
            assert float(row["AU with the first step %"]) < float(row["AU %"])


def test_rates_waits_and_energy_are_those_of_the_runs(
    training_made: Made, training_comparison: Comparison
) -> None:
    comparison = training_comparison
    _, rate, wait, _, energy, *_ = tables_of(training_made.html, SECTION)
    records = records_of(training_made.store, 4, OLD)
    row = rate.at("4", OLD)
    assert row["samples/s"] == format_number(mean(records, "samples_s"))
    assert row["moved MB/s"] == format_number(mean(records, "throughput_mb_s"))
    assert row["nominal MB/s"] == format_number(mean(records, "nominal_mb_s"))
    assert row["moved MB/s"] != row["nominal MB/s"]
    stalls = wait.at("4", OLD)
    assert stalls["stall of an accelerator s"] == format_number(mean(records, "stall_s"))
    assert stalls["step waits, p50"].endswith("ms")
    # an available batch costs nanoseconds, which is not printed as 0 ms
    assert wait.at("1", NEW)["step waits, p50"] == "900\u00a0ns".replace("\u00a0", " ")
    row = energy.at("4", OLD)
    joules = [r.metric("span_energy_j", "epoch") for r in records]
    known = [value for value in joules if value is not None]
    assert len(known) == 3
    assert row["energy of an epoch J"] == format_number(sum(known) / 3)
    assert row["accelerators fed per watt 1/W"] == "0"  # four are not kept busy
    (fed,) = [f for f in draw("epoch_energy", comparison, comparison.sections) if "watt" in f.name]
    assert "on Solidigm D5-P5336 with 2 accelerators" in fed.title.replace("\u00a0", " ")


def test_waits_are_of_merged_histograms(training_comparison: Comparison) -> None:
    section = training_comparison.sections[0]
    cell = training_comparison.row(section.points[-1]).cells[OLD]
    whole = Histogram()
    for run in cell.runs:
        whole.add(Histogram.from_v2(run.times["latency"]["step"]))
    assert cell.values["step_wait_p90_ns.all"].estimate == whole.percentile(90.0)


def test_epochs_are_listed_with_what_the_device_read(training_made: Made) -> None:
    epochs = next(t for t in tables_of(training_made.html, SECTION) if t.head[0] == "epoch")
    assert [row[0] for row in epochs.rows][::2] == ["epoch 1", "epoch 2", "epoch 3"]
    row = epochs.at("epoch 2", NEW)
    records = records_of(training_made.store, 4, NEW)
    read = [record.details["epochs"][1]["bytes"] / 1e6 for record in records]
    device = [record.details["epochs"][1]["device_read_bytes"] / 1e6 for record in records]
    assert row["read of files MB"] == format_number(sum(read) / 3)
    assert row["read by the device MB"] == format_number(sum(device) / 3)
    assert row["device / files %"] == "100"


def test_emulated_values_are_marked_and_hatched_and_measured_ones_are_not(
    training_made: Made, training_comparison: Comparison
) -> None:
    html = training_made.html
    assert "emulated: utilisation of the emulated accelerators and power" in html
    assert "MLPerf" in html
    section = training_comparison.sections
    swept, bars = draw("au_vs_accelerators", training_comparison, section)
    assert {d["provenance"] for d in swept.spec["datasets"]["means"]} == {"emulated"}
    assert {tuple(d["dash"]) for d in swept.spec["datasets"]["means"]} == {(4, 3)}
    assert {d["fill"] for d in bars.spec["datasets"]["bars"]} == {
        "url(#hatch-s1)",
        "url(#hatch-s2)",
    }
    (moved,) = draw("training_nominal", training_comparison, section)
    assert all(d["fill"].startswith("var(") for d in moved.spec["datasets"]["bars"])
    numbers = html.split('id="numbers"')[1]
    busy, rate, *_ = numbers.split('<table class="data">')[1:]
    assert 'href="#mark-emulated-accelerators"' in busy
    assert 'href="#mark-emulated-accelerators"' not in rate.split("</table>")[0]


def test_no_words_of_windows_and_queues(training_made: Made) -> None:
    text = training_made.html
    text = text[text.index('<main class="wrap">') : text.index('id="audit"')]
    for word in ("Little’s law", "ffective concurrency", "steady", "Ramp (load"):
        assert word not in text


def test_the_capacity_is_that_of_the_search(training_made: Made) -> None:
    (table,) = tables_of(training_made.html, "capacity")
    found = {
        search.target: search for search in searches(compare(load_dataset([training_made.store])))
    }
    assert found[OLD].number == 2
    assert found[OLD].first_not_kept == 3
    row = table.at(OLD)
    assert row["kept busy"] == "2"
    assert row["first not kept"] == "3"
    power = [r.metric("power_w") for r in records_of(training_made.store, 2, OLD)]
    watts = sum(value for value in power if value is not None) / 3
    assert row["per watt 1/W"] == format_number(2 / watts)
    assert (
        f"{found_text(found[NEW])} on {NEW} (few steps), 2 on {OLD} (few steps)"
        in training_made.html
    )


def test_accelerators_per_watt_are_marked_as_what_they_are_made_of(training_made: Made) -> None:
    data = load_dataset([training_made.store])
    for run in data.all_runs():
        if run.target == OLD:
            metrics = [
                m.model_copy(update={"provenance": "declared"}) if m.boundary else m
                for m in run.record.metrics
            ]
            run.record = run.record.model_copy(update={"metrics": metrics})
    section = capacity_section(compare(data))
    assert section is not None
    (table,) = section.tables
    kinds = {row.target: {m.kind for m in row.numbers[-1].marks} for row in table.rows}
    assert kinds == {NEW: {"emulated-accelerators"}, OLD: {"emulated-accelerators", "declared"}}
    assert "declared" in {m.kind for m in table.marks}


def test_accelerators_per_watt_say_which_runs_have_no_energy(training_made: Made) -> None:
    data = load_dataset([training_made.store])
    for run in data.all_runs():
        if run.target == OLD and run.record.repeat > 1:
            metrics = [m for m in run.record.metrics if not m.boundary]
            run.record = run.record.model_copy(update={"metrics": metrics})
    section = capacity_section(compare(data))
    assert section is not None
    marks = {row.target: row.numbers[-1].marks for row in section.tables[0].rows}
    assert {m.kind for m in marks[NEW]} == {"emulated-accelerators"}
    told = {m.kind: m.message for m in marks[OLD]}
    assert set(told) == {"emulated-accelerators", "one-run", "energy-lost"}
    assert told["energy-lost"].startswith("2\u00a0runs of 3 without energy")


@pytest.mark.parametrize(
    ("verdict", "text"), [("found", "2"), ("at-least", "at least 2"), ("within noise", "2 or more")]
)
def test_a_capacity_is_printed_by_its_verdict(
    verdict: str, text: str, training_made: Made, tmp_path: Path
) -> None:
    """Check that a capacity's verdict decides; notes are ignored."""
    copy = tmp_path / "copy"
    shutil.copytree(training_made.store.directory, copy)
    path = copy / "capacity.json"
    content = json.loads(path.read_text())
    (case,) = (case for case in content["cases"] if case["target"] == OLD)
    case |= {"verdict": verdict, "notes": ["what could not be decided is another matter"]}
    path.write_text(json.dumps(content))
    found = searches(compare(load_dataset([ResultStore.open(copy)])))
    assert [found_text(search) for search in found if search.target == OLD] == [text]


def test_a_search_is_told_with_its_own_threshold(training_made: Made, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(training_made.store.directory, copy)
    path = copy / "capacity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "threshold_percent": 50}))
    comparison = compare(load_dataset([ResultStore.open(copy)]))
    answer = told(comparison)["accelerators"][0]
    assert f"{OLD}: 2 emulated accelerators kept at least 50 % busy" in answer
    assert "90 %" not in answer
    swept = draw("au_vs_accelerators", comparison, comparison.sections)[0]
    assert "ccelerators kept at least 50 % busy: at least 3 on" in swept.title


def test_searches_of_different_thresholds_are_told_apart() -> None:
    kept = {"A": Kept("2", "2", 90.0), "B": Kept("3", "3", 50.0), "C": Kept("", "none", 90.0)}
    assert title(kept) == (
        "accelerators kept at least 90 % busy: 2 on A, none on C; at least 50 % busy: 3 on B"
    )


def test_without_a_search_the_swept_numbers_tell(tmp_path: Path) -> None:
    store = build_training_store(tmp_path / "run", accelerators="[1, 3]", power=False)
    comparison = compare(load_dataset([store]))
    swept = draw("au_vs_accelerators", comparison, comparison.sections)[0]
    assert swept.title == (
        "Accelerators kept at least 90 % busy: "
        f"at least 3 on {NEW} (few steps), 1 on {OLD} (few steps)"
    )
    rings = {(d["target"], d["x"]) for d in swept.spec["datasets"]["rings"]}
    assert rings == {(NEW, "3"), (OLD, "1")}
    assert told(comparison)["accelerators"][0].startswith(f"{NEW}: at least 3 emulated")
    html = write_brief(store, pdf=False).read_text("utf-8")
    assert 'id="capacity"' not in html
    assert 'id="power"' not in html
    assert len(tables_of(html, SECTION)) == 5  # no table of energy


def test_few_steps_bind_what_is_said_to_be_kept_busy(tmp_path: Path) -> None:
    """Check the caveat for few steps; long epochs make the same numbers certain."""
    store = build_training_store(tmp_path / "run", accelerators="[1, 3]", power=False)
    data = load_dataset([store])
    (section,) = compare(data).sections
    points = section.of_facet(section.facets()[0])
    assert all(kept.few_steps for kept in largest(compare(data), section, points, 90.0).values())
    for run in data.all_runs():
        flags = [flag for flag in run.record.flags if flag.kind != "few-steps"]
        run.record = run.record.model_copy(update={"flags": flags})
    found = largest(compare(data), section, points, 90.0)
    assert found
    assert not any(kept.few_steps for kept in found.values())


def test_a_sweep_tells_no_more_than_it_tried(tmp_path: Path) -> None:
    store = build_training_store(tmp_path / "run", accelerators="[1, 3]", power=False)
    data = load_dataset([store])
    for runs in (data.of(point, OLD) for point in data.points):
        for run in runs:
            if run.record.params["accelerators"] == 3:
                run.record = run.record.model_copy(update={"status": "failed"})
    for key in [key for key in data.runs if key[1] == NEW]:
        del data.runs[key]
    answer = told(compare(data))["accelerators"][0]
    assert f"{OLD}: 1 emulated accelerator kept at least 90 % busy" in answer  # three failed
    assert f"{NEW}: accelerators kept at least 90 % busy: {MISSING}" in answer
    point = next(p for p in data.points if p.params["accelerators"] == 3)
    del data.runs[point.key, OLD]
    answer = told(compare(data))["accelerators"][0]
    # Three were never tried.
    assert f"{OLD}: at least 1 emulated accelerator kept at least 90 % busy" in answer


def test_two_repeats_just_above_the_threshold_decide_nothing(tmp_path: Path) -> None:
    """Check that a sweep is judged by t-intervals, as a search is, not by the smaller repeat."""
    store = build_training_store(tmp_path / "run", accelerators="[1, 2]", repeats=2, power=False)
    data = load_dataset([store])
    for point in data.points:
        for target in (OLD, NEW):
            for run, percent in zip(data.of(point, target), (90.1, 92.0), strict=True):
                metrics = [
                    metric.model_copy(update={"value": percent})
                    if metric.name == "au_percent"
                    else metric
                    for metric in run.record.metrics
                ]
                run.record = run.record.model_copy(update={"metrics": metrics})
    comparison = compare(data)
    (section,) = comparison.sections
    points = section.of_facet(section.facets()[0])
    found = largest(comparison, section, points, 90.0)
    assert {kept.text for kept in found.values()} == {UNDECIDED}


def test_a_damaged_search_is_named(tmp_path: Path) -> None:
    store = build_training_store(
        tmp_path / "run", accelerators="1", repeats=1, power=False, capacity=True
    )
    (store.directory / "capacity.json").write_text('{"cases": 1}')
    with pytest.raises(ResultError, match=r"capacity\.json"):
        searches(compare(load_dataset([store])))


def test_a_cache_is_seen_in_the_bytes_of_the_device(tmp_path: Path) -> None:
    store = build_training_store(
        tmp_path / "run", accelerators="3", repeats=2, power=False, cached=0.7
    )
    comparison = compare(load_dataset([store]))
    (figure,) = draw("epoch_bytes", comparison, comparison.sections)
    shares = {(d["target"], d["epoch"]): d["text"] for d in figure.spec["datasets"]["epochs"]}
    assert shares[NEW, 1] == "100"
    assert shares[NEW, 3] == "30.0"
    html = write_brief(store, pdf=False).read_text("utf-8")
    assert 'id="mark-page-cache"' in html
    assert "in the whole run" not in html
    assert {f.rule for f in audit_results(store.directory)} >= {"page_cache", "few_steps"}


def figures_of(comparison: Comparison, kind: str) -> list[Figure]:
    found: list[Figure] = []
    for name in names_of(kind):
        sections = comparison.sections
        scopes = [[s] for s in sections] if FIGURES[name].scope == "section" else [sections]
        found += [figure for scope in scopes for figure in draw(name, comparison, scope)]
    return found


def test_specifications_are_valid_vega_lite(training_comparison: Comparison) -> None:
    figures = figures_of(training_comparison, "training")
    assert {figure.kind for figure in figures} == set(names_of("training"))
    check_figures(figures)


def check_figures(figures: list[Figure]) -> None:
    """Check that each figure is valid, can be rendered, and states a number."""
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert_vega_lite(figure.spec)
        assert all(len(row) == len(figure.columns) for row in figure.rows)
        assert any(character.isdigit() for character in figure.full_title)
        assert figure.point_ids
        assert "|" not in figure.title
        assert render(figure).startswith("<svg")


def test_published_claims_stand_beside_measured_ratios(training_made: Made) -> None:
    (table,) = tables_of(training_made.html, "published")
    row = table.at("throughput")
    assert row["as published"] == f"30% more than {OLD}"
    assert row["which is"] == "1.30×"
    (comparison,) = [compare(load_dataset([training_made.store]))]
    point = comparison.sections[0].points[-1]
    ratio = comparison.row(point).ratios[NEW]["throughput_mb_s.all"].interval.estimate
    assert row["measured here"] == f"{ratio:.2f}×"
    assert {r[1] for r in table.rows} == {"throughput", "throughput per watt"}


def test_the_terminal_says_the_same(
    training_made: Made, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlab.cli.terminal.out._width", 170)
    directory = str(training_made.store.directory)
    assert main(["compare", directory]) == 0
    text = capsys.readouterr().out
    assert format_number(mean(records_of(training_made.store, 4, OLD), "au_percent")) in text
    assert main(["compare", directory, "-m", "au_percent", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [column["key"] for column in data["columns"]] == ["au_percent.all"]


def test_the_brief_is_set_on_paper_too(training_made: Made) -> None:
    assert training_made.path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_the_answer_about_training(training_comparison: Comparison) -> None:
    found = told(training_comparison)
    assert list(found) == ["accelerators", "efficiency"]
    at = "unet3d-h100, 4 accelerators."
    assert found["accelerators"][:3] == [
        f"Micron 6550 ION: at least 3 emulated accelerators kept at least 90 % busy{FEW}; "
        f"Solidigm D5-P5336: 2 emulated accelerators kept at least 90 % busy{FEW}.",
        "Micron 6550 ION feeds accelerators 1.57 times as many samples per second as Solidigm "
        f"D5-P5336 (1.52 to 1.63) at {at}",
        "It is worse in mean power (at 4 of 4 points).",
    ]
