"""Import of the results that warp prints, in the forms of its versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.warp import summary as warp_summary
from storlab.engines.warp import text_output
from storlab.engines.warp.importer import WarpImport
from storlab.exchange.importer import import_files
from storlab.model.result import RunRecord

GOLDEN = Path(__file__).parents[3] / "golden" / "warp"

SINGLE_NEW = """\
Report: GET. Concurrency: 32. Ran: 57s
 * Average: 1000.00 MiB/s, 250.00 obj/s
 * Reqs: Avg: 120.5ms, 50%: 110.0ms, 90%: 150.0ms, 99%: 300.5ms, Fastest: 1.5ms, Slowest: 1.25s, \
StdDev: 9.0ms
 * TTFB: Avg: 23ms, Best: 1ms, 25th: 12ms, Median: 18ms, 75th: 26ms, 90th: 39ms, 99th: 114ms, \
Worst: 165ms StdDev: 20ms

Throughput, split into 57 x 1s:
 * Fastest: 1100.0MiB/s, 275.00 obj/s
 * 50% Median: 1000.0MiB/s, 250.00 obj/s
 * Slowest: 900.0MiB/s, 225.00 obj/s
"""
MIXED_OLD = """\
$ warp mixed --host s3.example:9000 --secret-key SECRET --concurrent=20 --obj.size 10MiB
warp: Benchmark data written to "warp-mixed-2023-10-16[102354]-l70a.csv.zst"
Mixed operations.
Operation: DELETE, 10%, Concurrency: 20, Ran 4m59s.
 * Throughput: 6.20 obj/s

Operation: GET, 45%, Concurrency: 20, Ran 5m0s.
 * Throughput: 280.00 MiB/s, 28.00 obj/s
Errors: 3

Operation: PUT, 15%, Concurrency: 20, Ran 5m0s.
 * Throughput: 90.00 MiB/s, 9.00 obj/s

Operation: STAT, 30%, Concurrency: 20, Ran 5m0s.
 * Throughput: 18.60 obj/s

Cluster Total: 370.00 MiB/s, 61.80 obj/s, 0 errors over 5m0s.
"""
SINGLE_OLD = """\

----------------------------------------
Operation: PUT (1000). Ran 10s. Size: 1048576 bytes. Concurrency: 8.
* Average: 100.00 MiB/s, 100.00 obj/s (10s)

----------------------------------------
Operation: GET (60000). Ran 1m0s. Size: 1048576 bytes. Concurrency: 8. Hosts: 2.
Errors: 12
First Errors:
 * connection reset

Requests considered: 59990:
 * Avg: 7ms, 50%: 6ms, 90%: 9ms, 99%: 21ms, Fastest: 1ms, Slowest: 504ms, StdDev: 2ms
 * TTFB: Avg: 3ms, Best: 1ms, 25th: 3ms, Median: 3ms, 75th: 3ms, 90th: 4ms, 99th: 8ms, Worst: 504ms
 * First Access: Avg: 9ms, 50%: 9ms, 90%: 9ms, 99%: 9ms, Fastest: 9ms, Slowest: 9ms, StdDev: 9ms

Throughput:
* Average: 1000.00 MiB/s, 1000.00 obj/s (59.9s)

Throughput by host:
 * http://127.0.0.1:9001:
\t- Average:  500.00 MiB/s, 500.00 obj/s

Throughput, split into 59 x 1s:
 * Fastest: 1048.0MiB/s, 1048.00 obj/s (1s, starting 12:44:38 CET)
"""


def records(tmp_path: Path, *texts: str) -> list[RunRecord]:
    paths = []
    for index, text in enumerate(texts):
        paths.append(tmp_path / f"{index}.txt")
        paths[-1].write_text(text)
    return list(import_files(paths, tmp_path / "result").records())


@pytest.mark.parametrize("name", ["get", "mix50", "mix90"])
def test_printed_rates_are_those_of_the_json(name: str) -> None:
    (summary,) = text_output.read_text((GOLDEN / f"{name}_4m_minio.analysis.txt").read_text())
    from storlab.engines.warp import records as warp_records

    data = warp_records.unpacked((GOLDEN / f"{name}_4m_minio.benchdata.json.zst").read_bytes())
    recorded = warp_summary.read_summary(data.decode())
    assert summary.operations.keys() == recorded.operations.keys()
    for kind, printed in summary.operations.items():
        other = recorded.operations[kind]
        assert printed.throughput_bytes_s == pytest.approx(other.throughput_bytes_s, abs=6000)
        assert (printed.size, printed.concurrency) == (4 << 20, 16)
        assert printed.pieces[0].p99_ns == pytest.approx(other.pieces[0].p99_ns, abs=6e4)
        assert printed.has_percentiles  # the run is shorter than one period


def test_means_of_percentiles_are_named_but_not_imported(tmp_path: Path) -> None:
    (run,) = records(tmp_path, SINGLE_NEW)
    totals = run.totals["get"]
    assert (totals.operations, totals.bytes) == (250 * 57, 250 * 57 * (4 << 20))
    assert run.metric("throughput_mb_s", "get") == pytest.approx(1048.576)
    assert run.metric("latency_mean_ns", "get") == 120.5e6
    assert run.metric("latency_max_ns", "get") == 1.25e9
    assert run.metric("latency_p99_ns", "get") is None
    assert run.metric("ttfb_p99_ns", "get") is None
    assert any("300 ms" in note or "301 ms" in note for note in run.notes)
    assert run.params["object_size"] == 4 << 20
    assert run.params["concurrency"] == 32


def test_the_mixed_form_of_older_versions(tmp_path: Path) -> None:
    (run,) = records(tmp_path, MIXED_OLD)
    assert run.totals["get"].operations == 28 * 300
    assert run.totals["get"].bytes == 28 * 300 * (10 << 20)
    assert sum(run.totals["get"].errors.values()) == 3
    assert run.totals["head"].operations == round(18.6 * 300)
    mix = [run.params[f"{kind}_percent"] for kind in ("get", "head", "delete")]
    assert mix == [45, 30, 10]
    assert run.target == "s3.example:9000/warp-benchmark-bucket"
    assert run.started_at.startswith("2023-10-16T10:23:54")
    assert not any("SECRET" in note for note in run.notes)


def test_preparation_and_errors_in_the_single_form_of_older_versions(tmp_path: Path) -> None:
    (run,) = records(tmp_path, SINGLE_OLD)
    assert set(run.totals) == {"get"}
    window_ns = run.window_end_ns - run.window_start_ns
    assert window_ns == 59e9
    assert run.totals["get"].operations == 59_000  # rates of these versions exclude failures
    assert sum(run.totals["get"].errors.values()) == 12
    assert run.metric("latency_p99_ns", "get") == 21e6
    assert run.metric("ttfb_p99_ns", "get") == 8e6
    assert any("1 ms" in note for note in run.notes)
    assert any("prepared the run" in note for note in run.notes)


def test_credentials_of_printed_command_lines_are_not_kept(tmp_path: Path) -> None:
    text = MIXED_OLD.replace("$ ", "$ WARP_ACCESS_KEY='a SECRET' ") + "# --secret-key=SECRET\n"
    assert "SECRET" not in WarpImport().cleaned(text)
    records(tmp_path, text)
    for file in (tmp_path / "result").rglob("*"):
        assert not file.is_file() or b"SECRET" not in file.read_bytes()


def test_several_runs_in_one_text(tmp_path: Path) -> None:
    command = "warp get --host=a:9000 --obj.size=4MiB --concurrent=32 \\\n  --objects=100\n"
    text = f"{command}{SINGLE_NEW}\x1b[32mdone\x1b[0m\n{command}{SINGLE_NEW}"
    runs = records(tmp_path, text)
    assert [run.repeat for run in runs] == [1, 2]
    assert runs[0].params["objects"] == 100
    assert runs[0].target == "a:9000/warp-benchmark-bucket"


@pytest.mark.parametrize(
    ("rates", "size"),
    [
        ("94.10 MiB/s, 9.41 obj/s", 10 << 20),
        ("137.08 MiB/s, 143.73 obj/s", 1_000_000),
        ("0.93 MiB/s, 975.72 obj/s", 1000),
        ("4557.04 MiB/s, 2604.96 obj/s", None),
    ],
)
def test_the_object_size_follows_from_the_rates(rates: str, size: int | None) -> None:
    text = f"Report: PUT. Concurrency: 8. Ran: 57s\n * Average: {rates}\n"
    (summary,) = text_output.read_text(text)
    read = summary.operations["put"].size
    assert read == size


def old_json(**changes: Any) -> dict[str, Any]:
    operation = {
        "type": "GET",
        "n": 6000,
        "skipped": False,
        "errors": 0,
        "first_errors": None,
        "concurrency": 8,
        "objects_per_operation": 1,
        "host_names": ["http://a:9000"],
        "start_time": "2023-01-02T03:04:05Z",
        "end_time": "2023-01-02T03:05:05Z",
        "throughput": {
            "measure_duration_millis": 59000,
            "bytes": 5900 << 20,
            "objects": 5900.0,
            "ops": 5900,
            "errors": 0,
        },
        "single_sized_requests": {
            "obj_size": 1 << 20,
            "requests": 5990,
            "dur_avg_millis": 70,
            "dur_median_millis": 60,
            "dur_90_millis": 90,
            "dur_99_millis": 210,
            "fastest_millis": 1,
            "slowest_millis": 504,
            "std_dev_millis": 2,
        },
    }
    return {"type": "single", "operations": [operation | changes], "mixed": False}


def test_the_json_of_older_versions(tmp_path: Path) -> None:
    text = json.dumps(old_json(), indent=2)
    assert WarpImport().matches(text)
    (run,) = records(tmp_path, text)
    assert (run.totals["get"].operations, run.totals["get"].bytes) == (5900, 5900 << 20)
    assert run.metric("throughput_mb_s", "get") == pytest.approx(104.8576)
    assert run.metric("latency_p99_ns", "get") == 210e6
    assert run.params["object_size"] == 1 << 20
    assert run.target == "a:9000/warp-benchmark-bucket"
    assert run.started_at.startswith("2023-01-02T03:04:05")


def test_an_operation_that_warp_skipped_is_named(tmp_path: Path) -> None:
    document = old_json()
    document["operations"].append({**document["operations"][0], "type": "PUT", "skipped": True})
    (run,) = records(tmp_path, json.dumps(document))
    assert any("no results of PUT" in note for note in run.notes)
    text = SINGLE_NEW + "\nSkipping PUT too few samples. Longer benchmark run required.\n"
    (summary,) = text_output.read_text(text)
    assert any("no results of PUT" in note for note in summary.notes)
