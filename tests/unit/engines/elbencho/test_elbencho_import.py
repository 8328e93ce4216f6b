"""Import of elbencho's CSV and JSON, written after its documentation of columns and keys."""

from __future__ import annotations

import csv
import io
import json

import pytest

from storlab.base.errors import ResultError
from storlab.contracts.exchange import ImportedRun
from storlab.engines.elbencho.importer import ElbenchoImport

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
        runs(table(row | {"path type": "bucket"}))


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
        "config": {
            "path_type": "blockdev", "paths": "1", "hosts": "1", "threads": "2",
            "file_size": "1073741824", "block_size": "4096", "direct_io": "true",
            "random_offsets": "true", "io_depth": "16", "version": "3.1-1",
            "command": '"elbencho" "/dev/nvme0n1" "-r" ',
        },
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
