"""`storlab export --format fio-json` followed by `storlab import` keeps the numbers."""

from __future__ import annotations

import json
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storlab._native import Histogram
from storlab.contracts.registry import FAMILIES, study_class
from storlab.engines.fio.exporter import FioJsonExport
from storlab.exchange.importer import import_files
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    LatencySummary,
    OperationTotals,
    RunOutcome,
    RunRecord,
    Sample,
)
from storlab.model.samples import summarise_latency
from storlab.results.store import ResultStore

GOLDEN = Path(__file__).parents[2] / "golden" / "fio"
bins = st.dictionaries(st.integers(500, 10**10), st.integers(1, 10**5), min_size=1, max_size=20)
fields = st.fixed_dictionaries(
    {"access": st.sampled_from(["random", "sequential"])},
    optional={
        "block_size": st.sampled_from([4096, 262_144, {"4KiB": 70.0, "64KiB": 30.0}]),
        "read_percent": st.sampled_from([0.0, 30.0, 70.0, 100.0]),
        "queue_depth": st.integers(1, 64),
        "jobs": st.integers(1, 16),
        "batch": st.integers(1, 8),
    },
)
sweeps = st.fixed_dictionaries(
    {"offsets": st.permutations(["uniform", "zipf", "hot_cold", "permutation"])},
    optional={
        "access": st.just(["random", "sequential"]),
        "zipf_theta": st.just(0.9),
        "hot_space_percent": st.just(20),
        "sync": st.just("fsync"),
        "read_percent": st.permutations([0, 50, 100]),
        "region_start": st.just("25%"),
        "region_size": st.just("50%"),
        "rate_iops": st.just([500, 1000]),
        "cpus": st.just([0, 1]),
        "total_bytes": st.just("1GiB"),
        "compress_percent": st.just([0, 50]),
        "drain_timeout": st.just("5s"),
    },
)


def make_store(
    directory: Path, params: dict[str, Any], which: int = 0
) -> tuple[ResultStore, Point]:
    text = '[study]\nname = "s"\n[[target]]\nname = "a: disk"\npaths = ["/x/a:1", "/x/b"]\n'
    text += 'capacity = "3.84TB"\nprice = 900\ncurrency = "EUR"\nrack_units = 0.5\n'
    text += "[[workload]]\n" + "".join(
        f"{k} = {_toml(v)}\n" for k, v in {"kind": "block", **params}.items()
    )
    study = study_class().model_validate(tomllib.loads(text))
    values = study.workload[0].values()
    point = Point(
        target="a: disk",
        workload="block",
        workload_index=0,
        kind="block",
        engine="native",
        params=values[which % len(values)],
    )
    plan = Plan(
        study_name="s",
        study_sha256="0" * 64,
        points={point.point_id: point},
        runs=[PlannedRun(order=0, repeat=1, point_id=point.point_id)],
        estimated_ns=0,
        bytes_written=0,
    )
    return ResultStore.create(directory, text, study, plan, {}), point


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{k}" = {v}' for k, v in value.items()) + " }"
    return json.dumps(value)


def write(
    store: ResultStore,
    point: Point,
    kinds: dict[Any, dict[int, int]],
    window_ns: int,
    cpu_ns: int,
    late: int = 0,
    early: int = 0,
) -> RunRecord:
    """Write a run; ``late`` operations ended after the window, ``early`` were due before it."""
    samples: list[Sample] = []
    totals: dict[Any, OperationTotals] = {}
    for kind, found in kinds.items():
        whole = Histogram()
        for part, (value, count) in enumerate(found.items()):
            histogram = Histogram()
            histogram.record(value, count)
            whole.add(histogram)
            samples.append(Sample(part, 5 + part, 6 + part, kind, count, 4096, histogram.to_v2()))
        summary: LatencySummary = summarise_latency(whole.to_v2())
        totals[kind] = OperationTotals(
            operations=whole.count - late + early,
            bytes=4096 * whole.count,
            late_operations=late,
            unfinished_operations=2 * late,
            unfinished_longest_ns=1000 * late,
            latency=summary,
        )
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="9", backend="uring"),
        window_start_ns=123_456_789,
        window_end_ns=123_456_789 + window_ns,
        samples=samples,
        totals=totals,
        cpu=CpuUse(user_ns=cpu_ns // 3, system_ns=cpu_ns, cores=2, worker_ns=cpu_ns),
    )
    record = RunRecord(
        run_id=f"{point.point_id}-r1",
        point_id=point.point_id,
        repeat=1,
        target=point.target,
        workload=point.workload,
        kind=point.kind,
        params=point.params,
        status="finished",
        engine=outcome.engine,
        started_at="2026-11-20T11:00:00.000+00:00",
        window_start_ns=outcome.window_start_ns,
        window_end_ns=outcome.window_end_ns,
        totals=totals,
        cpu=outcome.cpu,
        concurrency=FAMILIES["block"].concurrency(point, outcome),
        metrics=FAMILIES["block"].metrics(point, outcome),
    )
    return store.write_run(record, samples, {})


def numbers(record: RunRecord) -> dict[tuple[str, str], float]:
    """Return values without densities, which the exported run does not have."""
    dense = re.compile(r"_(tb|ru|kmoney)$")
    return {(m.name, m.operation): m.value for m in record.metrics if not dense.search(m.name)}


@settings(max_examples=10)
@given(
    fields,
    st.dictionaries(st.sampled_from(["read", "write"]), bins, min_size=1),
    st.integers(10**6, 10**13),
    st.integers(0, 10**13),
)
def test_numbers_and_identity_survive(
    params: dict[str, Any], kinds: dict[str, dict[int, int]], window_ns: int, cpu_ns: int
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        store, point = make_store(Path(scratch) / "a", params)
        before = write(store, point, kinds, window_ns, cpu_ns)
        path = Path(scratch) / "export.json"
        path.write_bytes(FioJsonExport().content(store, samples=False))
        again = import_files([path], Path(scratch) / "b")
        after = again.records()[0]
        assert numbers(after) == pytest.approx(numbers(before), rel=1e-9)
        assert after.totals == before.totals
        assert (after.point_id, after.params) == (before.point_id, before.params)
        assert again.study.target[0].locations == store.study.target[0].locations
        assert (after.engine, after.started_at) == (before.engine, before.started_at)
        assert after.window_end_ns - after.window_start_ns == window_ns


@settings(max_examples=40)
@given(sweeps, st.integers(0, 100), st.integers(0, 3))
def test_a_point_of_a_sweep_reads_back_as_itself(
    params: dict[str, Any], which: int, early: int
) -> None:
    writes = {"sync_every": 4, "read_percent": [0, 50]} if "sync" in params else {}
    with tempfile.TemporaryDirectory() as scratch:
        store, point = make_store(Path(scratch) / "a", {**writes, **params}, which)
        before = write(store, point, {"read": {1000: 5}}, 10**9, 10**6, 2, early)
        path = Path(scratch) / "export.json"
        path.write_bytes(FioJsonExport().content(store, samples=False))
        again = import_files([path], Path(scratch) / "b")
        after = again.records()[0]
        assert (after.point_id, after.params) == (before.point_id, before.params)
        assert after.totals == before.totals
        assert numbers(after) == pytest.approx(numbers(before), rel=1e-9)
        was, now = store.study.target[0], again.study.target[0]
        assert (now.capacity, now.price, now.currency) == (was.capacity, was.price, "EUR")
        whole = after.metric("throughput_mb_s")
        assert whole is not None
        assert after.metric("throughput_mb_s_tb") == pytest.approx(whole / 3.84, rel=1e-9)
        assert after.metric("capacity_tb_ru") == pytest.approx(3.84 / 0.5)


def test_an_imported_run_with_options_that_have_no_field_reads_back(tmp_path: Path) -> None:
    """Check that options without a field survive, and distinguish repeats."""
    document = json.loads((GOLDEN / "group-3.33.json").read_text())
    for job in document["jobs"]:
        job["job options"] |= {"rate": "40m", "thinktime": "1ms"}
    path, export = tmp_path / "fio.json", tmp_path / "export.json"
    path.write_text(json.dumps(document))
    store = import_files([path], tmp_path / "a")
    before = store.records()[0]
    assert before.params["fio_options"]["rate"] == "40m"
    export.write_bytes(FioJsonExport().content(store, samples=False))
    after = import_files([export], tmp_path / "b").records()[0]
    assert (after.point_id, after.params) == (before.point_id, before.params)


@settings(max_examples=6)
@given(st.dictionaries(st.sampled_from(["read", "write"]), bins, min_size=1), st.integers(1, 10**4))
def test_fio_sections_alone_carry_the_numbers(
    kinds: dict[str, dict[int, int]], window_ms: int
) -> None:
    # A share of reads far from the configured one would be taken for merged sections.
    done = {kind: sum(counts.values()) for kind, counts in kinds.items()}
    share = 100 * done.get("read", 0) / max(1, sum(done.values()))
    with tempfile.TemporaryDirectory() as scratch:
        store, point = make_store(Path(scratch) / "a", {"read_percent": share})
        before = write(store, point, kinds, window_ms * 10**6, 10**9)
        document = json.loads(FioJsonExport().content(store, samples=False))
        del document["jobs"][0]["storlab"]
        document["fio version"] = "fio-3.33"
        path = Path(scratch) / "export.json"
        path.write_text(json.dumps(document))
        after = import_files([path], Path(scratch) / "b").records()[0]
        assert numbers(after) == pytest.approx(numbers(before), rel=1e-9)
        assert after.totals == before.totals
