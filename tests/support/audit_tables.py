"""Synthetic published tables for tests of the audit's arithmetic rules."""

from __future__ import annotations

import csv
import tempfile
from importlib import import_module
from pathlib import Path

from storlab.audit import RULES
from storlab.audit.finding import Finding
from storlab.audit.table import PublishedTable, read_table
from storlab.model.published import COLUMNS

PLACE = {"workload": "mixed", "rw_mix": "70/30", "block_size": "256KB", "op": "read+write"}


def cell(
    metric: str, printed: str, unit: str, config: str = "A", at: str = "8", **more: str
) -> dict[str, str]:
    """Return a measured row at a place; ``at`` is the operating point."""
    row = {**PLACE, "config": config, "metric": metric, "unit": unit, "printed": printed}
    point = {"x_name": "jobs", "x_value": at} if at else {}
    return {**row, **point, "qualifier": "exact", "kind": "measured", **more}


def claim(
    metric: str, printed: str, unit: str = "x", config: str = "A", to: str = "B", **more: str
) -> dict[str, str]:
    """Return a claim about one place that compares two configurations."""
    printed_cell = cell(metric, printed, unit, config)
    return {**printed_cell, "kind": "ratio_claim", "compare_config": to, **more}


def headline(
    metric: str, printed: str, unit: str = "x", qualifier: str = "up_to", **more: str
) -> dict[str, str]:
    """Return a claim about all places."""
    empty = dict.fromkeys((*PLACE, "x_name", "x_value"), "")
    claimed = claim(metric, printed, unit)
    return {**claimed, **empty, "kind": "headline_claim", "qualifier": qualifier, **more}


def fact(metric: str, printed: str, unit: str, config: str = "A", **more: str) -> dict[str, str]:
    """Return a setting of a configuration."""
    row = {"config": config, "metric": metric, "unit": unit, "printed": printed}
    return {**row, "kind": "config", "qualifier": "exact", **more}


def table(*rows: dict[str, str]) -> PublishedTable:
    """Return the table of these rows, numbered from 001, written to CSV and read back."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "synthetic.csv"
        with place.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(COLUMNS))
            writer.writeheader()
            for number, row in enumerate(rows, 1):
                value = row["printed"].replace(",", "").strip("~≈ x%")
                writer.writerow({"id": f"{number:03d}", "value": value, **row})
        return read_table(place)


def findings(rule: str, *rows: dict[str, str]) -> list[Finding]:
    """Return the findings of one rule on these rows."""
    return list(import_module(RULES[rule]).check(table(*rows)))


def severities(rule: str, *rows: dict[str, str]) -> list[str]:
    """Return the severities of one rule's findings on these rows."""
    return [finding.severity for finding in findings(rule, *rows)]
