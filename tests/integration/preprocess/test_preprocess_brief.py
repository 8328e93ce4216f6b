"""The brief of preprocessing: device saturation, waiting stages, and equal outputs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.brief.fixed_fixture import NEW, OLD
from integration.brief.kinds import draw, names_of
from integration.conftest import Made
from integration.object.test_object_brief import mean, tables_of
from integration.preprocess.preprocess_fixture import (
    DIRECTORIES,
    DISK,
    MEMORY,
    Behaviour,
    build_preprocess_store,
    digest,
)
from integration.training.test_training_brief import check_figures, figures_of
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.verdict import verdicts
from storlab.audit.from_results import audit_results
from storlab.base.units import format_number
from storlab.brief import write_brief
from storlab.brief.audit_input import audited
from storlab.brief.key_findings import key_findings
from storlab.cli import conclusion
from storlab.figures.figure import Figure
from storlab.model.point import Point
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.words.answers import sentences
from storlab.workloads.preprocess.outputs import outputs_of
from storlab.workloads.preprocess.saturation import saturations
from support.made_comparisons import findings_of, told

SECTION = "mix-criteo-to-split-binary-criteo-to-split-binary-native"
SMALL: dict[str, Any] = {"rows": "20_000_000", "part_size": "8MiB", "power": False}


def records_of(store: ResultStore, workers: int, target: str) -> list[RunRecord]:
    found = [r for r in store.records() if r.target == target]
    return [r for r in found if r.params["workers"] == workers]


def compared(store: ResultStore) -> Comparison:
    return compare(load_dataset([store]))


def drawn(comparison: Comparison, kind: str) -> list[Figure]:
    return draw(kind, comparison, comparison.sections)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u200b", "")


@pytest.fixture(scope="session")
def preprocess_comparison(preprocess_store: ResultStore) -> Comparison:
    return compared(preprocess_store)


def test_the_key_findings_say_where_the_device_saturates(preprocess_made: Made) -> None:
    html = plain(preprocess_made.html)
    findings = html[html.index('id="findings"') : html.index("</section>")]
    assert f"saturates in ingest at 16 workers and encode at 16 workers on {NEW}." in findings


def test_what_each_number_of_workers_brings_stands_in_a_table(preprocess_made: Made) -> None:
    table = tables_of(preprocess_made.html, "bottleneck")[0]
    single, eight, sixteen, most = (
        records_of(preprocess_made.store, workers, OLD) for workers in (1, 8, 16, 24)
    )
    row = table.at("16", OLD)
    assert row["all stages s"] == format_number(mean(sixteen, "completion_time_s"))
    assert row["on CPU %"] == format_number(mean(sixteen, "worker_busy_percent"))
    assert row["moved MB/s"] == format_number(mean(sixteen, "device_mb_s"))
    assert row["run Wh"] == format_number(mean(sixteen, "energy_wh"))
    faster = mean(single, "completion_time_s") / mean(sixteen, "completion_time_s")
    assert float(row["speed-up over 1 worker"].rstrip("×")) == pytest.approx(faster, rel=0.01)
    assert row["verdict"] == "the device saturates"
    assert table.at("24", OLD)["verdict"] == "no faster"
    assert table.at("8", OLD)["verdict"] == "CPU-bound"
    assert table.at("24", NEW)["verdict"] == "still faster"
    assert mean(eight, "completion_time_s") > 1.05 * mean(most, "completion_time_s")


def test_each_stage_has_its_own_verdict(preprocess_made: Made) -> None:
    table = tables_of(preprocess_made.html, "bottleneck")[1]
    assert table.at("ingest", OLD)["bottleneck"] == "the device, from 8 workers"
    assert table.at("vocabulary", NEW)["bottleneck"] == "the CPU"
    records = records_of(preprocess_made.store, 24, OLD)
    times = [r.metric("completion_time_s", "encode") for r in records]
    row = table.at("encode", OLD)
    assert row["time s"] == format_number(sum(t for t in times if t is not None) / 3)
    assert row["the device moved MB/s"] == format_number(
        sum(r.metric("device_mb_s", "encode") or 0 for r in records) / 3
    )


def test_rings_stand_where_devices_saturate(preprocess_comparison: Comparison) -> None:
    (time,) = drawn(preprocess_comparison, "preprocess_time")
    assert [(d["target"], d["x"]) for d in time.spec["datasets"]["rings"]] == [(OLD, "16")]
    assert f"{OLD}: the device saturates at 16 workers" in plain(time.title)
    raw, device = drawn(preprocess_comparison, "preprocess_throughput")
    assert "rings" not in raw.spec["datasets"]  # the place named in the title is another one's
    assert {d["target"] for d in device.spec["datasets"]["means"]} == {NEW, OLD}


def test_the_stages_show_how_much_workers_wait(preprocess_comparison: Comparison) -> None:
    (figure,) = drawn(preprocess_comparison, "preprocess_stages")
    parts = {(d["x"], d["target"], d["part"]): d for d in figure.spec["datasets"]["parts"]}
    on_cpu, waiting = (parts["ingest", OLD, f"workers {w}"] for w in ("on CPU", "waiting"))
    assert on_cpu["from"] == 0
    assert on_cpu["to"] == waiting["from"]
    section = preprocess_comparison.sections[0]
    cell = preprocess_comparison.row(section.points[-1]).cells[OLD]
    time = cell.values["completion_time_s.ingest"].estimate
    busy = cell.values["worker_busy_percent.ingest"].estimate
    assert waiting["to"] == pytest.approx(time, rel=1e-4)
    assert on_cpu["to"] == pytest.approx(time * busy / 100, rel=1e-4)
    assert on_cpu["shade"] > waiting["shade"]
    assert f"ingest on {OLD}" in figure.title


def test_energy_is_stacked_by_stage(preprocess_comparison: Comparison) -> None:
    (figure,) = drawn(preprocess_comparison, "preprocess_energy")
    parts = [d for d in figure.spec["datasets"]["parts"] if (d["x"], d["target"]) == ("24", OLD)]
    assert [d["part"] for d in parts] == ["ingest", "vocabulary", "encode"]
    (whole,) = [
        d for d in figure.spec["datasets"]["wholes"] if (d["x"], d["target"]) == ("24", OLD)
    ]
    assert parts[-1]["to"] == pytest.approx(whole["value"], rel=0.02)
    assert f"{OLD}’s energy is 2.34× {NEW}’s at 24 workers" in plain(figure.title)
    assert {len(row) for row in figure.rows} == {6}


def test_stages_too_short_for_the_meter_are_one_energy(tmp_path: Path) -> None:
    store = build_preprocess_store(
        tmp_path / "run", workers="[1, 8]", rows="4_000_000", part_size="8MiB"
    )
    (figure,) = drawn(compared(store), "preprocess_energy")
    parts = {(d["x"], d["part"]) for d in figure.spec["datasets"]["parts"]}
    assert ("8", "the whole run") in parts
    assert ("1", "ingest") in parts
    check_figures([figure])


def test_the_verdicts_are_in_the_data_of_the_brief(preprocess_made: Made) -> None:
    html = preprocess_made.html
    start = html.index('"saturation":')
    data = json.JSONDecoder().raw_decode(html[start + len('"saturation":') :])[0]
    verdicts = {(verdict["stage"], verdict["target"]): verdict for verdict in data}
    assert verdicts["all", OLD]["verdict"] == "device"
    assert verdicts["all", OLD]["workers"] == 16
    assert verdicts["ingest", NEW]["swept"] == [1, 4, 8, 16, 24]


def test_specifications_are_valid_vega_lite(preprocess_comparison: Comparison) -> None:
    figures = figures_of(preprocess_comparison, "preprocess")
    wanted = {"preprocess_time", "preprocess_stages", "preprocess_energy", "preprocess_throughput"}
    assert wanted <= {figure.kind for figure in figures} <= set(names_of("preprocess"))
    check_figures(figures)


def test_findings_begin_with_time_and_energy(preprocess_comparison: Comparison) -> None:
    first, second, *_ = findings_of(preprocess_comparison).values()
    assert (first.quantity, second.quantity) == ("completion_time_s.all", "energy_wh.all")
    assert all(finding.decision.better == "less" for finding in (first, second))
    assert all(finding.decision.ratio.estimate < 1 for finding in (first, second))


def test_equal_outputs_are_said_with_their_digests(preprocess_made: Made) -> None:
    (work,) = outputs_of(compared(preprocess_made.store))
    assert len(work.runs) == 30
    html = plain(preprocess_made.html)
    assert (
        f"all 30 runs gave the same output: 400,000,000 rows, rows digest "
        f"{work.output.rows_digest}, dictionary {work.output.dictionary_digest}"
    ) in html
    assert "<h3>Output of Criteo to split binary</h3>" in html
    assert not any(
        f.rule == "outputs_differ" for f in audit_results(preprocess_made.store.directory)
    )


def test_memory_is_bound_by_the_cpu_where_the_disk_saturates(tmp_path: Path) -> None:
    places = {DISK: DIRECTORIES[DISK], MEMORY: DIRECTORIES[MEMORY]}
    store = build_preprocess_store(tmp_path / "run", places=places, workers="[1, 2, 4, 8]", **SMALL)
    comparison = compared(store)
    (time,) = drawn(comparison, "preprocess_time")
    assert plain(time.title) == (
        f"Disk directory: the device saturates at 4 workers; {MEMORY}: CPU-bound at every "
        "number of workers"
    )
    assert drawn(comparison, "preprocess_energy") == []  # nothing without a meter
    _, device = drawn(comparison, "preprocess_throughput")
    assert {d["target"] for d in device.spec["datasets"]["means"]} == {DISK}


def test_a_serial_program_is_not_taken_for_a_slow_device(tmp_path: Path) -> None:
    slow = Behaviour(2_400.0, 900.0)
    places = {DISK: slow, MEMORY: replace(slow, has_device=False)}
    store = build_preprocess_store(tmp_path / "run", places=places, workers="[1, 4, 8]", **SMALL)
    comparison = compared(store)
    section = comparison.sections[0]
    found = saturations(comparison, section, section.facets()[0])
    assert {saturation.verdict for saturation in found} == {"waiting"}
    assert "rings" not in drawn(comparison, "preprocess_time")[0].spec["datasets"]


def test_parts_that_run_out_are_not_a_slow_device(tmp_path: Path) -> None:
    fast = {MEMORY: DIRECTORIES[MEMORY]}
    store = build_preprocess_store(
        tmp_path / "run", places=fast, workers="[1, 8, 16]", rows="20_000_000", power=False
    )
    comparison = compared(store)
    section = comparison.sections[0]
    (saturation,) = saturations(comparison, section, section.facets()[0])
    assert saturation.text == "too few parts for 16 workers"
    html = plain(write_brief(store, pdf=False).read_text("utf-8"))
    assert f"{MEMORY}: too few parts for 16 workers." in html  # also without a comparison


def test_one_number_of_workers_has_bars_and_no_verdict(tmp_path: Path) -> None:
    store = build_preprocess_store(tmp_path / "run", workers="8", repeats=1, **SMALL)
    comparison = compared(store)
    (bars,) = drawn(comparison, "preprocess_time")
    assert {d["x"] for d in bars.spec["datasets"]["bars"]} == {
        "of all stages", "ingest", "vocabulary", "encode",
    }  # fmt: skip
    check_figures(figures_of(comparison, "preprocess"))
    html = plain(write_brief(store, pdf=False).read_text("utf-8"))
    assert "only one number of workers was measured" in html


def test_single_runs_decide_nothing(tmp_path: Path) -> None:
    store = build_preprocess_store(tmp_path / "run", workers="[1, 8, 24]", repeats=1, **SMALL)
    html = plain(write_brief(store, pdf=False).read_text("utf-8"))
    assert f"{OLD}: the bottleneck is unknown, because single runs have no interval" in html


def wrong_encode(point: Point, details: dict[str, Any]) -> None:
    if point.target == NEW and point.params["workers"] == 8:
        output = details["output"]
        output["rows_digest"] = digest("wrong")
        output["columns"]["cat_3"] = digest("wrong column")


def test_runs_whose_outputs_differ_are_named_before_all_else(tmp_path: Path) -> None:
    store = build_preprocess_store(
        tmp_path / "run", workers="[4, 8]", repeats=2, change=wrong_encode, **SMALL
    )
    (work,) = outputs_of(compared(store))
    assert {difference.run.target for difference in work.different} == {NEW}
    (finding,) = [f for f in audit_results(store.directory) if f.rule == "outputs_differ"]
    assert finding.severity == "error"
    assert len(finding.rows) == 2
    html = plain(write_brief(store).read_text("utf-8"))  # it is written anyway
    first = html[html.index('<p class="stop">') :]
    assert first.startswith('<p class="stop">Outputs differ. Criteo to split binary: 2 of 8 runs')
    for run in finding.rows:
        assert run in first.split("</p>")[0]
    assert "1 of 40 columns" in first.split("</p>")[0]


def test_an_output_in_another_order_differs(tmp_path: Path) -> None:
    def shuffled(point: Point, details: dict[str, Any]) -> None:
        if point.params["workers"] == 8:
            details["output"]["columns"] = {
                name: digest(name) for name in details["output"]["columns"]
            }

    store = build_preprocess_store(
        tmp_path / "run", workers="[1, 4, 8]", repeats=1, change=shuffled, **SMALL
    )
    (work,) = outputs_of(compared(store))
    assert {difference.what for difference in work.different} == {
        ("40 of 40 columns in another order",)
    }


def test_outputs_of_other_semantics_are_not_compared(tmp_path: Path) -> None:
    store = build_preprocess_store(
        tmp_path / "run", workers="[1, 4]", repeats=1, more="threshold = [0, 15]", **SMALL
    )
    works = outputs_of(compared(store))
    assert [work.params["threshold"] for work in works] == [0, 15]
    assert not any(work.different for work in works)
    names = [plain(work.name) for work in works]  # distinguish them
    wanted = "Criteo to split binary, rows a category needs for an id of its own"
    assert names == [f"{wanted} 0", f"{wanted} 15"]


def test_the_same_rows_have_one_output_in_every_workload(tmp_path: Path) -> None:
    again = """
[[workload]]
kind = "preprocess"
name = "by polars"
rows = 20_000_000
workers = 4
part_size = "8MiB"
engine = "polars"
"""
    store = build_preprocess_store(
        tmp_path / "run", workers="8", repeats=1, more=again, change=wrong_encode, **SMALL
    )
    (work,) = outputs_of(compared(store))
    assert work.name == "Criteo to split binary and by polars"
    assert [difference.run.record.params["workers"] for difference in work.different] == [8]


def failed_alone(point: Point, details: dict[str, Any]) -> None:
    """Return one worker on one target whose time is unknown after an earlier process's part."""
    if (point.target, point.params["workers"]) == (NEW, 1):
        details["stages"][0]["resumed_parts"] = details["resumed_parts"] = 3


def test_a_resumed_repeat_stands_behind_no_finding_about_time(tmp_path: Path) -> None:
    resumed: list[Point] = []

    def resumed_once(point: Point, details: dict[str, Any]) -> None:
        if point.target == NEW and not resumed:
            resumed.append(point)
            details["stages"][0]["resumed_parts"] = details["resumed_parts"] = 5

    store = build_preprocess_store(
        tmp_path / "run", workers="8", change=resumed_once, **{**SMALL, "power": True}
    )
    comparison = compared(store)
    found = audited(comparison, key_findings(comparison))
    assert [f for f in found if f.severity == "error"] == []
    of_time = findings_of(comparison)["completion_time_s.all"]
    assert sum(map(len, of_time.decision.runs)) == 2 + 3
    assert "resumed" in of_time.beside
    assert write_brief(store, pdf=False).is_file()


def test_a_speed_up_is_over_the_number_of_workers_in_its_head(tmp_path: Path) -> None:
    store = build_preprocess_store(
        tmp_path / "run", workers="[1, 4, 8]", change=failed_alone, **SMALL
    )
    table = tables_of(write_brief(store, pdf=False).read_text("utf-8"), "bottleneck")[0]
    assert table.at("8", NEW)["speed-up over 1 worker"] == "–"
    assert table.at("8", OLD)["speed-up over 1 worker"] != "–"


def test_without_a_sweep_of_workers_nothing_is_said_of_saturation(tmp_path: Path) -> None:
    more = "threshold = [0, 15]"
    store = build_preprocess_store(tmp_path / "run", workers="8", repeats=1, more=more, **SMALL)
    html = plain(write_brief(store, pdf=False).read_text("utf-8"))
    assert "The number of workers is not swept" in html


def malformed(_point: Point, details: dict[str, Any]) -> None:
    details["malformed"] = {
        "count": 12,
        "by_reason": {"fields": 10, "label": 0, "integer": 0, "category": 2},
        "samples": [
            {
                "file": "/mnt/0/storlab-data/day_0",
                "line": 1_234 + number,
                "reason": "category" if number else "fields",
                "field": 18 if number else None,
                "text": '<script>alert("1")</script> & \\x09' + "z" * 150,
            }
            for number in range(12)
        ],
    }
    details["lines"] = details["rows"] + 12


def test_malformed_lines_are_shown_and_harmless(tmp_path: Path) -> None:
    store = build_preprocess_store(
        tmp_path / "run", workers="[1, 4]", repeats=2, more='malformed = "skip"',
        change=malformed, **SMALL,
    )  # fmt: skip
    path = write_brief(store)
    html = path.read_text("utf-8")
    assert '<script>alert("1")' not in html
    table = next(t for t in tables_of(html, "bottleneck") if t.caption.startswith("Malformed"))
    assert "12 of 20,000,012 (fields: 10, category: 2); the first 8" in table.caption
    assert len(table.rows) == 8
    row = table.at("/mnt/0/storlab-data/day_0", "1,235")
    assert row["field"] == "C4"
    assert row["text"].startswith('<script>alert("1")</script> & \\x09zzz')
    assert row["text"].endswith("z…")
    assert 'href="#mark-malformed-lines"' in html
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_no_words_of_windows_and_queues(preprocess_made: Made) -> None:
    text = preprocess_made.html
    text = text[text.index('<main class="wrap">') : text.index('id="audit"')]
    for word in ("Little’s law", "ffective concurrency", "steady", "Ramp (load"):
        assert word not in text


def test_the_section_has_the_runs_own_values(preprocess_made: Made) -> None:
    time, *_ = tables_of(preprocess_made.html, SECTION)
    records = records_of(preprocess_made.store, 8, NEW)
    assert time.at("8", NEW)["all stages s"] == format_number(mean(records, "completion_time_s"))


def test_targets_do_not_claim_direct_access(preprocess_made: Made) -> None:
    head = plain(preprocess_made.html)[: preprocess_made.html.index('id="findings"')]
    assert head.count("through the page cache") == 2
    assert "O_DIRECT" not in head


def test_the_brief_is_set_on_paper_too(preprocess_made: Made) -> None:
    assert preprocess_made.path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_the_answer_about_preprocessing(preprocess_comparison: Comparison) -> None:
    found = told(preprocess_comparison)
    assert list(found) == ["bottleneck", "efficiency"]
    assert found["bottleneck"][:2] == [
        "Micron 6550 ION: no limit reached at 24 workers, the most measured; Solidigm D5-P5336: "
        "the device saturates at 16 workers.",
        "Micron 6550 ION preprocesses the same rows 2.00 times as fast as Solidigm D5-P5336 "
        "(1.98 to 2.03) at 400,000,000 rows, 24 workers.",
    ]
    assert "preprocesses the same rows" not in " ".join(found["efficiency"])
    shown = conclusion.lines(verdicts(preprocess_comparison))
    assert shown == [
        found["bottleneck"][0],
        found["efficiency"][0],
        found["bottleneck"][1],
    ]


def test_the_first_screen_says_what_bounds_the_work(preprocess_made: Made) -> None:
    """Check that the first screen states the bottleneck and the comparison."""
    html = plain(preprocess_made.html)
    strip = html[html.index('<div class="tile') : html.index('class="targets"')]
    assert f'<span class="name">{OLD}</span>: the device saturates at 16 workers</p>' in strip
    assert (
        f'<span class="name">{NEW}</span>: no limit reached at 24 workers, the most measured</p>'
        in strip
    )
    assert "preprocesses the same rows 2.00 times" in html[: html.index(strip)]


def test_what_is_not_swept_has_no_bottleneck(tmp_path: Path) -> None:
    store = build_preprocess_store(tmp_path / "run", workers="[8]", **SMALL)
    (verdict,) = [v for v in verdicts(compared(store)) if v.question == "bottleneck"]
    assert sentences(verdict)[0] == (
        f"{NEW} and {OLD}: the bottleneck is unknown, because only one number of workers was "
        "measured."
    )


def test_work_per_terabyte_is_that_of_the_family(preprocess_made: Made) -> None:
    """Check that the density table equals the figure."""
    (table,) = tables_of(preprocess_made.html, "density")
    assert table.head[2:4] == ["rows per second 1/s/TB", "power W/TB"]
    row = table.at(OLD)
    records = records_of(preprocess_made.store, 24, OLD)
    rows_s_tb = mean(records, "rows_s") / 61.44
    assert float(row["rows per second 1/s/TB"].replace(",", "")) == pytest.approx(
        rows_s_tb, rel=0.01
    )
    assert "not declared" not in plain(preprocess_made.html)
    assert "Busiest means" not in preprocess_made.html
