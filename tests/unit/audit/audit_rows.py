"""Synthetic published tables for tests of the audit: CSV text parsed by the reader.

Names of configurations and workloads are invented; spellings vary on purpose.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from storlab.audit import RULES
from storlab.audit.finding import Finding
from storlab.audit.table import PublishedTable, read_table

COLUMNS = (
    *("config", "workload", "rw_mix", "block_size", "op", "metric", "x_name", "x_value", "value"),
    *("unit", "qualifier", "kind", "compare_config", "printed"),
)


def row(**cells: object) -> dict[str, str]:
    """Return one row; ``printed`` defaults to the value."""
    known = {name: str(cells.get(name, "")) for name in COLUMNS}
    known["printed"] = known["printed"] or known["value"]
    return known


def table(rows: Iterable[dict[str, str]]) -> PublishedTable:
    """Return the rows as the reader parses them; ids are 001, 002 ..."""
    with TemporaryDirectory() as name:
        path = Path(name) / "synthetic.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        return read_table(path)


def check(rule: str, rows: Iterable[dict[str, str]]) -> list[Finding]:
    """Return the findings of one rule on these rows."""
    found = list(import_module(RULES[rule]).check(table(rows)))
    assert all(finding.rule == rule for finding in found)
    return found


def setting(metric: str, value: object, unit: str = "count", config: str = "") -> dict[str, str]:
    """Return a row of the test set-up."""
    return row(config=config, metric=metric, value=value, unit=unit, kind="config")
