"""fio's JSON, recorded from fio 3.33 and 3.42 (tests/golden/fio), as storlab parses it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.fio import result as fio_result
from storlab.engines.fio import series as fio_series
from storlab.engines.fio.failure import Ended, explain
from storlab.engines.fio.result import Direction, Figures, FioFormatError, Latency
from storlab.engines.fio.series import Status
from storlab.model.job import Member, WeightedSize
from storlab.workloads.block.job import BlockJob, Mix, Offsets

GOLDEN = Path(__file__).parents[3] / "golden" / "fio"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text()


def last_document(name: str) -> dict[str, Any]:
    return fio_result.split_output(golden(name)).documents[-1]


@pytest.mark.parametrize("name", ["group-3.33.json", "group-3.42.json"])
def test_grouped_jsonplus(name: str) -> None:
    figures = fio_result.merge(fio_result.read_document(last_document(name)))
    section = last_document(name)["jobs"][0]["read"]
    read = figures.directions["read"]
    assert read.operations == section["lat_ns"]["N"]
    assert read.bytes == section["io_bytes"] == read.operations * 256 * 1024
    assert read.latency is not None
    assert read.latency.source == "lat"
    assert sum(read.latency.bins.values()) == read.operations
    totals = fio_result.totals(figures)["read"]
    assert totals.latency is not None
    assert totals.latency.mean_ns == section["lat_ns"]["mean"]
    for percent, value in (("50.000000", "p50_ns"), ("99.000000", "p99_ns")):
        given = section["lat_ns"]["percentile"][percent]
        assert getattr(totals.latency, value) == pytest.approx(given, rel=0.02)


def test_group_reporting_sums_threads_so_cpu_is_of_the_sum() -> None:
    document = last_document("group-3.33.json")
    job = document["jobs"][0]
    figures = fio_result.read_job(job)
    assert figures.job_runtime_ms > 1.5 * figures.runtime_ms  # two threads
    spent_ms = job["sys_cpu"] / 100 * job["job_runtime"]
    assert figures.system_ns == pytest.approx(spent_ms * 1e6)


def test_note_before_the_json_survives() -> None:
    output = fio_result.split_output(golden("warning-3.33.json"))
    assert len(output.notes) == 1
    assert "queue depth will be capped" in output.notes[0]
    assert json.loads(output.texts[-1]) == output.documents[-1]


def test_clones_without_group_reporting_are_merged() -> None:
    document = last_document("plain-3.33.json")
    parts = fio_result.read_document(document)
    assert len(parts) == 2
    merged = fio_result.merge(parts)
    read = merged.directions["read"]
    assert read.operations == sum(p.directions["read"].operations for p in parts)
    assert read.latency is not None
    assert read.latency.upper_bounds  # percentiles are never averaged
    for percent, bound in read.latency.percentiles.items():
        own = [p.directions["read"].latency.percentiles[percent] for p in parts]
        assert min(own) <= bound <= max(own)
    means = [job["read"]["lat_ns"]["mean"] for job in document["jobs"]]
    assert min(means) <= read.latency.mean_ns <= max(means)


def test_bins_of_clones_add_up() -> None:
    (part,) = fio_result.read_document(last_document("group-3.33.json"))
    one, two = (fio_result.merge([part] * n).directions["read"].latency for n in (1, 2))
    assert one is not None
    assert two is not None
    assert two.bins == {middle: 2 * count for middle, count in one.bins.items()}


def test_clat_is_taken_only_where_there_is_nothing_better() -> None:
    read = fio_result.read_document(last_document("clat-3.33.json"))[0].directions["read"]
    assert read.latency is not None
    assert read.latency.source == "clat"
    assert read.latency.bins


def test_status_documents_become_intervals() -> None:
    output = fio_result.split_output(golden("status-3.42.txt"))
    assert len(output.documents) > 4
    statuses = [
        Status(d["timestamp_ms"], fio_result.merge(fio_result.read_document(d)))
        for d in output.documents
    ]
    start_ms = fio_series.window_start_ms(statuses)
    samples = fio_series.samples(statuses, start_ms * 10**6, 0, 250_000_000)
    final = statuses[-1].figures
    read = final.directions["read"]
    assert len(samples) >= 3
    assert samples[0].start_ns == start_ms * 10**6
    assert [s.end_ns for s in samples[:-1]] == [s.start_ns for s in samples[1:]]
    assert samples[-1].end_ns - samples[0].start_ns == final.runtime_ms * 10**6
    assert sum(s.operations for s in samples) == read.operations
    assert sum(s.bytes for s in samples) == read.bytes
    assert all(30 <= s.operations * 1e9 / (s.end_ns - s.start_ns) <= 80 for s in samples)


def test_failing_run_names_errno_operation_and_offset() -> None:
    text = golden("failed-3.33.json")
    output = fio_result.split_output(text)
    job = BlockJob(
        members=[Member(path="/dev/loop9", name="the disk", kind="block_device", size=1 << 25)],
        jobs=1,
        queue_depth=4,
        mix=Mix(read=100, write=0),
        block_sizes=[WeightedSize(bytes=1 << 18)],
        offsets=Offsets(kind="uniform"),
        window_bytes=1 << 25,
    )
    failure = explain(job, Ended(2, output, None, text, ""))
    assert failure is not None
    assert (failure.errno, failure.errno_name) == (5, "EIO")
    assert (failure.operation, failure.path) == ("read", "the disk")
    assert failure.offset == 24641536
    assert "Input/output error" in failure.message


def direction(bins: dict[int, int]) -> Direction:
    count = sum(bins.values())
    latency = Latency("lat", count, 1.0, min(bins), max(bins), 0.0, {}, bins)
    return Direction(count, count, count * 4096, 0, latency)


def status(at_ms: int, runtime_ms: int, bins: dict[int, int], **changes: Any) -> Status:
    found = direction(bins) if bins else Direction(9, 9, 9, runtime_ms, None)
    found.runtime_ms = runtime_ms
    fields = {"user_ns": 0.0, "system_ns": 0.0, "job_runtime_ms": 0, "error": 0, **changes}
    return Status(at_ms, Figures({"read": found}, job_start_ms=None, **fields))


def test_ramp_documents_are_no_part_of_the_window() -> None:
    statuses = [
        status(1000, 900, {}),  # the ramp: operations counted, no latencies
        status(2500, 500, {100: 10}),
        status(3000, 1000, {100: 15, 200: 5}),
    ]
    assert fio_series.window_start_ms(statuses) == 2000
    samples = fio_series.samples(statuses, 2000 * 10**6, 0, 500 * 10**6)
    assert [s.operations for s in samples] == [10, 10]


def test_a_short_rest_joins_the_interval_before() -> None:
    statuses = [status(1500, 500, {100: 10}), status(2000, 1000, {100: 20})]
    statuses.append(status(2013, 1013, {100: 21}))
    samples = fio_series.samples(statuses, 1000 * 10**6, 0, 500 * 10**6)
    assert [s.operations for s in samples] == [10, 11]
    assert samples[-1].end_ns == 2013 * 10**6


def test_late_documents_do_not_move_the_windows_start() -> None:
    statuses = [status(1502, 500, {100: 10}), status(2240, 1000, {100: 20})]
    assert fio_series.window_start_ms(statuses) == 1002


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("no json at all\n", "JSON"),
        ('{"fio version": "fio-3.33", "jobs": [', "JSON"),
        ('{"jobs": []}', "fio version"),
        ('{"fio version": "fio-2.21", "jobs": [{}]}', "jobs[0].read"),
        ('{"fio version": "fio-3.33", "jobs": []}', "jobs"),
        ('{"fio version": "fio-3.33", "jobs": [{"jobname": "a"}]}', "jobs[0].read"),
    ],
)
def test_the_field_that_is_wrong_is_named(text: str, field: str) -> None:
    with pytest.raises(FioFormatError) as caught:
        fio_result.read_document(fio_result.split_output(text).documents[-1])
    assert caught.value.field == field


def test_reads_and_writes_that_fio_told_as_one_are_refused_as_such() -> None:
    """Check the refusal of ``unified_rw_reporting`` 1 and ``both``."""
    document = copy.deepcopy(last_document("group-3.33.json"))
    job = document["jobs"][0]
    expected = fio_result.read_job(job).directions
    job["mixed"] = job["read"]
    assert fio_result.read_job(job).directions == expected
    for operation in ("read", "write", "trim", "sync"):
        job.pop(operation, None)
    with pytest.raises(FioFormatError, match=r"jobs\[0\]\.mixed"):
        fio_result.read_document(document)


@pytest.mark.parametrize("bad", ["many", None, True, float("nan"), -1, 10**30])
def test_a_value_that_is_no_number_is_named(bad: object) -> None:
    document = copy.deepcopy(last_document("group-3.33.json"))
    document["jobs"][0]["write"]["io_bytes"] = bad
    with pytest.raises(FioFormatError, match=r"jobs\[0\]\.write\.io_bytes"):
        fio_result.read_document(document)


def test_cpu_of_a_run_with_ramp_is_scaled_only_when_it_spans_the_ramp() -> None:
    assert fio_result.window_share(8000, 8000) == 1
    assert fio_result.window_share(8100, 8000) == 1
    assert fio_result.window_share(12000, 8000) == pytest.approx(2 / 3)
