"""Conversion of a result directory into a published table, so that the same rules apply.

Values are means over the repeats with three significant digits, as printed in a brief. Power and
efficiency are left out: power was measured, not implied, and efficiency is a ratio of sums over the
repeats, not of two printed means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import CLIENTS, Section, WorkloadPoint, describe
from storlab.audit.table import PublishedTable, Row
from storlab.base.units import exact_number, format_size
from storlab.contracts.page import Page


def _metrics(page: Page) -> dict[str, tuple[str, str, str]]:
    """Return metric, operation and unit in a published table, by column key of the comparison.

    Empty for fixed work, whose rates cover parts of a run and have no operating point.
    """
    if page.metrics.quantities:
        return {}
    split = page.operations.moved if page.operations.by_operation else ()
    return {
        "throughput_mb_s.all": ("throughput", "total", "MB/s"),
        **{
            f"throughput_mb_s.{op}": ("throughput", page.operations.name_of(op), "MB/s")
            for op in split
        },
        f"{page.operations.rate.name}.all": ("iops", "total", "IOPS"),
        **{
            f"{time}_{statistic}_ns.{op}": (f"{time}_{word}", page.operations.name_of(op), "ns")
            for statistic, word in (("mean", "avg"), ("p99", "p99"))
            for time, operations in (
                ("latency", page.operations.moved),
                ("ttfb", page.operations.first_byte),
            )
            for op in operations
        },
    }


def results_table(
    comparison: Comparison, points: Collection[WorkloadPoint] | None = None
) -> PublishedTable:
    """Return the measured cells and the targets' facts as a published table.

    Row ids are ``point id:metric.operation``. If ``points`` is given, only their cells are
    included.
    """
    rows = [*_facts(comparison)]
    keys = None if points is None else {point.key for point in points}
    for section in comparison.sections:
        for point in section.points:
            if keys is not None and point.key not in keys:
                continue
            for cell in comparison.row(point).cells.values():
                rows += _cell_rows(section, point, cell)
    name = " and ".join(store.study.study.name for store in comparison.dataset.stores)
    places = ", ".join(str(store.directory) for store in comparison.dataset.stores)
    return PublishedTable(name, places, tuple(rows))


def _cell_rows(section: Section, point: WorkloadPoint, cell: Cell) -> Iterator[Row]:
    if not cell.measured or cell.point_id is None:
        return
    plain = _is_plain(cell, point)
    for key, (metric, op, unit) in _metrics(point.page).items():
        interval = cell.values.get(key)
        if interval is None or not (plain or key.startswith(("latency", "ttfb"))):
            continue
        yield _row(
            id=f"{cell.point_id}:{key}",
            config=_config(cell.target),
            workload=_work(section, point),
            rw_mix=_mix(point),
            block_size=_block(point),
            op=op,
            metric=metric,
            x_name=section.page.load.outstanding.get(_axis(section), (section.axes.x,))[0],
            x_value=str(_of_all(point, _axis(section)) or ""),
            value=float(f"{interval.estimate:.3g}"),
            unit=unit,
            kind="measured",
        )


def _axis(section: Section) -> str:
    """Return the name of the parameter that is the operating point of a section.

    For a sweep over clients it is the per-client load (jobs, concurrency), if known for all points.
    """
    load = section.page.load.per_client
    known = all(point.params.get(load) for point in section.points)
    return load if section.axes.x == CLIENTS and known else section.axes.x


def _of_all(point: WorkloadPoint, name: str) -> Any:
    """Return a parameter's value; a load per client is multiplied by the number of clients."""
    value = point.params.get(name)
    if name == point.page.load.per_client and isinstance(value, int):
        return value * (point.clients or 1)
    return value


def _config(label: str) -> str:
    """Replace "/" and ";" in a target's label, because they separate names in tables."""
    return label.translate({ord("/"): "\u2215", ord(";"): "\u037e"})


def _is_plain(cell: Cell, point: WorkloadPoint) -> bool:
    """Return whether all operations of a cell transfer data, so that throughput = rate x size."""
    page = point.page
    others = [
        operation for operation in page.operations.main if operation not in page.operations.moved
    ]
    totals = [run.record.totals.get(operation) for run in cell.runs for operation in others]
    return not any(t is not None and t.operations for t in totals)


def _work(section: Section, point: WorkloadPoint) -> str:
    """Return the text of the workload column, with swept parameters that have no other column."""
    facet = point.page.parameters.facet if _block(point) else None  # mixed sizes have no column
    own = (point.page.parameters.mix, facet, section.axes.x)
    others = [name for name in section.axes.varying if name not in own]
    text = describe(point.page, point.params, others)
    return ", ".join(p for p in (point.workload, point.engine, text) if p)


def _mix(point: WorkloadPoint) -> str:
    share = point.params.get(point.page.parameters.mix or "")
    return f"{share:g}/{100 - share:g}" if isinstance(share, int | float) else ""


def _block(point: WorkloadPoint) -> str:
    size = point.params.get(point.page.parameters.facet or "")
    return format_size(size) if isinstance(size, int) else ""


def _facts(comparison: Comparison) -> Iterator[Row]:
    """Yield settings shared by all points and the targets' facts declared in the study."""
    points = comparison.dataset.points
    rates = [(p.params, (p.page.load.open_loop, p.page.load.level)) for p in points]
    paced = any(params.get(name) is not None for params, names in rates for name in names)
    outstanding = {
        name: names[0] for p in points for name, names in p.page.load.outstanding.items()
    }
    for name, metric in outstanding.items() if not paced else ():
        values = {_of_all(p, name) for p in points}
        value = next(iter(values)) if len(values) == 1 else None
        if isinstance(value, int):
            yield _row(id=f"study:{name}", metric=metric, value=float(value), unit="count")
    for column in comparison.dataset.targets:
        target = column.target
        label = _config(column.label)
        if target.drives is not None:
            yield _row(
                id=f"target {label}:drives",
                config=label,
                metric="drive_count",
                value=float(target.drives),
                unit="count",
            )
        if target.capacity is not None:
            yield _row(
                id=f"target {label}:capacity",
                config=label,
                metric="raw_capacity",
                value=target.capacity / 1e12,
                unit="TB",
            )


def _row(**known: str | float) -> Row:
    texts = {
        name: str(known.get(name, ""))
        for name in (
            *("id", "config", "workload", "rw_mix", "block_size", "op", "metric"),
            *("x_name", "x_value", "unit", "compare_config"),
        )
    }
    value = float(known["value"])
    return Row(
        **texts,
        value=value,
        qualifier="exact",
        kind=str(known.get("kind", "config")),
        printed=exact_number(value),
    )
