"""Bar charts of measured work divided by declared capacity or price.

The charts show each mix at the last point of its sweep. Work is the quantity that the workload
family compares per terabyte or price, or for small blocks the operation rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from storlab.analysis import density
from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section
from storlab.base.units import TB, format_number
from storlab.figures.axis_extent import cut_words
from storlab.figures.common import clients_of, is_small, slug
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, in_panels
from storlab.figures.plot import Plot, heights, linear, series_of
from storlab.model.decision import Interval
from storlab.model.target import Target
from storlab.words.figures import ranges_title

Divide = Callable[[Cell, Target, str], Interval | None]


def _terabytes(size: int | None) -> float | None:
    return size / TB if size else None


@dataclass(frozen=True, slots=True)
class Worth:
    """Kind of chart: work per capacity, work per price, or cost per work."""

    name: str
    words: str  # for example "per terabyte of raw capacity"
    unit: str  # template with {unit} of the work and {money}, the currency
    say: str  # template of a comparison, see storlab.words.figures
    fact: Callable[[Target], float | None]  # declared value: capacity in TB, or price
    divide: Divide
    costs: bool = False  # whether to divide the fact by the work instead
    money: bool = False  # whether the fact is a price


RAW = Worth(
    "per-tb",
    "per terabyte of raw capacity",
    "{unit}/TB",
    "{larger} does {times} as much per terabyte as {smaller}",
    lambda target: _terabytes(target.capacity),
    density.per_tb,
)
USABLE = replace(
    RAW,
    name="per-usable-tb",
    words="per terabyte of usable capacity",
    unit="{unit} per usable TB",
    say="{larger} does {times} as much per usable terabyte as {smaller}",
    fact=lambda target: _terabytes(target.usable),
    divide=density.per_usable_tb,
)
MONEY = Worth(
    "per-money",
    "for the money that the storage costs",
    "{unit} per 1,000 {money}",
    "{larger} does {times} as much for the same money as {smaller}",
    lambda target: target.storage_price,
    density.per_money,
    money=True,
)
COST = Worth(
    "cost-of",
    "cost of all that the study declares, over what is done",
    "{money} per {unit}",
    "{larger} costs {times} as much for the same work as {smaller}",
    density.whole_cost,
    lambda cell, target, key: density.cost_per(cell, target, key, 1e-3),
    costs=True,
    money=True,
)


def draw_density(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw work per raw terabyte, and per usable terabyte if targets declare it."""
    return _of_ways(comparison, sections, (RAW, USABLE))


def draw_money(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw work per price, and cost per work, if all prices are in one currency."""
    targets = [column.target for column in comparison.dataset.targets]
    if len(density.currencies(targets)) != 1:
        return []
    return _of_ways(comparison, sections, (MONEY, COST))


def _of_ways(
    comparison: Comparison, sections: Sequence[Section], ways: Sequence[Worth]
) -> list[Figure]:
    families: dict[tuple[str, str, str], list[Section]] = {}
    for section in sections:
        families.setdefault(section.family, []).append(section)
    for members in families.values():  # keep only the points with most cluster clients
        most = max(clients_of(section) for section in members)
        members[:] = [section for section in members if clients_of(section) == most]
    return [
        figure
        for way in ways
        for members in families.values()
        for figure in in_panels(
            comparison, members, partial(_figure, way=way), partial(_panels_title, way=way)
        )
    ]


def _column(mixes: Mixes) -> Column | None:
    """Return the column of the work: operation rate for small blocks, else the family's choice."""
    comparison, page = mixes.comparison, mixes.section.page
    keys = [key for question in page.metrics.questions if question.per for key in question.keys]
    if is_small(mixes.section, mixes.facet):
        keys.insert(0, page.operations.rate.key)
    columns = (comparison.column(key) for key in keys)
    return next(
        (column for column in columns if column is not None and column.better == "more"), None
    )


def _figure(mixes: Mixes, way: Worth) -> Figure | None:
    """Draw one chart; None if fewer than two targets have values."""
    column = _column(mixes)
    if column is None:
        return None
    bars = _bars(mixes, column, way)
    if len({bar["target"] for bar in bars}) < 2:
        return None
    unit, remark = _unit(mixes, column, way), cut_words(bars)
    place = mixes.whole_place
    title = _title([mixes], column, way)
    label = f"{column.label} {way.words}"
    return mixes.figure(
        kind="worth",
        name=mixes.name(way.name, slug(column.name)),
        title=title,
        shows=f"Bar chart of {label} ({unit}) by mix",
        spec=_plot(mixes, bars, unit).spec(mixes.size.width, mixes.size.height),
        columns=["mix", "target", f"{unit}, mean [95 %]", "declared"],
        rows=[[bar["x"], bar["target"], bar["text"], bar["declared"]] for bar in bars],
        note=f"{place}; what it is divided by is declared in the study",
        remark=remark,
    )


def _unit(mixes: Mixes, column: Column, way: Worth) -> str:
    targets = [entry.target for entry in mixes.comparison.dataset.targets]
    money = next(iter(density.currencies(targets)), "")
    page, own = mixes.section.page, column.unit
    if column.key == page.operations.rate.key:
        own = page.operations.rate_short
    elif own == "1/s":  # the label names what is counted: samples per second
        own = f"{column.label.removesuffix(' per second')}/s"
    if way.costs:
        own = "GB/s" if own == "MB/s" else f"1,000 {own}"
    return way.unit.format(unit=own, money=money)


def _bars(mixes: Mixes, column: Column, way: Worth) -> list[dict[str, Any]]:
    targets = {entry.label: entry.target for entry in mixes.comparison.dataset.targets}
    bars = []
    for mix, index, cell in mixes.cells():
        target = targets[cell.target]
        value = way.divide(cell, target, column.key)
        fact = way.fact(target)
        if value is None or fact is None:
            continue
        bars.append(
            {
                "x": mix,
                **series_of(cell, index),
                **heights(value),
                "declared": f"{target.currency} {fact:,.0f}"
                if way.money
                else f"{format_number(fact)} TB",
            }
        )
    return bars


def _panels_title(some: Sequence[Mixes], way: Worth) -> str:
    columns = {column.key: column for m in some if (column := _column(m)) is not None}
    if len(columns) > 1:
        return f"Work {way.words}"
    return _title(some, next(iter(columns.values())), way)


def _title(some: Sequence[Mixes], column: Column, way: Worth) -> str:
    comparison, ratios = some[0].comparison, {}
    facts = {entry.label: way.fact(entry.target) for entry in comparison.dataset.targets}
    base = facts[comparison.baseline]
    rows = [comparison.row(point) for mixes in some for point in mixes.points]
    for target in comparison.others:
        fact = facts[target]
        known = [row.ratios[target][column.key].ratio for row in rows
                 if column.key in row.ratios[target]]  # fmt: skip
        if base and fact and known:
            ratios[target] = [_divided(ratio, base / fact, way) for ratio in known]
    noun = f"{column.label} {way.words}"
    return ranges_title(ratios, comparison.baseline, noun, way.say) or noun


def _divided(ratio: Interval, share: float, way: Worth) -> Interval:
    """Convert a ratio of work to one of work per capacity or price; invert it for costs.

    ``share`` is the baseline's capacity or price divided by that of the other target.
    """
    divided = ratio.scaled(share)
    return divided.inverse() if way.costs else divided


def _plot(mixes: Mixes, bars: list[dict[str, Any]], unit: str) -> Plot:
    top = 1.12 * max(bar["high"] for bar in bars)
    plot = mixes.plot(linear("value", unit, top, form="~s" if top >= 1e6 else ",~r"))
    words = {
        "series": "target",
        "x": "mix",
        "text": f"{unit}, mean [95 %]",
        "declared": "declared",
        "runs": "runs",
    }
    plot.bars("bars", bars, words)
    plot.labels("bars", mixes.size.width)
    return plot
