"""Several result directories in one brief: unique ids, equal work, and differences."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.merge_directories import differences, work_of
from storlab.base.errors import ExitCode
from storlab.brief.build import _title, build_brief
from storlab.brief.html import render_html
from storlab.brief.pdf import render_pdf
from storlab.cli.main import main
from storlab.model.point import Point
from storlab.results.store import ResultStore

PARAMS = {"block_size": 4096, "read_percent": 100, "jobs": 1}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[ResultStore]:
    """Provide one study run twice: the same points with the same ids."""
    place = tmp_path_factory.mktemp("several")
    return [
        build_store(place / "old", mixes=(70,), repeats=2, seed=1),
        build_store(place / "new", mixes=(70,), repeats=3, seed=2),
    ]


def test_each_run_of_two_campaigns_has_its_own_place_and_links(two: list[ResultStore]) -> None:
    first, second = two
    beside = first.directory.parent / "together"
    brief = build_brief(first, [second], beside=beside)
    assert brief.head.title == first.study.study.name  # one study, run twice
    page = render_html(brief, "figures/")
    ids = Counter(re.findall(r' id="([^"]+)"', page))
    assert [name for name, count in ids.items() if count > 1] == []
    links = re.findall(r' href="([^"]+)run.json"', page)
    assert len(links) == len(set(links)) == len(first.records()) + len(second.records())
    beside.mkdir()
    assert all((beside / link).resolve().is_dir() for link in links)
    assert {card.label for card in brief.targets} == {
        "Disk (old)", "Memory (old)", "Disk (new)", "Memory (new)",
    }  # fmt: skip
    anchors = set(ids)
    targets = set(re.findall(r' href="#([^"]+)"', page))
    assert targets <= anchors
    assert brief.head.plan_hash == f"{first.plan.plan_hash}, {second.plan.plan_hash}"
    assert [table.heading for table in brief.reference.configuration][:2] == [
        "Study in old",
        "Study in new",
    ]
    assert render_pdf(brief).startswith(b"%PDF")


def test_names_of_several_studies_are_quoted() -> None:
    stores: Any = [
        SimpleNamespace(study=SimpleNamespace(study=SimpleNamespace(name=name)))
        for name in ("Which one?", "The other", "Which one?")
    ]
    assert _title(stores) == "“Which one?” and “The other”"
    assert _title(stores[:1]) == "Which one?"


def test_what_differs_is_said_once_and_first(two: list[ResultStore]) -> None:
    told = differences(two, ["old", "new"])
    assert told == [
        "These are 2 campaigns whose runs were not interleaved: a difference between them may come "
        "from the time, the machine or the set-up.",
        "Repeats: 2 in old, 3 in new.",
    ]
    assert differences(two[:1], ["old"]) == []
    brief = build_brief(two[0], two[1:], beside=two[0].directory)
    assert brief.summary.differing == told
    assert not set(told) & set(brief.findings.caveats)
    head = render_html(brief, "figures/").partition('<ul class="targets"')[0]
    assert " ".join(told) in head


def of(name: str, engine: str, workload: str, **more: Any) -> ResultStore:
    """Provide a directory with one point, with its own name and engine."""
    points = [
        Point(
            target="t",
            workload=workload,
            workload_index=0,
            kind="block",
            engine=engine,
            params={**PARAMS, **extra},
        )
        for extra in more.get("also", [{}])
    ]
    records = [
        SimpleNamespace(
            started_at=more.get("day", "2026-11-20") + "T10:00:00",
            engine=SimpleNamespace(name=engine, version=more.get("version", "1")),
            status="finished",
            window_start_ns=0,
            window_end_ns=more.get("window_s", 60) * 10**9,
        )
    ]
    plan = SimpleNamespace(
        points={point.point_id: point for point in points}, runs=[SimpleNamespace(repeat=1)]
    )
    environment = more.get("environment", {})
    made = SimpleNamespace(
        plan=plan, records=lambda: records, environment=environment, directory=Path(name)
    )
    return cast(ResultStore, made)


def test_equal_work_meets_whatever_tool_did_it() -> None:
    new, old = of("new", "native", "random reads"), of("old", "fio", "job1")
    keys = {work.key for work in work_of([new, old]).points.values()}
    (key,) = keys
    assert json.loads(key)[:3] == ["random reads", "block", "native and fio"]


def test_work_that_one_directory_has_twice_stays_apart() -> None:
    both = of("both", "native", "w")
    other = next(iter(both.plan.points.values())).model_copy(update={"engine": "fio"})
    both.plan.points[other.point_id] = other
    old = of("old", "fio", "w")
    assert len({work.key for work in work_of([both, old]).points.values()}) == 2


def test_environments_engines_and_windows_that_differ_are_named() -> None:
    machine = {"host": "a", "kernel": "6.1", "cpu": {"model": "X"}, "guard": {"x": 1}}
    other = {"host": "b", "kernel": "6.1", "cpu": {"model": "Y"}, "guard": {"x": 2}}
    stores = [
        of("new", "native", "w", environment=machine, version="0.9"),
        of("newer", "native", "w", environment=other, version="0.9", day="2026-11-21"),
        of(
            "old", "fio", "w", environment={"imported": {}}, version="3.33", day="2023-01-02",
            window_s=30,
        ),
    ]  # fmt: skip
    assert differences(stores, ["new", "newer", "old"])[1:] == [
        "Measured: 2026-11-20 in new, 2026-11-21 in newer, 2023-01-02 in old.",
        "Engine: native 0.9 in new and newer, fio 3.33 in old.",
        "Measure window: 60 s in new and newer, 30 s in old.",
        "Host, kernel and drives of old are unknown, because it was imported.",
        "Host: a in new, b in newer.",
        "CPU model: X in new, Y in newer.",
    ]


def test_the_verb_writes_one_brief_into_a_directory(
    two: list[ResultStore], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(store.directory) for store in two]
    assert main(["report", *places, "--no-pdf"]) == ExitCode.USAGE
    assert "--out DIR" in capsys.readouterr().err
    out = tmp_path / "together"
    assert main(["report", *places, "--no-pdf", "--out", str(out)]) == ExitCode.OK
    assert (out / "brief.html").is_file()
    assert str(out / "brief.html") in capsys.readouterr().out
    assert not (two[0].directory / "brief.html").exists()


def test_a_comparison_of_one_directory_keeps_its_ids(two: list[ResultStore]) -> None:
    alone = compare(load_dataset(two[:1]))
    ids = {c.point_id for row in alone.rows.values() for c in row.cells.values()}
    assert ids == set(two[0].plan.points)
