"""Columns of the table that compares targets: the metrics of each workload family, in page order.

Most columns follow from the family's :class:`~storlab.contracts.page.Page`; CPU, errors and power
have the same names in all families.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from storlab.contracts.page import RUNS, Page, Quantity
from storlab.contracts.registry import FAMILIES
from storlab.model.decision import Better

PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}
STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}
FAMILY_DISTRIBUTIONS = {
    time.name: time for workload in FAMILIES.values() for time in workload.page.metrics.times
}
"""Time distributions that one workload family defines itself, by name.

They are not I/O latencies, but are stored as latencies of a separate operation.
"""
TIMES = {
    "latency": "latency",
    "ttfb": "time to first byte",
    "intended_latency": "latency from the intended start",
    **{time.name: time.words for time in FAMILY_DISTRIBUTIONS.values()},
}
"""Metric-name prefixes of time distributions, with their words."""


@dataclass(frozen=True)
class Column:
    """Metric in a column of the comparison table; ``better`` says if more or less is better.

    Derived properties are cached, because every cell of a large campaign reads them.
    """

    name: str
    operation: str
    label: str
    unit: str
    better: Better
    percent: float | None = None  # percentile, taken from merged histograms
    is_power: bool = False  # derived from metered joules within one power boundary
    short: str = ""  # column heading
    most: float | None = None  # upper bound of the quantity, if any

    @cached_property
    def key(self) -> str:
        """Unique key of the column, such as ``latency_p99_ns.read``."""
        return f"{self.name}.{self.operation}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which a study may refer to the metric: the key, the name, the name alone.

        The latter is without operation and unit, such as ``throughput`` or ``latency_mean``.
        """
        unit = "_" + self.unit.lower().replace("/", "_")
        return (self.key, self.name, self.name.removesuffix(unit))

    @property
    def is_intended(self) -> bool:
        """Whether the column is a latency from the intended start (open loop)."""
        return self.name.startswith("intended_")

    @cached_property
    def time(self) -> str:
        """Key in ``TIMES`` of the column's time distribution; empty if the metric is not a time."""
        return next((t for t in TIMES if self.name.startswith(f"{t}_")), "")

    @cached_property
    def is_latency(self) -> bool:
        """Whether the column is an I/O latency, and so depends on the concurrency."""
        return bool(self.time) and self.time not in FAMILY_DISTRIBUTIONS

    @property
    def account_name(self) -> str:
        """Name of the column's metric in an energy ``Account``."""
        return self.name if self.operation == "all" else self.key


def noun_of(page: Page) -> str:
    """Return a workload family's plural noun for its operations, such as requests."""
    return page.operations.rate.title.partition("/")[0]


def plural_of(operation: str) -> str:
    """Return the plural of an operation's name: ``reads``, ``flushes``."""
    return f"{operation}es" if operation.endswith("sh") else f"{operation}s"


def _rates(page: Page) -> Iterator[Column]:
    unit = "1/s"
    noun = noun_of(page)
    yield Column("throughput_mb_s", "all", "throughput", "MB/s", "more", short="throughput")
    if page.operations.by_operation:
        for operation in page.operations.moved:
            name = page.operations.name_of(operation)
            label = f"{name} throughput"
            yield Column("throughput_mb_s", operation, label, "MB/s", "more", short=name)
    yield Column(
        page.operations.rate.name, "all", noun, unit, "more", short=page.operations.rate_short
    )
    if page.operations.by_operation:
        for operation in page.operations.main:
            name = page.operations.name_of(operation)
            yield Column(
                page.operations.rate.name,
                operation,
                f"{name} {noun}",
                unit,
                "more",
                short=f"{name}s",
            )
    for operation in page.operations.auxiliary:
        many = plural_of(page.operations.name_of(operation))
        label = f"{many} per second"
        yield Column(page.operations.rate.name, operation, label, unit, "more", short=f"{many}/s")


def time_keys(page: Page, time: str, operations: Sequence[str]) -> list[str]:
    """Return the keys of mean and percentiles of one time distribution, in table order."""
    return [
        f"{time}_{statistic}_ns.{operation}"
        for operation in operations
        for statistic in ("mean", *page.operations.percentiles)
    ]


def _times(page: Page, time: str, operations: Sequence[str]) -> Iterator[Column]:
    more = {"latency": "", "ttfb": " first byte", "intended_latency": ""}[time]
    after = ", intended" if time == "intended_latency" else ""
    for operation in operations:
        name = page.operations.name_of(operation)
        for statistic in ("mean", *page.operations.percentiles):
            factor_words = STATISTICS[statistic]
            yield Column(
                f"{time}_{statistic}_ns",
                operation,
                f"{name} {TIMES[time]}, {factor_words}",
                "ns",
                "less",
                PERCENTS.get(statistic),
                short=f"{name}{more} {factor_words}{after}",
            )


def _power(name: str, label: str, unit: str, better: Better, short: str) -> Column:
    return Column(name, "all", label, unit, better, is_power=True, short=short)


ERRORS: tuple[Column, ...] = (
    Column("errors", "all", "failed requests", "1", "less", short="errors"),
    Column("error_percent", "all", "share of failed requests", "%", "less", short="errors"),
)
COMMON: tuple[Column, ...] = (
    Column(
        "concurrency_effective", "all", "effective concurrency", "1", "",
        short="effective concurrency",
    ),
    Column(
        "write_amplification", "all", "write amplification", "1", "less",
        short="write amplification",
    ),
    Column("throughput_mb_s_tb", "all", "throughput per TB", "MB/s/TB", "more", short="per TB"),
    _power("power_w", "mean power", "W", "less", "power"),
    _power("power_p95_w", "power, 95th percentile of the readings", "W", "less", "power p95"),
    _power("idle_power_w", "idle power", "W", "less", "idle power"),
    _power("energy_j", "energy of the measure window", "J", "", "energy"),
    _power("efficiency_mb_s_w", "throughput per watt", "MB/s/W", "more", "per watt"),
    _power("efficiency_tb_kwh", "data per energy", "TB/kWh", "more", "per energy"),
)  # fmt: skip
NET = _power(
    "efficiency_net_mb_s_w", "throughput per watt above idle", "MB/s/W", "more",
    "per watt above idle",
)  # fmt: skip


def rate_per_watt(page: Page) -> Column:
    """Return the column for operations per joule, labelled such as ``requests per watt``."""
    noun = noun_of(page)
    unit = f"{page.operations.rate_short}/W"
    return _power(
        f"{page.operations.rate.name}_w", f"{noun} per watt", unit, "more", f"{noun} per watt"
    )


def _own(quantities: Sequence[Quantity]) -> Iterator[Column]:
    """Yield the columns of metrics that a workload family defines itself."""
    for q in quantities:
        statistic = q.name.split("_")[-2] if q.time else ""
        yield Column(
            q.name, q.operation, q.title, q.unit, q.better, PERCENTS.get(statistic),
            is_power=q.power, short=q.short or q.title, most=q.most,
        )  # fmt: skip


def columns_of(page: Page) -> list[Column]:
    """Return all columns that runs of a workload family may have values for."""
    if page.metrics.quantities:
        own = list(_own(page.metrics.quantities))
        keys = {column.key for column in own}
        others = [
            *_rates(page),
            *ERRORS,
            *_own(page.metrics.costs),
            *COMMON,
            rate_per_watt(page),
            NET,
        ]
        return [*own, *(column for column in others if column.key not in keys)]
    return [
        *_rates(page),
        *_times(page, "latency", (*page.operations.main, *page.operations.auxiliary)),
        *_times(page, "ttfb", page.operations.first_byte),
        *_times(page, "intended_latency", page.operations.main),
        *ERRORS,
        *_own(page.metrics.costs),
        *COMMON,
        rate_per_watt(page),
        NET,
    ]


def columns_of_all(pages: Sequence[Page]) -> tuple[Column, ...]:
    """Return all columns that runs of several workload families may have values for."""
    # The latencies that are tested for drift, which tables of a family's own metrics may omit.
    tested = (
        column
        for page in pages
        for time in ("latency", "intended_latency")
        for column in _times(page, time, page.operations.main)
    )
    columns: dict[str, Column] = {}
    for column in (*(column for page in pages for column in columns_of(page)), *tested):
        columns.setdefault(column.key, column)
    return tuple(columns.values())


def groups_of(page: Page) -> dict[str, list[str]]:
    """Return the column keys of each table of a workload family's own metrics, by caption."""
    groups: dict[str, list[str]] = {}
    for quantity in page.metrics.quantities:
        groups.setdefault(quantity.group, []).append(quantity.key)
    return groups


def label_of(page: Page, column: Column, *, whole: bool = False) -> str:
    """Return the label of a column.

    A metric that the workload family defines has its title. Any other column has its full label if
    ``whole`` is true or the family defines metrics of its own, and otherwise its short heading.
    """
    own = (q.title for q in page.metrics.quantities if q.key == column.key)
    return next(own, column.label if page.metrics.quantities or whole else column.short)


def name_of(page: Page, column: Column) -> str:
    """Return the name of a column in a sentence, such as ``p99 read latency``."""
    own = next((q for q in page.metrics.quantities if q.key == column.key), None)
    if column.key == THROUGHPUT:
        return "throughput"
    if own is not None and own.time:
        base, _, statistic = own.title.rpartition(", ")
        return f"{statistic} {base}"
    if own is not None:
        return own.title
    if column.key == page.operations.rate.key:
        return f"{noun_of(page)} per second"
    if not column.time:
        return column.label
    statistic = STATISTICS[column.name.split("_")[-2]]
    return f"{statistic} {page.operations.name_of(column.operation)} {TIMES[column.time]}"


def short_of(page: Page, column: Column) -> str:
    """Return the short heading of a column, preferring the one that the workload family defines."""
    own = (q.short or q.title for q in page.metrics.quantities if q.key == column.key)
    return next(own, column.short)


THROUGHPUT = "throughput_mb_s.all"
COLUMNS = columns_of_all([workload.page for workload in FAMILIES.values()])
RATES_PER_WATT = {rate_per_watt(workload.page).name for workload in FAMILIES.values()}


def table_keys(page: Page) -> list[str]:
    """Return the keys of the columns in the first table of a section."""
    if page.metrics.quantities:
        return [quantity.key for quantity in page.metrics.quantities]
    several = len(page.operations.percentiles) > 1  # then latencies have their own table
    # Operations that transfer data are shown by throughput, others by operations per second.
    rates = [
        c.key
        for c in _rates(page)
        if c.name != page.operations.rate.name or c.operation not in page.operations.moved
    ]
    times = time_keys(
        page, "latency", (*(() if several else page.operations.main), *page.operations.auxiliary)
    )
    intended = [] if several else time_keys(page, "intended_latency", page.operations.moved)
    return [
        *rates,
        *times,
        *intended,
        "errors.all",
        "concurrency_effective.all",
        *([] if page.operations.by_operation else ["power_w.all"]),  # power has its own section
        "efficiency_mb_s_w.all",
        *(["throughput_mb_s_tb.all"] if page.operations.by_operation else []),
    ]


def run_keys(page: Page) -> list[str]:
    """Return the keys of the columns in the table of all runs."""
    if page.metrics.quantities:
        firsts = [keys[0] for keys in groups_of(page).values()]
        chosen = [q.key for q in page.metrics.quantities if q.compared or q.key in firsts]
        return list(dict.fromkeys([*chosen, "cpu_s_per_gb.all", "power_w.all", "energy_j.all"]))
    rates = [
        c.key
        for c in _rates(page)
        if c.name != page.operations.rate.name or c.operation in ("all", *page.operations.auxiliary)
    ]
    several = len(page.operations.percentiles) > 1
    operations = page.operations.moved if several else page.operations.main
    chosen = [
        f"latency_{statistic}_ns.{operation}"
        for operation in (*operations, *page.operations.auxiliary)
        for statistic in ("mean", "p99")
    ]
    chosen += [
        f"ttfb_{s}_ns.{operation}"
        for operation in page.operations.first_byte
        for s in ("mean", "p99")
    ]
    if not several:
        chosen += time_keys(page, "intended_latency", page.operations.moved)
    return [
        *rates,
        *chosen,
        "errors.all",
        "concurrency_effective.all",
        "power_w.all",
        "energy_j.all",
        *(cost.key for cost in page.metrics.costs if cost.group == RUNS),
    ]


def ratio_keys(page: Page) -> list[str]:
    """Return the keys of the columns that get a ratio to the baseline."""
    power = ["power_w.all", "efficiency_mb_s_w.all", f"{page.operations.rate.name}_w.all", NET.key]
    if page.metrics.quantities:
        own = [quantity.key for quantity in page.metrics.quantities if quantity.compared]
        return list(dict.fromkeys([*own, *power]))
    times = [
        f"{time}_{statistic}_ns.{operation}"
        for time, operations in (
            ("latency", (*page.operations.main, *page.operations.auxiliary)),
            ("ttfb", page.operations.first_byte),
            ("intended_latency", page.operations.main),
        )
        for operation in operations
        for statistic in ("mean", "p99")
    ]
    rates = [
        c.key for c in _rates(page) if c.name != page.operations.rate.name or c.operation == "all"
    ]
    return [*rates, *times, *power]


def ratio_table_keys(page: Page) -> list[str]:
    """Return the ratio columns that the brief's table of ratios shows."""
    left_out = {
        f"{page.operations.rate.name}.all",
        "power_w.all",
        f"{page.operations.rate.name}_w.all",
        NET.key,
    }
    return [key for key in ratio_keys(page) if key not in left_out]


RATIO_KEYS = tuple(dict.fromkeys(k for w in FAMILIES.values() for k in ratio_keys(w.page)))
"""Ratio columns of all workload families."""
