"""samples.parquet round trip, including files from before object storage."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storlab._native import Histogram
from storlab.model.result import Sample
from storlab.model.samples import (
    SAMPLES_SCHEMA,
    SCHEMA_KEY,
    samples_to_parquet,
    samples_to_table,
    table_from_parquet,
    table_to_samples,
)

COLUMNS_OF_VERSION_1 = [
    "interval",
    "start_ns",
    "end_ns",
    "operation",
    "operations",
    "bytes",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_max_ns",
    "latency_hist",
    "intended_hist",
    "worker_cpu_ns",
]


def histogram(*values_ns: int) -> bytes:
    made = Histogram()
    for value in values_ns:
        made.record(value)
    return made.to_v2()


def samples(*, errors: int = 0, ttfb: bytes | None = None) -> list[Sample]:
    return [
        Sample(
            interval=number,
            start_ns=number * 10**9,
            end_ns=(number + 1) * 10**9,
            operation=operation,
            operations=2,
            bytes=8192,
            latency=histogram(1000, 2000),
            intended=None if operation == "get" else histogram(3000),
            worker_cpu_ns=7,
            ttfb=ttfb,
            errors=errors,
        )
        for number in range(2)
        for operation in ("get", "put")
    ]


def of_version(number: bytes, table: pa.Table) -> bytes:
    """Write a file of an older storlab, with its columns and version."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({SCHEMA_KEY: number}), sink)
    return sink.getvalue().to_pybytes()


def test_errors_and_first_bytes_are_read_back() -> None:
    given = samples(errors=3, ttfb=histogram(500))
    table = table_from_parquet(samples_to_parquet(given))
    assert table.schema.equals(SAMPLES_SCHEMA, check_metadata=True)
    assert table_to_samples(table) == given


def test_a_file_of_version_1_is_filled_in() -> None:
    given = samples()
    old = of_version(b"1", samples_to_table(given).select(COLUMNS_OF_VERSION_1))
    table = table_from_parquet(old)
    assert table.schema.equals(SAMPLES_SCHEMA, check_metadata=True)
    assert table_to_samples(table) == given


def test_an_empty_file_of_version_1_has_the_columns_of_today() -> None:
    old = of_version(b"1", samples_to_table([]).select(COLUMNS_OF_VERSION_1))
    assert table_from_parquet(old).equals(samples_to_table([]))


@pytest.mark.parametrize("version", [b"3", b""])
def test_another_version_is_not_guessed_at(version: bytes) -> None:
    with pytest.raises(ValueError, match=r"storlab\.schema"):
        table_from_parquet(of_version(version, samples_to_table(samples())))


def test_columns_that_are_not_those_of_the_version_are_refused() -> None:
    table = samples_to_table(samples())
    with pytest.raises(ValueError, match="version 1"):
        table_from_parquet(of_version(b"1", table))
    with pytest.raises(ValueError, match="version 2"):
        table_from_parquet(of_version(b"2", table.select(COLUMNS_OF_VERSION_1)))
