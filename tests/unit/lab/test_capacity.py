"""The capacity search for accelerators: its steps, verdicts and runs."""

from __future__ import annotations

import io
import json
import math
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from storlab.analysis.capacity import (
    MOST_BATCHES,
    Capacity,
    Case,
    Rule,
    Verdict,
    evaluate_searches,
    judge,
    next_number,
)
from storlab.base.errors import ResultError, StudyError, UsageError
from storlab.cli.main import main
from storlab.contracts.registry import FAMILIES, study_class
from storlab.engines.native.engine import NativeEngine
from storlab.lab.run.capacity import SearchSession, capacity_cases, search, write_capacity
from storlab.lab.run.progress import PlainReporter
from storlab.lab.study.file import LoadedStudy
from storlab.model.point import Point
from storlab.model.result import EngineInfo, Failure, Flag, Metric, RunRecord
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore
from support.fixed_work import DrillWorkload


@given(st.integers(0, 300), st.integers(1, 200))
def test_every_capacity_is_found_in_few_steps(capacity: int, largest: int) -> None:
    verdicts: dict[int, Verdict] = {}
    while (number := next_number(verdicts, largest)) is not None:
        assert 1 <= number <= largest
        assert number not in verdicts
        verdicts[number] = "kept" if number <= capacity else "not-kept"
    kept = max((n for n, verdict in verdicts.items() if verdict == "kept"), default=0)
    assert kept == min(capacity, largest)
    assert len(verdicts) <= 2 * math.ceil(math.log2(largest + 1)) + 2


@given(st.integers(0, 300), st.integers(1, 200), st.integers(0, 200))
def test_a_search_of_many_clients_begins_with_one_for_each(
    capacity: int, smallest: int, more: int
) -> None:
    largest = smallest + more
    verdicts: dict[int, Verdict] = {}
    while (number := next_number(verdicts, largest, smallest)) is not None:
        assert smallest <= number <= largest
        assert number not in verdicts
        verdicts[number] = "kept" if number <= capacity else "not-kept"
    kept = max((n for n, verdict in verdicts.items() if verdict == "kept"), default=0)
    assert kept == (min(capacity, largest) if capacity >= smallest else 0)
    assert min(verdicts) == smallest


def test_doubling_then_bisection() -> None:
    tried: dict[int, Verdict] = {}
    order = []
    while (number := next_number(tried, 1000)) is not None:
        order.append(number)
        tried[number] = "kept" if number <= 5 else "not-kept"
    assert order == [1, 2, 4, 8, 6, 5]


def test_a_number_that_cannot_be_decided_is_not_kept() -> None:
    assert next_number({1: "kept", 2: "within noise"}, 8) is None
    assert next_number({1: "kept", 2: "kept", 4: "failed"}, 8) == 3


def record(value: float | None, repeat: int = 1, flag: str | None = None) -> RunRecord:
    return RunRecord(
        run_id=f"p-r{repeat}",
        point_id="p",
        repeat=repeat,
        target="t",
        workload="w",
        kind="drill",
        params={"accelerators": 4, "extra": 0},
        status="failed" if value is None else "finished",
        failure=Failure(message="no memory") if value is None else None,
        engine=EngineInfo(name="native", version="0"),
        started_at="now",
        window_start_ns=0,
        window_end_ns=1,
        totals={},
        metrics=[] if value is None else [Metric(name="au_percent", value=value, unit="%")],
        flags=[Flag(kind=flag, message="")] if flag else [],
    )


def judged(*values: float | None) -> str | None:
    records = [record(value, repeat) for repeat, value in enumerate(values, 1)]
    return judge(4, records, Rule(90, 3), "au_percent").verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((95.0, 95.2, 95.1), "kept"),
        ((90.3, 90.3, 90.3), "kept"),
        ((90.0, 90.0, 90.0), None),  # at the threshold: equal values are exact only to their digits
        ((80.0, 80.2, 80.1), "not-kept"),
        ((89.7, 89.7, 89.7), "not-kept"),
        ((89.9, 89.9, 89.9), None),
        ((89.0, 90.0, 91.0), None),  # the interval contains the threshold: more runs
        ((95.0, 95.2), None),  # too few, whatever their values
        ((89.0, 90.0, 91.0) * MOST_BATCHES, "within noise"),
        ((95.0, None, 95.0), "failed"),
    ],
)
def test_verdicts(values: tuple[float | None, ...], verdict: str | None) -> None:
    assert judged(*values) == verdict


def test_no_interval_of_a_share_goes_above_all_of_it() -> None:
    records = [record(value, repeat) for repeat, value in enumerate((99.9, 97.0, 99.8), 1)]
    interval = judge(4, records, Rule(90, 3), "au_percent").interval
    assert interval is not None
    assert interval.high == 100


STUDY = """
[study]
name = "capacity"
[[target]]
name = "one"
directory = "{place}/one"
[[target]]
name = "two"
directory = "{place}/two"
[[workload]]
kind = "drill"
accelerators = [1, 7]
"""
FEEDS = {"one": 5, "two": 2}


def au(point: Point, repeat: int) -> float:
    return (95.0 if point.params["accelerators"] <= FEEDS[point.target] else 60.0) + repeat / 100


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> DrillWorkload:
    drill = DrillWorkload(au)
    monkeypatch.setitem(FAMILIES.loaded, "drill", drill)
    monkeypatch.setattr(NativeEngine, "kinds", ("block", "drill"))
    return drill


@pytest.fixture
def study(tmp_path: Path) -> LoadedStudy:
    for name in FEEDS:
        (tmp_path / name).mkdir()
    return load(tmp_path, STUDY)


def load(place: Path, text: str) -> LoadedStudy:
    text = text.format(place=place)
    return LoadedStudy(
        study_class().model_validate(tomllib.loads(text)), text, "0" * 64, place / "study.toml"
    )


def carry_out(
    of: LoadedStudy,
    out: Path,
    cases: list[Case],
    rule: Rule | None = None,
    stop: StopRequest | None = None,
) -> tuple[SearchSession, Capacity]:
    rule = rule or Rule(90, 2)

    def look(store: ResultStore | None) -> Capacity:
        found = evaluate_searches(cases, store.records() if store else [], rule)
        if store is not None:
            write_capacity(store, found.as_dict())
        return found

    session = search(
        of,
        out,
        lambda store: look(store).tries,
        reporter=lambda: PlainReporter(Console(file=io.StringIO(), width=200, markup=False)),
        stop=stop or StopRequest(),
    )
    return session, look(session.store)


def numbers(found: Capacity) -> dict[str, int]:
    return {
        case.case.point.target: case.as_dict()["accelerators_at_threshold"] for case in found.cases
    }


def test_each_target_is_searched_and_every_run_is_in_the_plan(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    session, found = carry_out(study, tmp_path / "out", capacity_cases(study))
    assert numbers(found) == FEEDS
    store = ResultStore.open(session.store.directory)
    store.check()
    assert store.missing() == []
    tried = {
        name: [t.number for t in case.tried] for name, case in zip(FEEDS, found.cases, strict=True)
    }
    assert tried == {"one": [1, 2, 4, 5, 6, 8], "two": [1, 2, 3, 4]}
    for case in found.cases:
        for each in case.tried:
            assert len(each.run_ids) == 2
            assert all(store.record(run_id).point_id == each.point_id for run_id in each.run_ids)
    # repeats are spread, and the targets alternate
    first = [store.plan.points[run.point_id].target for run in store.plan.runs[:4]]
    assert sorted(first[:2]) == sorted(first[2:]) == ["one", "two"]
    assert len(family.homes) > 2  # every round prepares, and finds existing data
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "out", "two"]
    assert list((tmp_path / "one").iterdir()) == []
    document = json.loads((tmp_path / "out" / "capacity.json").read_text())
    assert document["complete"] is True
    assert [case["first_not_kept"] for case in document["cases"]] == [6, 3]
    assert document == found.as_dict()


def test_a_search_goes_on_where_it_was_interrupted(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    stop = StopRequest()

    def stopping(point: Point, repeat: int) -> float:
        if len(family.runs) > 11:
            stop.ask()
        return au(point, repeat)

    family.au_of = stopping
    cases = capacity_cases(study, "one")
    session, found = carry_out(study, tmp_path / "out", cases, stop=stop)
    assert session.interrupted
    assert not found.as_dict()["complete"]
    done = len(session.store.records())
    family.au_of = au
    session, found = carry_out(study, tmp_path / "out", cases)
    assert not session.interrupted
    assert numbers(found) == {"one": 5}
    records = session.store.records()
    assert len(records) > done
    assert len({(r.params["accelerators"], r.repeat) for r in records}) == len(records)
    # a finished search runs nothing more, but can be queried for another threshold
    runs = len(family.runs)
    _, found = carry_out(study, tmp_path / "out", cases, Rule(99, 2))
    assert numbers(found) == {"one": 0}
    assert [n for _, n in family.runs[runs:] if n not in (1, 2, 4, 5, 6, 8)] == []
    assert len(session.store.records()) == len(records)


def test_another_study_is_not_gone_on_with(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    del family
    carry_out(study, tmp_path / "out", capacity_cases(study, "two"))
    other = load(tmp_path, STUDY.replace("capacity", "another"))
    with pytest.raises(ResultError, match="not contain a capacity search of this study"):
        carry_out(other, tmp_path / "out", capacity_cases(other))


def test_close_calls_get_more_runs(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    wobble: Callable[[Point, int], float] = lambda point, repeat: (  # noqa: E731
        au(point, 0) if point.params["accelerators"] != 2 else 90 + (5 if repeat % 2 else -5)
    )
    family.au_of = wobble
    _, found = carry_out(study, tmp_path / "out", capacity_cases(study, "one"))
    (case,) = found.cases
    two = next(tried for tried in case.tried if tried.number == 2)
    assert (two.verdict, len(two.run_ids)) == ("within noise", 2 * MOST_BATCHES)
    assert numbers(found) == {"one": 1}
    assert any("could not be decided" in note for note in case.notes())
    assert case.as_dict()["verdict"] == "within noise"


def test_the_workload_may_be_at_its_end_before_the_target(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    study = load(tmp_path, STUDY.replace("[1, 7]", "1"))
    family.most = 3
    cases = capacity_cases(study, "one")
    assert [case.largest for case in cases] == [3]
    _, found = carry_out(study, tmp_path / "out", cases)
    (case,) = found.cases
    assert numbers(found) == {"one": 3}
    assert case.as_dict()["is_lower_bound"]
    assert case.as_dict()["verdict"] == "at-least"
    assert any("the data set has files for 3" in note for note in case.notes())
    assert [case.limit for case in capacity_cases(study, "one", 2)] == [None]


def test_a_client_at_its_limit_is_said(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    family.flagged = {6: "client-bound", 5: "page-cache"}
    _, found = carry_out(study, tmp_path / "out", capacity_cases(study, "one"))
    text = "\n".join(found.cases[0].notes())
    assert "at 6 the client's CPU was at its limit" in text
    assert "page-cache" in text


def test_cores_that_were_not_the_runs_alone_are_said(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    family.flagged = {6: "starved"}
    _, found = carry_out(study, tmp_path / "out", capacity_cases(study, "one"))
    text = "\n".join(found.cases[0].notes())
    assert "at 6 other programs used the client's cores" in text


TRAINING = """
[study]
name = "capacity of clients"
[cluster]
hosts = ["localhost"]
clients = [1, 3]
[[target]]
name = "one"
directory = "{place}/one"
[[workload]]
kind = "training"
profile = "unet3d-small"
files = 12
batch_size = 1
computation_time = "5ms"
"""


def test_each_number_of_clients_is_a_search_that_begins_with_it(tmp_path: Path) -> None:
    single, three = capacity_cases(load(tmp_path, TRAINING))
    assert [case.point.clients for case in (single, three)] == [1, 3]
    assert [case.first.params["accelerators"] for case in (single, three)] == [1, 3]
    assert single.largest == three.largest == 12
    (case,) = evaluate_searches([three], [], Rule()).cases
    assert case.next is not None
    assert case.next.point.params["accelerators"] == 3
    assert case.as_dict()["clients"] == 3
    with pytest.raises(UsageError, match="less than one accelerator for each of 3 clients"):
        capacity_cases(load(tmp_path, TRAINING), most=2)


def test_no_more_are_tried_than_memory_has_buffers_for(tmp_path: Path) -> None:
    alone = TRAINING.replace('[cluster]\nhosts = ["localhost"]\nclients = [1, 3]\n', "")
    text = alone.replace("files = 12", "files = 100_000\nreader_threads = 64")
    (case,) = capacity_cases(load(tmp_path, text.replace("unet3d-small", "resnet50-h100")))
    assert 1 <= case.largest < 4096
    assert case.limit is not None
    assert "its buffers" in case.limit


def test_engines_that_do_not_divide_are_not_searched_on_clients(tmp_path: Path) -> None:
    text = TRAINING.replace("batch_size", 'engine = "dlio"\nbatch_size')
    with pytest.raises(StudyError, match="cannot divide training workloads among clients"):
        capacity_cases(load(tmp_path, text))


def test_what_a_search_of_many_clients_cannot_tell(tmp_path: Path) -> None:
    case = capacity_cases(load(tmp_path, TRAINING))[1]
    point = case.first
    failed = record(None).model_copy(
        update={"point_id": point.point_id, "params": point.params, "clients": 3}
    )
    (found,) = evaluate_searches([case], [failed], Rule()).cases
    assert found.as_dict()["accelerators_at_threshold"] == 0
    assert any("begins with 3, one for each" in note for note in found.notes())


def test_there_may_be_nothing_to_search_for(family: DrillWorkload, study: LoadedStudy) -> None:
    del family
    with pytest.raises(UsageError, match='"three" is not in the study'):
        capacity_cases(study, "three")
    text = STUDY.replace('kind = "drill"\naccelerators = [1, 7]', 'kind = "block"')
    text = text.replace("/one", "/one.dat").replace("/two", "/two.dat").replace("directory", "path")
    text = text.replace('.dat"', '.dat"\nsize = "1MiB"')
    with pytest.raises(UsageError, match=r"study\.toml: .*has no workload with accelerators"):
        capacity_cases(load(study.path.parent, text))


def test_the_verb(
    family: DrillWorkload,
    study: LoadedStudy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del family
    monkeypatch.setattr("storlab.lab.study.file.load_study", lambda _path: study)
    out = tmp_path / "out"
    arguments = ["capacity", str(study.path), "--repeats", "2", "--out", str(out)]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = {case["target"]: case["accelerators_at_threshold"] for case in report["cases"]}
    assert found == FEEDS
    assert report["exit_code"] == 0
    assert main([*arguments, "--quiet"]) == 0
    text = capsys.readouterr().out
    assert "5 accelerators at 90 % or more" in text
    assert "2 accelerators at 90 % or more" in text
    assert str(out) in text


def test_what_a_flag_advises_stands_beside_the_answer(
    family: DrillWorkload, study: LoadedStudy, tmp_path: Path
) -> None:
    family.flagged = {5: "few-steps"}
    _, found = carry_out(study, tmp_path / "out", capacity_cases(study, "one"))
    text = "\n".join(found.cases[0].notes())
    assert "flagged few-steps: utilisation leaves out the first step" in text
    assert "use a larger data set" in text
