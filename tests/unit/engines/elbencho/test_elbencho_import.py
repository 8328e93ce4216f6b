"""Import of elbencho's CSV and JSON, written after its documentation of columns and keys."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from storlab.base.errors import ResultError
from storlab.contracts.exchange import ImportedRun
from storlab.engines.elbencho.importer import ElbenchoImport
from storlab.exchange.importer import import_files

MIB = 1 << 20
CONFIG = {
    "ISO date": "2026-05-22T16:09:38.500+0200",
    "label": "",
    "path type": "file",
    "paths": "1",
    "hosts": "2",
    "threads": "8",
    "file size": "1073741824",
    "block size": "1048576",
    "direct IO": "1",
    "random": "1",
    "IO depth": "4",
}
CONFIG_JSON = {
    "path_type": "blockdev", "paths": "1", "hosts": "1", "threads": "2",
    "file_size": "1073741824", "block_size": "4096", "direct_io": "true",
    "random_offsets": "true", "io_depth": "16", "version": "3.1-1",
    "command": '"elbencho" "/dev/nvme0n1" "-r" ',
}  # fmt: skip
WRITE = {
    "operation": "WRITE",
    "time ms [first]": "1000",
    "time ms [last]": "2000",
    "IOPS [first]": "600",
    "IOPS [last]": "512",
    "MiB [first]": "600",
    "MiB [last]": "1024",
    "IO lat us [avg]": "250",
    "IO lat us [max]": "9000",
    "version": "3.1-1",
    "command": '"elbencho" "-w" "-t" "8" "/mnt/a/file" ',
}


def table(*rows: dict[str, str]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def runs(text: str) -> list[ImportedRun]:
    assert ElbenchoImport().matches(text)
    return ElbenchoImport().read(text, "elbencho.csv")


def test_a_row_is_the_whole_phase() -> None:
    (run,) = runs(table(CONFIG | WRITE))
    assert run.outcome.window_end_ns == 2_000_000_000
    assert run.outcome.totals["write"].bytes == 1024 * MIB
    assert run.outcome.totals["write"].operations == 1024
    assert {m.name: m.value for m in run.metrics} == {
        "latency_mean_ns": 250_000,
        "latency_max_ns": 9_000_000,
    }
    assert (run.fields["jobs"], run.clients, run.fields["queue_depth"]) == (8, 2, 4)
    assert (run.fields["access"], run.fields["block_size"]) == ("random", MIB)
    assert (run.direct, run.locations) == (True, ["/mnt/a/file"])
    assert run.started_at == "2026-05-22T14:09:38.500+00:00"


def test_columns_are_found_by_name_and_files_may_have_several_headers() -> None:
    old = dict(reversed([*CONFIG.items(), *WRITE.items()]))
    del old["IO lat us [avg]"], old["IO lat us [max]"]
    first, second = runs(table(CONFIG | WRITE) + table(old))
    assert first.outcome.totals == second.outcome.totals
    assert second.metrics == []


def test_other_phases_are_named_with_their_number() -> None:
    row = CONFIG | WRITE
    text = table(row | {"operation": "MKDIRS"}, row, row | {"operation": "MKDIRS"})
    (run,) = runs(text)
    assert any("2 x MKDIRS" in note for note in run.outcome.notes)
    with pytest.raises(ResultError):
        runs(table(row | {"operation": "SYNC"}))
    with pytest.raises(ResultError):
        runs(table(row | {"path type": "hdfs"}))


def test_a_mixed_phase_has_its_writes_and_reads_apart() -> None:
    reads = {
        "operation": "RWMIX25",
        "rwmix read IOPS [last]": "128",
        "rwmix read MiB [last]": "256",
    }
    (run,) = runs(table(CONFIG | WRITE | reads))
    totals = run.outcome.totals
    assert (totals["read"].operations, totals["write"].operations) == (256, 1024)
    assert run.fields["read_percent"] == 25


def test_operations_are_not_larger_than_files() -> None:
    small = {"path type": "dir", "file size": "65536", "IOPS [last]": "8192"}
    (run,) = runs(table(CONFIG | WRITE | small))
    assert run.fields["block_size"] == 65536
    assert run.outcome.totals["write"].operations == 16384


def test_bytes_of_json_are_exact() -> None:
    document = {
        "phase_type": "READ",
        "iso_start_date": "2026-05-22T16:09:38.500+0200",
        "config": CONFIG_JSON,
        "first_done": {"elapsed_time_ms": "900", "bytes": "1"},
        "last_done": {
            "elapsed_time_ms": "1000", "iops": "1000", "bytes": "4096000",
            "latency": {"IO": {"min_us": "1", "avg_us": "80", "max_us": "900"}},
        },
    }  # fmt: skip
    (run,) = runs(json.dumps(document))
    assert run.outcome.totals["read"].operations == 1000
    assert run.outcome.totals["read"].bytes == 4_096_000
    assert (run.target, run.direct, run.clients) == ("nvme0n1", True, None)
    assert run.metrics[0].value == 80_000


S3 = {
    "path type": "bucket",
    "file size": "16777216",
    "block size": "8388608",
    "entries [last]": "64",
    "Ent lat us [avg]": "70000",
    "Ent lat us [max]": "90000",
    "command": '"elbencho" "--s3endpoints" "http://s3.example:9000" "-w" "-t" "8" "bucket1" ',
}


def test_objects_of_a_bucket_are_puts_and_gets() -> None:
    put, get = runs(table(CONFIG | WRITE | S3, CONFIG | WRITE | S3 | {"operation": "READ"}))
    assert put.kind == "object"
    assert put.outcome.totals["put"].operations == 64
    assert put.outcome.totals["put"].bytes == 64 * 16 * MIB
    assert put.fields["object_size"] == 16 * MIB
    assert put.fields["part_size"] == 8 * MIB
    assert (put.fields["concurrency"], put.clients, put.fields["get_percent"]) == (8, 2, 0)
    assert put.s3 == "http://s3.example:9000/bucket1"
    values = {m.name: m.value for m in put.metrics}
    assert values == {"latency_mean_ns": 70_000_000, "latency_max_ns": 90_000_000}
    assert get.outcome.totals["get"].operations == 64
    assert (get.fields["get_percent"], get.fields["objects"]) == (100, 64)
    assert "part_size" not in get.fields
    assert any("ranges" in note for note in get.outcome.notes)


def test_mixed_phases_of_a_bucket_and_requests_without_data() -> None:
    mixed = {
        "operation": "RWMIX50",
        "rwmix read entries [last]": "65",
        "rwmix read MiB [last]": "1040",
        "rwmix read Ent lat us [avg]": "50000",
    }
    head = {"operation": "HEADOBJ", "MiB [last]": ""}
    (run,) = runs(table(CONFIG | WRITE | S3 | mixed))
    assert {kind: total.operations for kind, total in run.outcome.totals.items()} == {
        "get": 65,
        "put": 64,
    }
    assert run.fields["get_percent"] == 50
    (heads,) = runs(table(CONFIG | WRITE | S3 | head))
    assert heads.outcome.totals["head"].operations == 64
    assert heads.outcome.totals["head"].bytes == 0
    assert heads.fields["head_percent"] == 100


def test_objects_that_threads_share_are_refused() -> None:
    with pytest.raises(ResultError) as refused:
        runs(table(CONFIG | WRITE | S3 | {"path type": "object"}))
    assert "WRITE of object" in refused.value.what


def test_s3_runs_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "s3.csv"
    path.write_text(table(CONFIG | WRITE | S3, CONFIG | WRITE | S3 | {"operation": "RMOBJECTS"}))
    records = import_files([path], tmp_path / "result").records()
    assert [record.kind for record in records] == ["object", "object"]
    assert records[0].metric("throughput_mb_s") == pytest.approx(64 * 16 * MIB / 2e6)
    assert records[1].metric("requests_s") == 32


def test_percentiles_of_histograms_are_upper_bounds() -> None:
    buckets = [{"range": "64.0-76.1us", "count": "900"}, {"range": "431-512us", "count": "100"}]
    document = {
        "phase_type": "READ",
        "config": CONFIG_JSON,
        "first_done": {"elapsed_time_ms": "900", "bytes/s": "104857600"},
        "last_done": {
            "elapsed_time_ms": "1000", "iops": "1000", "bytes": "4096000",
            "latency": {
                "IO": {
                    "avg_us": "80", "max_us": "500", "histogram": {"buckets": buckets},
                }
            },
        },
    }  # fmt: skip
    (run,) = runs(json.dumps(document))
    assert {m.name: m.value for m in run.metrics} == {
        "latency_mean_ns": 80_000,
        "latency_max_ns": 500_000,
        "latency_p50_ns": 76_100,
        "latency_p90_ns": 76_100,
        "latency_p99_ns": 500_000,
        "latency_p999_ns": 500_000,
    }
    notes = "\n".join(run.outcome.notes)
    assert "upper bounds" in notes
    assert "0.9 s" in notes
    assert "100 MiB/s" in notes


def test_a_damaged_row_is_refused() -> None:
    with pytest.raises(ResultError):
        runs(table(CONFIG | WRITE).rstrip("\n").rpartition(",")[0])


def test_credentials_are_removed() -> None:
    text = json.dumps('"elbencho" "--s3key" "ABCDEF" "--s3secret=XYZ"')
    cleaned = ElbenchoImport().cleaned(text)
    assert "ABCDEF" not in cleaned
    assert "XYZ" not in cleaned


@pytest.mark.parametrize("column", ["random", "IO depth", "hosts"])
def test_a_missing_option_is_noted(column: str) -> None:
    row = CONFIG | WRITE
    (complete,) = runs(table(row))
    del row[column]
    (run,) = runs(table(row))
    (note,) = set(run.outcome.notes) - set(complete.outcome.notes)
    assert column in note


@pytest.mark.parametrize("value", ["many", "inf", "nan"])
def test_a_value_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ResultError) as error:
        runs(table(CONFIG | WRITE | {"threads": value}))
    assert "threads" in error.value.where
    assert value in error.value.what
