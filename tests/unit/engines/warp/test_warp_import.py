"""Import of warp's benchmark data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab._native import Histogram
from storlab.base import zstd
from storlab.base.errors import ResultError
from storlab.cli.main import main
from storlab.engines.warp import records as warp_records
from storlab.engines.warp import summary as warp_summary
from storlab.engines.warp.command_line import duration_ns
from storlab.engines.warp.importer_options import Seen, fields, unexpressed
from storlab.exchange.importer import import_files
from storlab.lab.study.file import parse_study
from storlab.model.result import RunRecord
from storlab.model.samples import table_to_samples
from storlab.results.store import ResultStore

GOLDEN = Path(__file__).parents[3] / "golden" / "warp"


def imported(tmp_path: Path, *names: str, target: str | None = None) -> ResultStore:
    return import_files([GOLDEN / name for name in names], tmp_path / "result", target)


def only(tmp_path: Path, name: str) -> RunRecord:
    (record,) = imported(tmp_path, name).records()
    return record


def test_a_record_keeps_its_histograms_and_its_time_series(tmp_path: Path) -> None:
    store = imported(tmp_path, "mixed-1.6.1.csv.zst")
    (record,) = store.records()
    data = (GOLDEN / "mixed-1.6.1.csv.zst").read_bytes()
    load = warp_records.read_records(warp_records.unpacked(data))
    window_ns = record.window_end_ns - record.window_start_ns
    assert window_ns == 2_000_000_000
    inside = load.end_ns < load.start_ns.min() + window_ns
    for operation in ("get", "put"):
        of_operation = load.only(inside & load.kind(operation))
        totals = record.totals[operation]
        assert totals.operations == len(of_operation.name)
        assert totals.bytes == int(of_operation.bytes.sum())
        assert record.metric("throughput_mb_s", operation) == pytest.approx(totals.bytes / 2e6)
        assert record.metric("latency_mean_ns", operation) == pytest.approx(
            float(of_operation.duration_ns.mean()), rel=0.001
        )
    samples = table_to_samples(store.samples(record.run_id))
    reads = [sample for sample in samples if sample.operation == "get"]
    assert len(reads) == 2
    counted = sum(Histogram.from_v2(sample.latency).count for sample in reads)
    assert counted == record.totals["get"].operations
    assert record.metric("ttfb_p99_ns", "get") is not None
    assert record.metric("ttfb_p99_ns", "put") is None
    assert store.raw(record.run_id, "imported.csv.zst") == data


def test_options_become_a_point_that_reads_back(tmp_path: Path) -> None:
    store = imported(tmp_path, "mixed-1.6.1.csv.zst", "get_4m_minio.benchdata.json.zst")
    study = parse_study(store.study_text)
    assert [w.values()[0] for w in study.workload] == [p.params for p in store.plan.points.values()]
    mixed, get = store.records()
    assert (mixed.kind, mixed.engine.name, mixed.provenance) == ("object", "warp", "measured")
    fields = {
        "get_percent": 70,
        "object_size": 2 << 20,
        "concurrency": 4,
        "objects": 12,
        "read_written": True,
        "payload": "streaming",
    }
    assert {name: mixed.params[name] for name in fields} == fields
    assert (get.params["get_percent"], get.params["concurrency"]) == (100, 16)
    assert get.params["objects"] == 64
    ResultStore.open(store.directory).check()


def test_aggregated_data_keeps_what_needs_no_average(tmp_path: Path) -> None:
    record = only(tmp_path, "mix50_4m_minio.benchdata.json.zst")
    data = (GOLDEN / "mix50_4m_minio.benchdata.json.zst").read_bytes()
    summary = warp_summary.read_summary(warp_records.unpacked(data).decode())
    for operation, of_kind in summary.operations.items():
        (piece,) = of_kind.pieces
        assert record.totals[operation].operations == of_kind.requests
        assert record.totals[operation].bytes == of_kind.bytes
        assert record.metric("latency_p99_ns", operation) == piece.p99_ns
        assert record.metric("latency_mean_ns", operation) == piece.mean_ns
    assert record.metric("latency_p999_ns", "get") is None
    assert record.metric("latency_p99_ns", "all") is None
    assert record.metric("ttfb_p99_ns", "put") is None  # warp's is another quantity
    assert record.metric("concurrency_effective") == pytest.approx(16, rel=0.02)
    assert any("no histogram" in note for note in record.notes)


def changed(tmp_path: Path, **changes: Any) -> Path:
    data = (GOLDEN / "get_4m_minio.benchdata.json.zst").read_bytes()
    document = json.loads(warp_records.unpacked(data))
    document["by_op_type"]["GET"].update(changes)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    return path


def test_percentiles_of_several_pieces_are_not_averaged(tmp_path: Path) -> None:
    data = (GOLDEN / "get_4m_minio.benchdata.json.zst").read_bytes()
    rows = json.loads(warp_records.unpacked(data))["by_op_type"]["GET"]["requests_by_client"]
    (name,) = rows
    path = changed(tmp_path, requests_by_client={name: rows[name] * 3})
    (record,) = import_files([path], tmp_path / "result").records()
    assert record.metric("latency_p99_ns", "get") is None
    assert record.metric("latency_mean_ns", "get") is not None
    assert record.metric("latency_max_ns", "get") is not None
    assert any("is not imported" in note for note in record.notes)


def test_failed_requests_are_not_moved_bytes(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        total_errors=47,
        first_errors=["http://h, 2026-11-20 10:30:40: The specified key does not exist."],
    )
    (record,) = import_files([path], tmp_path / "result").records()
    totals = record.totals["get"]
    assert (totals.operations, totals.bytes) == (2000, 2000 * (4 << 20))
    assert totals.errors == {"NoSuchKey (404)": 47}
    assert any("failed requests" in note for note in record.notes)


def test_errors_of_a_record(tmp_path: Path) -> None:
    record = only(tmp_path, "get-404-1.6.1.csv.zst")
    (errors,) = record.totals["get"].errors.items()
    assert errors[0] == "NoSuchKey (404)"
    assert errors[1] > 50
    assert record.totals["get"].bytes == record.totals["get"].operations * (4 << 20)
    assert record.metric("errors", "get") == errors[1]


@pytest.mark.parametrize(
    ("name", "operation", "expected"),
    [
        ("delete-1.6.1.csv.zst", "multi_delete", {"multi_delete_percent": 100, "delete_batch": 10}),
        ("list-1.6.1.csv.zst", "list", {"list_percent": 100}),
        ("get-prepared-1.6.1.csv.zst", "get", {"get_percent": 100, "object_size": 4 << 20}),
    ],
)
def test_preparation_is_left_out(
    tmp_path: Path, name: str, operation: str, expected: dict[str, Any]
) -> None:
    record = only(tmp_path, name)
    assert set(record.totals) == {operation}
    assert {field: record.params[field] for field in expected} == expected
    assert any("prepared the run" in note for note in record.notes)


def test_a_session_token_in_a_file_is_not_kept(tmp_path: Path) -> None:
    data = warp_records.unpacked((GOLDEN / "mixed-1.6.1.csv.zst").read_bytes())
    told = data.replace(b" --region=", b" --session-token=T0KEN+/= --region=")
    assert told != data
    path = tmp_path / "told.csv.zst"
    path.write_bytes(zstd.packed(told))
    store = import_files([path], tmp_path / "result")
    (record,) = store.records()
    kept = warp_records.unpacked(store.raw(record.run_id, "imported.csv.zst"))
    assert b"T0KEN" not in kept
    assert b"--session-token=*REDACTED*" in kept
    for file in (tmp_path / "result").rglob("*"):
        assert not file.is_file() or b"T0KEN" not in file.read_bytes()


def test_repeats_and_a_name_for_the_target(tmp_path: Path) -> None:
    first = GOLDEN / "mixed-1.6.1.csv.zst"
    rows = warp_records.unpacked(first.read_bytes()).split(b"\n")
    other = tmp_path / "other.csv"
    other.write_bytes(b"\n".join([*rows[:100], *rows[101:]]))  # one request less
    store = import_files([first, other], tmp_path / "result", "the store")
    assert [r.run_id[-3:] for r in store.records()] == ["-r1", "-r2"]
    assert {r.target for r in store.records()} == {"the store"}


def test_a_load_that_was_held_back_is_no_repeat_of_one_that_was_not(tmp_path: Path) -> None:
    data = warp_records.unpacked((GOLDEN / "mixed-1.6.1.csv.zst").read_bytes())
    files = []
    for limit in (b"0", b"50", b"60"):
        files.append(tmp_path / f"{limit.decode()}.csv")
        files[-1].write_bytes(data.replace(b" --region=", b" --rps-limit=" + limit + b" --region="))
    records = import_files(files, tmp_path / "result").records()
    assert [r.repeat for r in records] == [1, 1, 1]
    limits = [r.params.get("warp_options") for r in records]
    assert limits == [None, {"rps-limit": "50"}, {"rps-limit": "60"}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--encrypt=true --http2=true", {"encrypt": "true", "http2": "true"}),
        ("--disable-http-keepalive=true", {"disable-http-keepalive": "true"}),
        ("--storage-class=REDUCED", {"storage-class": "REDUCED"}),
        ("--obj.generator=csv --versions=3", {"obj.generator": "csv", "versions": "3"}),
        ("--obj.generator=random --versions=1 --md5=false", {}),
        ("--checksum=CRC32 --disable-sha256-payload=true", {}),
        ("--checksum=SHA256", {"checksum": "SHA256"}),
        ("--range=true", {"range": "true"}),
        ("--range=true --range-size=1KiB", {}),
        ("--a-later-one=7", {"a-later-one": "7"}),
        ("--session-token=T0KEN --influxdb=http://T0KEN@h --analyze.skip=1s --autoterm=true", {}),
    ],
)
def test_options_without_a_field_keep_runs_apart(options: str, expected: dict[str, str]) -> None:
    shaping = unexpressed(warp_summary.flags(f"warp get {options}"))
    assert shaping == expected
    _, notes = fields(warp_summary.flags(f"warp get {options}"), seen())
    assert all(any(f"{name}={value}" in note for note in notes) for name, value in expected.items())


def test_a_benchmark_that_its_operations_do_not_tell_is_kept_apart() -> None:
    assert unexpressed({"": "snowball"}) == {"benchmark": "snowball"}
    assert unexpressed({"": "stat"}) == unexpressed({}) == {}


def test_a_plain_load_has_no_option_without_a_field() -> None:
    """Check that plain loads import without unknown options; two were once withheld."""
    for path in GOLDEN.glob("*.csv.zst"):
        load = warp_records.read_records(warp_records.unpacked(path.read_bytes()))
        assert unexpressed(warp_summary.flags(load.command)).keys() <= {"rps-limit"}


def test_the_command_says_what_it_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(GOLDEN / name) for name in ("mixed-1.6.1.csv.zst", "get-404-1.6.1.csv.zst")]
    assert main(["import", *files, "--out", str(tmp_path / "result")]) == 0
    printed = capsys.readouterr().out
    assert "requests/s" in printed
    assert "put p99" in printed
    assert "IOPS" not in printed
    assert main(["compare", str(tmp_path / "result")]) == 0


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (zstd.MAGIC + b"damaged", "compression"),
        (zstd.packed(b"\xff\xfe\x00"), "not text"),
        (zstd.packed(b"hello"), "a format that storlab cannot read"),
        (b"idx\tthread\top\tbytes\terror\tstart\tfirst_byte\tend\tduration_ns\n", "no request"),
        (b'{"commandline": "warp get", "total": {}, "by_op_type": {}}', "no result"),
        (b'{"commandline": "warp get", "total": {}}', "by_op_type"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "some.file"
    path.write_bytes(content)
    with pytest.raises(ResultError) as caught:
        import_files([path], tmp_path / "result")
    assert what in str(caught.value)
    assert "some.file" in caught.value.where
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [("8s", 8e9), ("1m30s", 90e9), ("5m0s", 300e9), ("4250ms", 4.25e9), ("", 0), ("soon", 0)],
)
def test_durations_of_go(text: str, expected_ns: float) -> None:
    assert duration_ns(text) == expected_ns


def seen(**changes: Any) -> Seen:
    fields: dict[str, Any] = {
        "requests": {"get": 60, "put": 40},
        "sizes": {1000: 100},
        "workers": 8,
        "keys_per_delete": 1,
        "tls": False,
    }
    return Seen(**{**fields, **changes})


def test_what_the_options_do_not_tell_is_taken_from_the_data() -> None:
    told, notes = fields({}, seen())
    assert told == {
        "get_percent": 60,
        "object_size": 1000,
        "concurrency": 8,
        "read_written": True,
    }
    assert any("guesses" in note for note in notes)
    told, _ = fields({"": "put"}, seen(requests={"put": 9}, sizes={1: 1, 3: 3}))
    assert told["object_size"] == {"1B": 25, "3B": 75}
    assert (told["get_percent"], told["payload"]) == (0, "streaming")
    told, notes = fields(
        {"": "put"}, seen(requests={"put": 9}, sizes=dict.fromkeys(range(1, 99), 1))
    )
    assert told["object_size"] == {"uniform": [1, 98]}
    assert any("uniform" in note for note in notes)


def test_large_uploads_go_in_the_parts_of_warps_client() -> None:
    flags = {"": "put", "obj.size": "64MiB", "tls": "true", "checksum": "CRC32C"}
    told, _ = fields(flags, seen(requests={"put": 9}, sizes={64 << 20: 9}))
    assert (told["part_size"], told["part_concurrency"]) == (16 << 20, 4)
    assert told["payload"] == "trailer-crc"
    told, _ = fields({**flags, "disable-multipart": "true"}, seen(sizes={64 << 20: 9}))
    assert "part_size" not in told


def test_ranges_rates_and_hosts() -> None:
    flags = {"": "get", "obj.size": "10M", "range-size": "1KiB", "host": "a:1,b:1"}
    told, notes = fields({**flags, "rps-limit": "50"}, seen(requests={"get": 9}))
    assert (told["object_size"], told["range_size"]) == (10_000_000, 1024)
    assert told["routing"] == "least_busy"
    assert any("--rps-limit" in note for note in notes)
    told, _ = fields({**flags, "host-select": "roundrobin"}, seen(requests={"get": 9}))
    assert "routing" not in told
