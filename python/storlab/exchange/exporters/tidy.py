"""Export results as a table in CSV or Parquet, with one row per run and metric or sample."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storlab.analysis.groups import records_by_group
from storlab.base.csv_text import csv_bytes
from storlab.base.errors import ResultError
from storlab.model.result import RunRecord
from storlab.results.files import again
from storlab.results.store import ResultStore

SCHEMA_KEY = b"storlab.schema"
METRICS_SCHEMA = b"metrics-1"
SAMPLES_SCHEMA = b"samples-1"


class CsvExport:
    """Export format CSV with a header line; samples have no histograms."""

    name = "csv"
    suffix = ".csv"

    def content(self, store: ResultStore, samples: bool) -> bytes:
        """Return the CSV as UTF-8; text that spreadsheets would read as a formula is escaped."""
        table = samples_table(store) if samples else metrics_table(store)
        binary = [field.name for field in table.schema if pa.types.is_binary(field.type)]
        return csv_bytes(table.drop_columns(binary))


class ParquetExport:
    """Export format Parquet with zstd compression; samples have histograms."""

    name = "parquet"
    suffix = ".parquet"

    def content(self, store: ResultStore, samples: bool) -> bytes:
        """Return the metrics of all runs, or with ``samples`` their samples, as one Parquet table.

        The table's metadata ``storlab.schema`` contains the version of its schema.
        """
        table = samples_table(store) if samples else metrics_table(store)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        return sink.getvalue().to_pybytes()


_METRIC_COLUMNS = (
    "operation",
    "metric",
    "value",
    "unit",
    "provenance",
    "boundary",
    "uncertainty",
)


def metrics_table(store: ResultStore) -> pa.Table:
    """Return a table with one row per run and metric: identity of the run, name, value, unit.

    Parameters are in columns ``param_<name>``, nested values as JSON text. A failed run has rows
    for the metrics that it recorded, or one row without a metric. A group has rows like those of a
    run, with the name of the group in the columns ``workload``, ``run_id`` and ``point_id``.
    """
    rows: list[tuple[RunRecord, dict[str, Any]]] = []
    for record in _with_groups(store):
        for metric in record.metrics:
            row: dict[str, Any] = {
                "operation": metric.operation,
                "metric": metric.name,
                "value": metric.value,
            }
            row |= {"unit": metric.unit, "provenance": metric.provenance}
            row |= {"boundary": metric.boundary, "uncertainty": metric.uncertainty}
            rows.append((record, row))
        if not record.metrics:
            rows.append((record, {"provenance": record.provenance}))
    columns = _identity([record for record, _ in rows], store)
    types = {"value": pa.float64(), "uncertainty": pa.float64()}
    for name in _METRIC_COLUMNS:
        values = [row.get(name) for _, row in rows]
        columns[name] = pa.array(values, types.get(name, pa.string()))
    return pa.table(columns).replace_schema_metadata({SCHEMA_KEY: METRICS_SCHEMA})


def samples_table(store: ResultStore) -> pa.Table:
    """Return a table with all samples of all runs, each with identity and parameters of its run."""
    tables, owners = [], []
    for record in _records(store):
        table = store.samples(record.run_id)
        tables.append(table)
        owners += [record] * table.num_rows
    joined = pa.concat_tables(tables)
    columns = _identity(owners, store)
    columns |= {name: joined.column(name) for name in joined.column_names}
    return pa.table(columns).replace_schema_metadata({SCHEMA_KEY: SAMPLES_SCHEMA})


def _with_groups(store: ResultStore) -> Iterator[RunRecord]:
    """Yield the records of runs and, after each, those of its groups that have metrics."""
    for run in _records(store):
        for record in records_by_group(run, store.plan.points[run.point_id]).values():
            if record is run or record.metrics:
                yield record


def _records(store: ResultStore) -> list[RunRecord]:
    records = store.records()
    if not records:
        raise ResultError(
            str(store.directory),
            "contains no run yet",
            f"to get the missing runs, {again(store.directory)}",
        )
    return records


def _identity(records: Sequence[RunRecord], store: ResultStore) -> dict[str, Any]:
    text: dict[str, Iterable[str | None]] = {
        "study": (store.study.study.name for _ in records),
        "run_id": (r.run_id for r in records),
        "point_id": (r.point_id for r in records),
        "target": (r.target for r in records),
        "workload": (r.workload for r in records),
        "kind": (r.kind for r in records),
        "engine": (r.engine.name for r in records),
        "engine_version": (r.engine.version for r in records),
        "status": (r.status for r in records),
        "started_at": (r.started_at for r in records),
        "flags": (",".join(sorted({f.kind for f in r.flags})) for r in records),
    }
    columns: dict[str, Any] = {k: pa.array(list(v), pa.string()) for k, v in text.items()}
    columns["repeat"] = pa.array([r.repeat for r in records], pa.int32())
    if any(r.clients is not None for r in records):
        columns["clients"] = pa.array([r.clients for r in records], pa.int32())
    for name in dict.fromkeys(name for record in records for name in record.params):
        columns[f"param_{name}"] = _parameter([r.params.get(name) for r in records])
    return columns


def _parameter(values: Sequence[Any]) -> Any:
    """Return the values of a parameter as a column: boolean, integer, float, or text for others."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pa.array(values, pa.bool_())
    numbers = [v for v in known if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if known and len(numbers) == len(known):
        whole = all(isinstance(value, int) for value in known)
        return pa.array(values, pa.int64() if whole else pa.float64())
    texts = [
        value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)
        for value in values
    ]
    return pa.array(texts, pa.string())
