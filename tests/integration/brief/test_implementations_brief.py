"""The brief of several preprocessing implementations: one table, relative to native."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.brief.fixed_fixture import NEW, OLD
from integration.conftest import Made
from integration.object.test_object_brief import mean, tables_of
from integration.preprocess.preprocess_fixture import SSDS, build_preprocess_store
from storlab.analysis import digits
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.implementations import shared_works
from storlab.analysis.stats import ratio_interval
from storlab.base.units import format_number
from storlab.brief import write_brief
from storlab.brief.implementations import implementations
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.preprocess.findings import bottlenecks

THREE = 'implementation = ["polars", "native", "pandas"]'
SMALL: dict[str, Any] = {"rows": "20_000_000", "part_size": "8MiB", "power": False}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    directory = tmp_path_factory.mktemp("implementations") / "run"
    store = build_preprocess_store(directory, workers="[1, 8]", more=THREE, **SMALL)
    return Made(store, write_brief(store))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u200b", "")


def compared(store: ResultStore) -> Comparison:
    return compare(load_dataset([store]))


def of(store: ResultStore, implementation: str, workers: int, target: str) -> list[RunRecord]:
    wanted = (implementation, workers, target)
    return [
        r
        for r in store.records()
        if (r.params["implementation"], r.params["workers"], r.target) == wanted
    ]


def times(records: list[RunRecord]) -> list[float]:
    found = [record.metric("completion_time_s") for record in records]
    return [value for value in found if value is not None]


def test_implementations_stand_in_one_table_with_their_ratios(made: Made) -> None:
    (table,) = tables_of(made.html, "implementations")
    assert len(table.rows) == 3 * 2 * 2
    polars, native = (of(made.store, name, 8, OLD) for name in ("polars", "native"))
    row = table.at("8 workers", "polars", OLD)
    assert row["completion time s"] == format_number(mean(polars, "completion_time_s"))
    assert row["rows per CPU second 1/s"] == format_number(mean(polars, "rows_s_per_core"))
    assert row["CPU per GB s/GB"] == format_number(mean(polars, "cpu_s_per_gb"))
    assert row["peak memory MB"] == format_number(mean(polars, "peak_memory_mb"))
    ratio = ratio_interval(times(polars), times(native))
    assert row["time over native"] == digits.times(ratio.estimate)
    assert row["CPU over native"] == "3.50×"
    assert table.at("8 workers", "native", OLD)["time over native"] == "–"
    assert digits.ends_text(ratio) in plain(made.html)


def test_every_number_leads_to_its_runs(made: Made) -> None:
    section = made.html[made.html.index('id="implementations"') :]
    section = section[: section.index("</section>")]
    linked = set(re.findall(r'href="#(?:point-)?([^"]+)"', section))
    points = {record.point_id for record in made.store.records()}
    assert points == {point for point in points if any(point in link for link in linked)}


def test_the_key_findings_and_the_data_of_the_brief_have_them(made: Made) -> None:
    (sentence,) = implementations(compared(made.store))
    assert sentence.startswith("20,000,000\u00a0rows, 8\u00a0workers: polars took ")
    assert f"the CPU of native on {NEW}, " in sentence
    findings = plain(made.html[made.html.index('id="findings"') :])
    assert plain(sentence) in findings
    start = made.html.index('"implementations":') + len('"implementations":')
    data = json.JSONDecoder().raw_decode(made.html[start:])[0]
    assert len(data) == 2 * 2 * 2  # two others, two worker counts, two targets
    assert {row["reference"] for row in data} == {"native"}
    assert made.path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_names_of_figures_say_workload_and_engine_once(made: Made) -> None:
    names = sorted(path.name for path in (made.path.parent / "figures").glob("*.light.svg"))
    assert len({name.partition(".")[0] for name in names}) == len(names) > 12
    assert all(name.count("criteo-to-split-binary") == 1 for name in names)
    for engine in ("native", "pandas", "polars"):
        own = [name for name in names if engine in name]
        assert len(own) == len(names) / 3
        assert all(name.count(engine) == 1 for name in own)


def test_without_native_the_first_is_the_reference(tmp_path: Path) -> None:
    store = build_preprocess_store(
        tmp_path / "run", workers="8", more='implementation = ["pandas", "polars"]', **SMALL
    )
    (work,) = shared_works(compared(store))
    assert work.reference == "pandas"
    (table,) = tables_of(write_brief(store, pdf=False).read_text("utf-8"), "implementations")
    (verdict,) = bottlenecks(compared(store))  # one sentence if it applies to both
    assert plain(verdict).startswith("Pandas, 20,000,000 rows; polars, 20,000,000 rows, by workers")
    assert table.at("polars", NEW)["CPU over pandas"] == "0.875×"  # 3.5 / 4


def test_only_work_that_several_did_is_compared(tmp_path: Path) -> None:
    two = """
[[workload]]
kind = "preprocess"
name = "Criteo to split binary"
rows = 20_000_000
workers = [8, 16]
part_size = "8MiB"
memory = "16GiB"
engine = "polars"
"""
    store = build_preprocess_store(tmp_path / "run", workers="[1, 8]", more=two, **SMALL)
    (work,) = shared_works(compared(store))  # an engine counts like an implementation
    assert work.where == "20,000,000\u00a0rows, 8\u00a0workers"
    assert set(work.points) == {"native", "polars"}


def test_one_implementation_has_no_such_section(tmp_path: Path) -> None:
    places = {NEW: replace(SSDS[NEW], noise=0.0)}
    store = build_preprocess_store(tmp_path / "run", workers="8", places=places, **SMALL)
    assert shared_works(compared(store)) == []
    assert 'id="implementations"' not in write_brief(store, pdf=False).read_text("utf-8")
