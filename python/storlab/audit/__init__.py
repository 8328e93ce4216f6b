"""Audit of published numbers: check whether they agree with each other and with physics.

Each rule is one module with ``SUMMARY`` (one line) and ``check(table)``, which yields findings.
Rules depend on columns, units and metric names, never on a particular publication.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from storlab.audit.finding import SEVERITIES, Finding, Severity
from storlab.audit.table import PublishedTable, Row, load_published, read_table
from storlab.base.errors import UsageError
from storlab.base.nearest import suggest

__all__ = [
    "RULES",
    "Finding",
    "PublishedTable",
    "Row",
    "Severity",
    "audit_table",
    "load_published",
    "read_table",
    "rule_summaries",
    "sort_findings",
]

RULES: dict[str, str] = {
    "ratio_arithmetic": "storlab.audit.check_ratio_arithmetic",
    "percent_language": "storlab.audit.check_percent_language",
    "identities": "storlab.audit.check_identities",
    "totals": "storlab.audit.check_totals",
    "units": "storlab.audit.check_units",
    "duplicates": "storlab.audit.check_duplicates",
    "headlines": "storlab.audit.check_headlines",
    "swept_gains": "storlab.audit.check_swept_gains",
    "implied_watts": "storlab.audit.check_implied_watts",
    "implied_outstanding": "storlab.audit.check_implied_outstanding",
    "effective_concurrency": "storlab.audit.check_effective_concurrency",
    "words": "storlab.audit.check_words",
    "operating_point": "storlab.audit.check_operating_point",
    "power_boundary": "storlab.audit.check_power_boundary",
    "ceilings": "storlab.audit.check_ceilings",
    "missing": "storlab.audit.check_missing",
    "series": "storlab.audit.check_series",
}
"""Rule names, in listing order, and the module of each rule."""


def _rule(name: str) -> Any:
    if name not in RULES:
        raise UsageError("--rule", f'there is no rule "{name}"', suggest(name, RULES))
    return import_module(RULES[name])


def rule_summaries() -> dict[str, str]:
    """Return the one-line summary of each rule by rule name."""
    return {name: str(_rule(name).SUMMARY) for name in RULES}


def audit_table(table: PublishedTable, rules: Iterable[str] | None = None) -> list[Finding]:
    """Check a published table and return the findings, errors first, then in row order.

    Args:
        table: The table of published numbers.
        rules: Names of the rules to apply; all rules if None.

    Raises:
        UsageError: A rule name does not exist.
    """
    modules = [_rule(name) for name in (RULES if rules is None else rules)]
    findings = [finding for module in modules for finding in module.check(table)]
    return sort_findings(findings, [row.id for row in table.rows])


def sort_findings(findings: Iterable[Finding], row_ids: Iterable[str] = ()) -> list[Finding]:
    """Sort findings by severity (error, warning, note), then by the table's row order."""
    order = {row: place for place, row in enumerate(row_ids)}

    def place(finding: Finding) -> tuple[int, int]:
        first = min((order.get(row, len(order)) for row in finding.rows), default=-1)
        return SEVERITIES.index(finding.severity), first

    return sorted(findings, key=place)
