"""Import of warp's aggregated JSON, built here from the definition of its fields.

warp 1.1 and newer write it: ``by_op_type`` has one aggregate per kind of operation, whose requests
are summarised for each client and 10 s.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.cli.main import main
from storlab.engines.warp import summary as warp_summary
from storlab.engines.warp.importer_options import Seen, fields
from storlab.exchange.importer import import_files
from storlab.model.result import Operation, RunRecord

MIXED = "warp mixed --host=s3:9000 --bucket=b --concurrent=8 --obj.size=1MiB --duration=1m0s"
PUT = "warp put --host=s3:9000 --bucket=b --concurrent=8 --obj.size=512B --duration=1m0s"


def single(requests: int, size: int, mean_ms: float = 10.0) -> dict[str, Any]:
    times = {"dur_avg_millis": mean_ms, "dur_median_millis": mean_ms, "dur_90_millis": 2 * mean_ms}
    times |= {"dur_99_millis": 3 * mean_ms, "fastest_millis": 1.0, "slowest_millis": 4 * mean_ms}
    times |= {"std_dev_millis": 1.0, "obj_size": size, "requests": requests, "merged_entries": 1}
    return {"single_sized_requests": times}


def several(*ranges: tuple[int, int, float]) -> dict[str, Any]:
    """Return a segment with requests, average size and mean latency (ms) by range of sizes."""
    by_size = [
        {"requests": n, "avg_obj_size": size, "avg_duration_millis": mean_ms, "merged_entries": 1}
        for n, size, mean_ms in ranges
    ]
    requests = sum(n for n, _, _ in ranges)
    return {"multi_sized_requests": {"by_size": by_size, "requests": requests}}


def aggregate(
    requests: int, total: int, segments: list[dict[str, Any]], errors: int = 0
) -> dict[str, Any]:
    return {
        "total_requests": requests,
        "total_objects": requests,
        "total_errors": errors,
        "total_bytes": total,
        "concurrency": 8,
        "start_time": "2026-11-20T10:00:00Z",
        "end_time": "2026-11-20T10:01:00Z",
        "first_errors": ["connection reset"] if errors else None,
        "hosts": ["http://s3:9000"],
        "throughput": {"measure_duration_millis": 56000, "bytes": total, "ops": requests},
        "requests_by_client": {"AbCd": segments},
    }


def written(path: Path, command: str, kinds: dict[str, dict[str, Any]]) -> Path:
    document = {"v": 2, "commandline": command, "final": True, "total": {}, "by_op_type": kinds}
    path.write_text(json.dumps(document))
    return path


def mixed(path: Path, counts: dict[str, int], command: str = MIXED) -> Path:
    moved = {"GET": 1 << 20, "PUT": 1 << 20}
    kinds = {
        kind: aggregate(n, n * moved.get(kind, 0), [single(n, moved.get(kind, 0))])
        for kind, n in counts.items()
    }
    return written(path, command, kinds)


def records(tmp_path: Path, *paths: Path) -> list[RunRecord]:
    return list(import_files(list(paths), tmp_path / "result").records())


def test_runs_of_the_same_mix_are_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = mixed(tmp_path / "1.json", {"GET": 4503, "PUT": 1499, "STAT": 2998, "DELETE": 1000})
    second = mixed(tmp_path / "2.json", {"GET": 5398, "PUT": 1801, "STAT": 3601, "DELETE": 1200})
    runs = records(tmp_path, first, second)
    assert [run.repeat for run in runs] == [1, 2]
    for run in runs:
        mix = [run.params[f"{kind}_percent"] for kind in ("get", "head", "delete")]
        assert mix == [45, 30, 10]
        assert not any("configured" in note for note in run.notes)
    assert main(["compare", str(tmp_path / "result")]) == 0
    assert "45/15/30/10 GET/PUT/HEAD/DELETE" in capsys.readouterr().out


def counted(**requests: int) -> Seen:
    names: dict[str, Operation] = {"get": "get", "put": "put", "head": "head", "delete": "delete"}
    kinds = {names[kind]: n for kind, n in requests.items()}
    return Seen(requests=kinds, sizes={1000: 1}, workers=8, keys_per_delete=1, tls=False)


def mix_of(flags: dict[str, str], seen: Seen) -> tuple[dict[str, float], list[str]]:
    asked, notes = fields(flags, seen)
    mix = {k.removesuffix("_percent"): v for k, v in asked.items() if k.endswith("_percent")}
    return mix, [note for note in notes if "mix of requests" in note]


@pytest.mark.parametrize(
    ("flags", "seen", "expected", "noted"),
    [
        # options that are not given have warp's defaults, also beside given ones
        ({"": "mixed"}, counted(get=450, put=150, head=300, delete=100), (45, 30, 10), False),
        (
            {"": "mixed", "get-distrib": "145"},
            counted(get=725, put=75, head=150, delete=50),
            (72.5, 15, 5),
            False,
        ),
        # what was counted differs from what was asked for
        ({"": "mixed"}, counted(get=600, put=100, head=200, delete=100), (45, 30, 10), True),
        # no command line: the default if the counts fit it, else whole percentages
        ({}, counted(get=4530, put=1490, head=2985, delete=995), (45, 30, 10), True),
        ({}, counted(get=70_312, put=29_688), (70, 0, 0), True),
        ({}, counted(get=9_990, delete=10), (99.9, 0, 0.1), True),
        ({"": "get"}, counted(get=17), (100, 0, 0), False),
    ],
)
def test_a_mix_is_the_configured_one(
    flags: dict[str, str], seen: Seen, expected: tuple[float, float, float], noted: bool
) -> None:
    mix, notes = mix_of(flags, seen)
    assert tuple(mix.get(kind, 0.0) for kind in ("get", "head", "delete")) == expected
    assert bool(notes) == noted


def test_failed_requests_belong_to_the_mix(tmp_path: Path) -> None:
    path = mixed(tmp_path / "1.json", {"GET": 7000, "PUT": 3000}, MIXED.replace("mixed", "fanout"))
    document = json.loads(path.read_text())
    document["by_op_type"]["GET"]["total_errors"] = 3500
    path.write_text(json.dumps(document))
    (run,) = records(tmp_path, path)
    assert run.params["get_percent"] == 70
    assert run.totals["get"].operations == 3500


def test_failed_uploads_are_subtracted_once(tmp_path: Path) -> None:
    """Check a put benchmark, which records failed uploads with size 0, as its first request."""
    segments = [single(500, 512), single(400, 512), single(100, 0)]
    path = written(tmp_path / "1.json", PUT, {"PUT": aggregate(1000, 900 * 512, segments, 100)})
    (run,) = records(tmp_path, path)
    assert (run.totals["put"].operations, run.totals["put"].bytes) == (900, 900 * 512)
    assert sum(run.totals["put"].errors.values()) == 100
    assert run.params["object_size"] == 512
    assert not any("sizes differ" in note or "estimated" in note for note in run.notes)
    text = path.read_text()
    assert warp_summary.read_summary(text).operations["put"].size == 512
    # the mixed benchmark records failed uploads at full size
    path = mixed(tmp_path / "2.json", {"GET": 900, "PUT": 1000})
    document = json.loads(path.read_text())
    document["by_op_type"]["PUT"]["total_errors"] = 100
    path.write_text(json.dumps(document))
    put = warp_summary.read_summary(path.read_text()).operations["put"]
    assert put.bytes_moved == 900 << 20


def test_a_failed_first_upload_does_not_make_sizes_differ(tmp_path: Path) -> None:
    """Check that one average over all ranges is the size, as the bytes confirm."""
    segments = [several((499, 512, 10.0)), several((500, 512, 20.0))]
    path = written(tmp_path / "1.json", PUT, {"PUT": aggregate(1000, 999 * 512, segments, 1)})
    put = warp_summary.read_summary(path.read_text()).operations["put"]
    assert (put.size, put.bytes_moved, put.timed) == (512, 999 * 512, 999)
    (run,) = records(tmp_path, path)
    mean_ns = (499 * 10e6 + 500 * 20e6) / 999
    assert run.metric("latency_mean_ns", "put") == pytest.approx(mean_ns)
    assert run.metric("latency_p99_ns", "put") is None
    effective = run.metric("concurrency_effective")
    assert effective == pytest.approx(1000 * mean_ns / 60e9)


def test_different_sizes_have_a_mean_latency(tmp_path: Path) -> None:
    command = "warp get --host=s3:9000 --bucket=b --obj.size=1MiB --obj.randsize=true"
    segments = [several((300, 4_321, 2.0), (100, 700_000, 10.0))]
    path = written(tmp_path / "1.json", command, {"GET": aggregate(400, 71_296_300, segments)})
    (run,) = records(tmp_path, path)
    assert run.metric("latency_mean_ns", "get") == pytest.approx(4e6)
    assert run.totals["get"].bytes == 71_296_300
    assert any("sizes differ" in note for note in run.notes)


def test_latencies_of_some_requests_are_noted(tmp_path: Path) -> None:
    command = "warp get --host=s3:9000 --bucket=b --obj.size=1KiB"
    segments = [single(100, 1024, 10.0), single(300, 1024, 20.0)]
    path = written(tmp_path / "1.json", command, {"GET": aggregate(800, 800 * 1024, segments)})
    (run,) = records(tmp_path, path)
    assert run.metric("latency_mean_ns", "get") == pytest.approx(17.5e6)
    assert run.metric("concurrency_effective") == pytest.approx(800 * 17.5e6 / 60e9)
    assert any("400 of 800 get requests" in note for note in run.notes)
    assert any("from 30.0 ms to 60.0 ms" in note for note in run.notes)
