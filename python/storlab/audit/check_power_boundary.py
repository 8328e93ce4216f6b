"""Audit rule: report power that is compared between unequal or unstated power boundaries.

A power boundary is what a meter's reading includes: drive, enclosure, server or wall outlet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from storlab.audit.configuration_facts import covers, members, metric_name
from storlab.audit.finding import Finding
from storlab.audit.quantities import quantity_of
from storlab.audit.table import PublishedTable, Row

SUMMARY = "power or efficiency compared across unequal or unstated boundaries"
POWERED = ("power", "energy", "power_efficiency", "energy_efficiency", "iops_per_watt")
POWERED_ALL = (*POWERED, "energy_per_work")
_NOT_LOAD = {"limit", "rated", "state", "budget", "tdp", "share", "boundary", "max"}
_SCOPES: tuple[tuple[str, str], ...] = (
    (r"enclosure|jbod|jbof|shelf|chassis|disk tray", "enclosure"),
    (r"wall|pdu|outlet|rack|ac power", "wall"),
    (r"server|host|system|node|cluster|platform", "server"),
    (r"device|drive|ssd|hdd|disk|slot|interposer|riser", "device"),
)
_NAMED = "named otherwise"
_SAYS = re.compile(
    r"boundary|power_(measured|scope|measurement|domain|includes)|measured_at|metering_point"
)


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield one finding per pair with unequal boundaries, and one note on unstated boundaries."""
    compared: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        quantity = quantity_of(row)
        is_power = quantity.name in POWERED_ALL and not _NOT_LOAD & set(quantity.part.split("_"))
        if quantity.is_claim and is_power and quantity.statistic != "max":
            for first in members(row.config):
                for other in members(row.compare_config):
                    compared.setdefault((first, other), []).append(row)
    unstated: list[str] = []
    stated = {config: boundaries(table, config) for pair in compared for config in pair}
    for (first, other), rows in compared.items():
        first_stated, other_stated = stated[first], stated[other]
        if first_stated and other_stated and not _may_be_one(set(first_stated), set(other_stated)):
            yield _unequal(first, other, stated, rows)
        elif not first_stated or not other_stated:
            unstated += [row.id for row in rows]
    if unstated:
        yield _unstated(list(dict.fromkeys(unstated)), stated)


def _may_be_one(first_stated: set[str], other_stated: set[str]) -> bool:
    """Return whether two configurations may share a boundary; unrecognised wording matches any."""
    return bool(first_stated & other_stated) or _NAMED in first_stated | other_stated


def _unequal(
    first: str,
    other: str,
    stated: dict[str, dict[str, list[str]]],
    rows: list[Row],
) -> Finding:
    ids = [row.id for row in rows]
    ids += [
        row
        for side in (first, other)
        for ids_of_boundary in stated[side].values()
        for row in ids_of_boundary
    ]
    return Finding(
        rule="power_boundary",
        severity="warning",
        rows=list(dict.fromkeys(ids)),
        printed=", ".join(f"{row.metric} {row.printed}" for row in rows[:6]),
        recomputed=f"power of {first} is that of the {'/'.join(stated[first])}, "
        f"of {other} that of the {'/'.join(stated[other])}",
        why="The ratio divides watts that include different things. The wider boundary includes "
        "fans, power supplies and controllers, which the other configuration needs as well.",
    )


def _unstated(rows: list[str], stated: dict[str, dict[str, list[str]]]) -> Finding:
    known = [
        f"{config}: {'/'.join(boundaries)}" for config, boundaries in stated.items() if boundaries
    ]
    silent = [config for config, boundaries in stated.items() if not boundaries]
    return Finding(
        rule="power_boundary",
        severity="note",
        rows=rows,
        printed="ratios of power, energy or efficiency",
        recomputed="; ".join([*known, f"no boundary stated for {', '.join(silent)}"]),
        why="Such a ratio depends on whether the watts are those of drives, of an enclosure or of "
        "a server. The table does not say so, and a reader cannot tell whether both sides include "
        "the same things.",
    )


def boundaries(table: PublishedTable, config: str) -> dict[str, list[str]]:
    """Return the power boundaries stated for a configuration, with the ids of the rows."""
    rows: dict[str, list[str]] = {}
    for row in table.rows:
        for scope in _scopes(row, config):
            rows.setdefault(scope, []).append(row.id)
    return rows


def _scopes(row: Row, config: str) -> Iterator[str]:
    if not covers(row, config) or quantity_of(row).is_claim:
        return
    name = metric_name(row)
    says = _SAYS.search(name) is not None
    if says:
        text = f"{re.sub(_SAYS, ' ', name)} {row.printed} {row.qualifier}"
    elif quantity_of(row).name in POWERED and row.is_measured and row.config:
        text = f"{name} {row.qualifier} {row.op}"
    else:
        return
    words = re.sub(r"[^a-z0-9]+", " ", text.lower())
    for pattern, scope in _SCOPES:
        if re.search(rf"\b(?:{pattern})s?\b", words):
            yield scope
            return
    if says and words.strip():
        yield _NAMED
