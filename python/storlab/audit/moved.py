"""Check of time x throughput against a stated data size that most cells of a table confirm."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from storlab.audit.cells import Value, facts, measured, shown
from storlab.audit.configuration_facts import covers, metric_name
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval
from storlab.audit.quantities import plain_part
from storlab.audit.table import PublishedTable

FEWEST = 2  # cells that must agree to show that each test transferred the stated size once
_SIZE = re.compile(
    r"(?:\w+_)?(?:checkpoint|data_?set|data|file|transfer|working_set|database|total)_?size"
    r"(?:_\w+)?|data_(?:read|written|moved|ingested|transferred|restored|copied|processed)"
)


@dataclass(frozen=True, slots=True)
class TimedCell:
    """Time and throughput that a published table states for one cell."""

    time: Value
    rate: Value

    @property
    def moved(self) -> Interval:
        """Transferred bytes: stated time times stated throughput."""
        return self.time.interval * self.rate.interval


def odd_times(table: PublishedTable, rule: str) -> Iterator[Finding]:
    """Yield findings on cells whose time x throughput differs from a size that most cells match."""
    cells = _timed_cells(table)
    for size in (*facts(table), *measured(table)):
        row = size.rows[0]
        if size.unit or not _SIZE.fullmatch(metric_name(row)):
            continue
        candidates = [
            c for c in cells
            if covers(row, c.rate.config) and size.place[0] in ("", c.rate.place[0])
        ]  # fmt: skip
        agree = [c for c in candidates if c.moved.meets(size.interval)]
        differ = [c for c in candidates if not c.moved.meets(size.interval)]
        if len(agree) < FEWEST or len(differ) * 2 > len(agree):
            continue
        for cell in differ:
            time, rate = cell.time, cell.rate
            factor = time.quantity.unit.factor if time.quantity.unit is not None else 1.0
            needed = (size.interval / rate.interval).scaled(1 / factor)
            yield Finding(
                rule=rule,
                severity="warning",
                rows=[time.rows[0].id, rate.rows[0].id, row.id],
                printed=f"{time.rows[0].metric} {shown(time.rows[0])} at {rate.text} "
                f"({rate.config}, {rate.place[0]})",
                recomputed=f"{size.text} / {rate.text} = {needed} {time.rows[0].unit}",
                why=f"Time x throughput is the {row.metric.replace('_', ' ')} in {len(agree)} "
                "other cells, but not in this one: one of its two numbers belongs to another cell.",
            )


def _timed_cells(table: PublishedTable) -> list[TimedCell]:
    groups: defaultdict[tuple[object, ...], dict[str, Value]] = defaultdict(dict)
    for value in measured(table):
        q = value.quantity
        means = q.statistic in ("", "avg") and not plain_part(value.rows[0]) and not value.unit
        if means and q.name in ("throughput", "duration"):
            groups[value.config, value.place].setdefault(q.name, value)
    return [TimedCell(g["duration"], g["throughput"]) for g in groups.values() if len(g) == 2]
