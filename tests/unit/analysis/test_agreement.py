"""Verdicts on two engines, and the plan that runs them in turns."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from storlab._native import Histogram
from storlab.analysis.agreement import (
    Agreement,
    MetricAgreement,
    PointAgreement,
    _where,
    agreement,
)
from storlab.analysis.stats import ratio_interval
from storlab.base.errors import ExitCode, ResultError, UsageError
from storlab.cli.crosscheck import _advice, _exit_code, _headline, _table
from storlab.contracts.registry import FAMILIES, study_class
from storlab.lab.plan.crosscheck import crosscheck_plan, reference_of
from storlab.lab.plan.plan import make_plan
from storlab.lab.run.campaign import Summary
from storlab.lab.study.file import load_study
from storlab.model.decision import Interval, Outcome, equivalence
from storlab.model.point import Plan
from storlab.model.result import EngineInfo, Failure, Metric, RunRecord, Sample
from storlab.results.store import ResultStore

STUDY = """
[study]
name = "two engines"
repeats = 1
[[target]]
name = "nothing"
path = "null:"
[[workload]]
kind = "block"
block_size = ["4KiB", "256KiB"]
read_percent = 70
jobs = [1, 2]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return make_plan(load_study(path))


def interval(low: float, high: float) -> Interval:
    return Interval((low * high) ** 0.5, low, high, 5)


def test_utilisation_is_compared() -> None:
    """Check that utilisation, the main metric of training, is compared."""
    assert FAMILIES["training"].page.metrics.margins["au_percent"] == 0.05


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.99, 1.01, "equivalent"),
        (1.01, 1.04, "equivalent"),  # excludes 1, but within the margin: too small to matter
        (0.97, 1.20, "within noise"),  # contains 1, but the ratio itself is outside
        (0.80, 1.30, "within noise"),  # beyond the margin on both sides
        (0.20, 2.50, "too noisy"),
        (1.20, 1.40, "better"),
        (0.50, 0.60, "worse"),
    ],
)
def test_outcomes(low: float, high: float, outcome: str) -> None:
    found = interval(low, high)
    assert equivalence(found, found, 0.05) == outcome


def test_chance_findings_in_a_family_are_no_difference() -> None:
    found, family = interval(1.06, 1.30), interval(0.95, 1.45)
    assert equivalence(found, family, 0.05) == "within noise"


def test_one_repeat_decides_nothing() -> None:
    found = ratio_interval([100.0], [200.0])
    assert equivalence(found, found, 0.05) == "one run"


def test_margin_is_symmetric_in_the_ratio() -> None:
    for low, high in ((1.06, 1.30), (0.96, 1.2), (1.0, 1.04), (0.8, 1.3)):
        found, turned = interval(low, high), interval(1 / high, 1 / low)
        there, back = (equivalence(side, side, 0.05) for side in (found, turned))
        opposite = {"better": "worse", "worse": "better"}
        assert back == opposite.get(there, there)


def test_order_is_abba_and_points_differ_in_nothing_but_the_engine(plan: Plan) -> None:
    cross = crosscheck_plan(plan, "fio", 4)
    engines = [cross.points[run.point_id].engine for run in cross.runs]
    assert len(engines) == 4 * 4 * 2
    for first, second in zip(engines[::2], engines[1::2], strict=True):
        assert {first, second} == {"native", "fio"}
    assert engines[:8] == ["native", "fio", "fio", "native"] * 2
    assert engines[8:16] == ["fio", "native", "native", "fio"] * 2
    for run, other in zip(cross.runs[::2], cross.runs[1::2], strict=True):
        first, two = cross.points[run.point_id], cross.points[other.point_id]
        assert first.model_copy(update={"engine": two.engine}) == two
    assert [run.order for run in cross.runs] == list(range(32))
    assert len({run.run_id for run in cross.runs}) == 32


@pytest.mark.parametrize(
    ("wanted", "points"),
    [
        ([], 4),
        (["jobs=2"], 2),
        (["jobs=2,block_size=256KiB"], 1),
        (["block_size=4096"], 2),
        (["jobs=1", "jobs=2"], 4),
        (["target=nothing,read_percent=70"], 4),
    ],
)
def test_points_are_chosen_by_terms(plan: Plan, wanted: list[str], points: int) -> None:
    assert len(crosscheck_plan(plan, "fio", 2, wanted).points) == 2 * points


def test_a_point_is_chosen_by_its_id(plan: Plan) -> None:
    point_id = plan.runs[0].point_id
    cross = crosscheck_plan(plan, "fio", 2, [point_id[:8]])
    assert point_id in cross.points


@pytest.mark.parametrize("wish", ["jobs=3", "colour=red", "zzz"])
def test_a_wish_that_matches_nothing_is_named(plan: Plan, wish: str) -> None:
    with pytest.raises(UsageError, match=wish):
        crosscheck_plan(plan, "fio", 2, [wish])


CLICKS = """
[[target]]
name = "clicks"
directory = "."
size = "1GiB"
[[workload]]
kind = "preprocess"
rows = 1000
"""
STORE = """
[[target]]
name = "store"
s3 = "https://h.example/bucket"
[[workload]]
kind = "object"
objects = 10
concurrency = [1, 2]
"""


def planned(tmp_path: Path, text: str) -> Plan:
    path = tmp_path / "mixed.toml"
    path.write_text(text)
    return make_plan(load_study(path))


def test_the_reference_is_one_that_runs_the_family(tmp_path: Path, plan: Plan) -> None:
    assert reference_of(plan) == "fio"
    mixed = planned(tmp_path, STUDY + STORE)
    assert reference_of(mixed, ["target=nothing"]) == "fio"
    with pytest.raises(UsageError, match="block and object workloads") as caught:
        reference_of(mixed)
    assert "--reference fio" in caught.value.fix


def test_engines_that_are_measured_themselves_are_no_reference(tmp_path: Path) -> None:
    mixed = planned(tmp_path, STUDY + CLICKS)
    assert reference_of(mixed) == "fio"
    cross = crosscheck_plan(mixed, "fio", 2)
    assert {point.kind for point in cross.points.values()} == {"block"}
    assert "crosscheck: 1 points that fio cannot run are left out" in cross.notes
    for refused in (reference_of, lambda plan, wanted: crosscheck_plan(plan, "polars", 2, wanted)):
        with pytest.raises(UsageError, match="preprocess workloads measure the engines") as caught:
            refused(mixed, ["workload=preprocess"])
        assert caught.value.fix.endswith("lists them in implementation")


def test_points_that_the_reference_cannot_check_are_left_out_and_counted(tmp_path: Path) -> None:
    mixed = planned(tmp_path, STUDY + STORE)
    cross = crosscheck_plan(mixed, "fio", 2)
    assert {point.target for point in cross.points.values()} == {"nothing"}
    assert "crosscheck: 2 points that fio cannot run are left out" in cross.notes
    with pytest.raises(UsageError, match="of another kind"):
        crosscheck_plan(mixed, "fio", 2, ["target=store"])


def test_native_cannot_check_itself(plan: Plan) -> None:
    with pytest.raises(UsageError):
        crosscheck_plan(plan, "native", 2)


def filled(
    tmp_path: Path, plan: Plan, scale: dict[str, float], fail: str = "", spread: float = 0.01
) -> ResultStore:
    """Return a store of synthetic values: ``scale`` by engine, with a spread."""
    study = study_class().model_validate(tomllib.loads(STUDY))
    store = ResultStore.create(tmp_path / "result", STUDY, study, plan, {})
    for run in plan.runs:
        point = plan.points[run.point_id]
        value = 1000 * scale[point.engine] * (1 + spread * (run.repeat % 3 - 1))
        failed = point.engine == fail
        record = RunRecord(
            run_id=run.run_id,
            point_id=run.point_id,
            repeat=run.repeat,
            target=point.target,
            workload=point.workload,
            kind=point.kind,
            params=point.params,
            status="failed" if failed else "finished",
            failure=Failure(message="made up") if failed else None,
            engine=EngineInfo(name=point.engine, version="1"),
            started_at="2026-11-20T11:00:00+00:00",
            window_start_ns=0,
            window_end_ns=10**9,
            totals={},
            metrics=[]
            if failed
            else [
                Metric(name="throughput_mb_s", value=value, unit="MB/s"),
                Metric(name="latency_p99_ns", value=5e6 / value, unit="ns", operation="read"),
                Metric(name="latency_p99_ns", value=5e6 / value, unit="ns"),
                Metric(name="cpu_us_per_io", value=value, unit="us"),
            ],
        )
        histogram = Histogram()
        histogram.record(round(5e6 / value))
        sample = Sample(0, 0, 10**9, "read", 1, 4096, histogram.to_v2())
        store.write_run(record, [] if failed else [sample], {})
    return store


def test_equal_engines_agree(tmp_path: Path, plan: Plan) -> None:
    store = filled(tmp_path, crosscheck_plan(plan, "fio", 6), {"native": 1.0, "fio": 1.01})
    found = agreement(store)
    assert found.agree
    assert found.verdict == "agree"
    fields = found.as_dict()
    assert fields["agree"] is True
    assert len(fields["points"]) == 4
    metric = fields["points"][0]["metrics"][0]
    assert metric["quantity"] == "throughput_mb_s.all"
    assert metric["native"] == pytest.approx(1000, rel=0.01)
    assert metric["reference"] == pytest.approx(1010, rel=0.01)
    interval = metric["interval"]
    assert interval["estimate"] == pytest.approx(1 / 1.01, rel=0.01)
    assert interval["low"] < interval["estimate"] < interval["high"]
    assert metric["outcome"] == "equivalent"
    assert metric["verdict"] == "agree"
    names = {m["quantity"] for p in fields["points"] for m in p["metrics"]}
    assert "latency_p99_ns.all" not in names  # in a mix, operations are compared one by one


def test_different_engines_differ_and_cpu_is_not_judged(tmp_path: Path, plan: Plan) -> None:
    store = filled(tmp_path, crosscheck_plan(plan, "fio", 6), {"native": 1.5, "fio": 1.0})
    found = agreement(store)
    assert not found.agree
    verdicts = {m.name: m.verdict for p in found.points for m in p.metrics}
    assert verdicts["throughput_mb_s"] == "differ"
    assert verdicts["cpu_us_per_io"] == "reported"


def test_points_that_failed_do_not_agree(tmp_path: Path, plan: Plan) -> None:
    cross = crosscheck_plan(plan, "fio", 2)
    store = filled(tmp_path, cross, {"native": 1.0, "fio": 1.0}, fail="fio")
    found = agreement(store)
    assert not found.agree
    assert len(found.points[0].failed) == 2


def test_a_campaign_of_one_engine_is_no_crosscheck(tmp_path: Path, plan: Plan) -> None:
    store = filled(tmp_path, plan, {"native": 1.0})
    with pytest.raises(ResultError, match="crosscheck"):
        agreement(store)


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("1", 4.0, "4.00"),
        ("1", 3.89, "3.89"),
        ("IOPS", 3.89, "3.89 IOPS"),
        ("ns", 2000.0, "2.00 µs"),
    ],
)
def test_a_number_without_a_unit_is_printed_without_one(unit: str, value: float, text: str) -> None:
    interval = Interval(1.0, 1.0, 1.0, 5)
    metric = compared("equivalent", interval, unit=unit, value=value)
    point = PointAgreement("t", "w", "jobs 4", {}, "a", "b", [metric], [], [])
    table = _table(point, "fio")
    assert list(table.columns[1].cells) == list(table.columns[2].cells) == [text]


OUTCOMES: dict[str, Outcome] = {
    "agree": "equivalent", "differ": "better", "inconclusive": "within noise",
}  # fmt: skip


def compared(
    outcome: Outcome, interval: Interval, unit: str = "1/s", value: float = 1.0
) -> MetricAgreement:
    return MetricAgreement(
        quantity="iops.all", sides=("native", "fio"), outcome=outcome, interval=interval,
        unit=unit, native=value, reference=value, margin=0.05,
    )  # fmt: skip


def judged(verdicts: list[str], ratio: float = 1.0) -> PointAgreement:
    interval = Interval(ratio, 0.5, 2.0, 5)
    metrics = [compared(OUTCOMES[verdict], interval) for verdict in verdicts]
    return PointAgreement("t", "w", "jobs 4", {}, "a", "b", metrics, [], [])


@pytest.mark.parametrize(
    ("verdicts", "verdict", "code"),
    [
        (["inconclusive"] * 11, "inconclusive", ExitCode.INCONCLUSIVE),
        (["agree", *["inconclusive"] * 22], "inconclusive", ExitCode.INCONCLUSIVE),
        (["agree", "inconclusive"], "inconclusive", ExitCode.INCONCLUSIVE),
        (["agree", "agree", "inconclusive"], "agree", ExitCode.OK),
        (["agree"] * 22 + ["differ"], "differ", ExitCode.DISAGREE),
        ([], "inconclusive", ExitCode.INCONCLUSIVE),
    ],
)
def test_three_verdicts_have_three_codes(verdicts: list[str], verdict: str, code: ExitCode) -> None:
    found = Agreement("fio", [judged(verdicts, 1.51)], 0.95, 0.99)
    assert found.verdict == verdict
    assert found.agree is (verdict == "agree")
    assert _exit_code(found, Summary(Path("r"), 1)) == int(code)
    words = {"agree": "fio agree", "differ": "DO NOT AGREE", "inconclusive": "TO TELL"}
    assert words[verdict] in _headline(found)


def test_the_repeats_that_are_missing_are_told(tmp_path: Path, plan: Plan) -> None:
    """Check that undecided metrics are not called agreement, and missing repeats are named."""
    cross = crosscheck_plan(plan, "fio", 3, ["jobs=1,block_size=4KiB"])
    store = filled(tmp_path, cross, {"native": 1.64, "fio": 1.0}, spread=0.3)
    found = agreement(store)
    assert found.verdict == "inconclusive"
    assert found.needed is not None and found.needed > 3
    assert found.as_dict()["repeats_to_decide"] == found.needed
    assert found.as_dict()["points"][0]["repeats_to_decide"] == found.needed
    more = found.needed - 3
    assert _advice(found) == (
        f"about {more} more repeats of each engine would decide it, if they spread as these did: "
        f"--repeats {found.needed}"
    )
    enough = crosscheck_plan(plan, "fio", found.needed, ["jobs=1,block_size=4KiB"])
    again = agreement(filled(tmp_path / "b", enough, {"native": 1.64, "fio": 1.0}, spread=0.3))
    assert again.verdict == "differ"
    assert _advice(again) == ""


def test_failed_runs_tell_no_number(tmp_path: Path, plan: Plan) -> None:
    cross = crosscheck_plan(plan, "fio", 2)
    found = agreement(filled(tmp_path, cross, {"native": 1.0, "fio": 1.0}, fail="fio"))
    assert found.needed is None
    assert "two finished runs" in _advice(found)


def test_one_undecided_point_leaves_the_whole_undecided() -> None:
    points = [judged(["agree"] * 3), judged(["inconclusive"] * 3)]
    found = Agreement("fio", points, 0.95, 0.99)
    assert found.verdict == "inconclusive"
    assert "at 1 of 2 points" in _headline(found)


def test_clients_of_a_cluster_are_an_axis(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY + '[cluster]\nhosts = ["localhost"]\nclients = [1, 2]\n')
    plan = make_plan(load_study(path))
    cross = crosscheck_plan(plan, "fio", 2, ["clients=2,jobs=1"])
    assert len(cross.points) == 2 * 2
    assert {point.clients for point in cross.points.values()} == {2}
    for nothing in ("clients=3", "target=no", ""):
        with pytest.raises(UsageError, match="--point"):
            crosscheck_plan(plan, "fio", 2, [nothing])
    titles = {_where(point, cross.points.values()) for point in cross.points.values()}
    assert len(titles) == 2 and all("2\u00a0clients" in title for title in titles)
