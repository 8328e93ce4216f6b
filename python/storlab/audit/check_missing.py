"""Audit rule: report facts that are missing from a table but needed to check its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from storlab.audit.configuration_facts import configured, covers, members, metric_name
from storlab.audit.derived import derived
from storlab.audit.finding import Finding
from storlab.audit.measurements import place_of, point_of
from storlab.audit.quantities import quantity_of
from storlab.audit.table import NOT_STATED, PublishedTable, Row

SUMMARY = "operating point, repeats, spread, meter or data-set size that is not stated"
RATES = ("throughput", "iops")
PERFORMANCE = (*RATES, "latency", "ttfb", "throughput_per_tb", "iops_per_tb")
POWERED = ("power", "energy", "power_efficiency", "energy_efficiency", "iops_per_watt")

_REPEATS = re.compile(
    r"(^|_)(runs|run_count|n_?runs|repeats?|repeated|repetitions?|iterations?|trials?|samples"
    r"|rounds|replicates?|replications?|reps|averaged_over)(_|$)|^n$"
)
_SPREAD = re.compile(
    r"(^|_)(std|stdev|stddev|sd|deviation|variance|variation|cv|ci|ci95|confidence|error|spread"
    r"|iqr|sem|uncertainty|margin|cov|coefficient|variability|repeatability|tolerance|sigma"
    r"|noise|reproducibility|min_max|error_bars?|rsd)(_|$)|_to_run(_|$)"
)
_METER = re.compile(
    r"(^|_)(power|watt|energy)?_?meters?(_|$)|metering|sensor|power_(source|tool|method|monitor)"
    r"|(^|_)(pdu|analy[sz]er|bmc|ipmi|rapl|redfish|quarch|instrument|telemetry)(_|$)"
)
_DATA = re.compile(
    r"data_?set|data_?base|working_set|test_area|lba_range|active_range|warehouses|scale_factor"
    r"|(file|test|total|checkpoint|span|object_count|footprint|index|corpus|model|db|table|volume"
    r"|lun|bucket|data)_?size"
    r"|(^|_)(objects|files|footprint)(_|$)|size_per_(worker|job|file|client)"
)
_LOAD = re.compile(
    r"(^|_)(ranks?|process(es)?|procs|clients?|client_(count|hosts|nodes)|concurren(cy|t)|streams"
    r"|threads|workers|jobs|num_?jobs|connections|users|sessions|tasks|outstanding|io_?depth"
    r"|queue_?depth|qd|gpus|accelerators|readers|writers|initiators|load_generators|vms)(_|$)"
)
_MEMORY = re.compile(r"(^|_)(memory|ram|dram|dimms?|buffer_pool|cache)(_|$)")
_DIRECT = re.compile(
    r"(^|_)(o_)?direct(_io)?(_|$)|cache_(drop|dropped|bypass|bypassed|off|disabled)|unbuffered"
    r"|(drop|bypass)_caches?|(^|_)raw_device|spdk|page_cache"
)


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield at most one note per kind of fact that the table does not state."""
    results = [row for row in table.rows if _is_result(row)]
    if not results:
        return
    names = [metric_name(row) for row in table.rows]
    yield from _values_behind(table)
    yield from _operating_point(table)
    yield from _repetition(table, results, names)
    powered = [row for row in results if quantity_of(row).name in POWERED]
    if powered and not any(_METER.search(name) for name in names):
        yield _note(powered, "power, energy or efficiency", "no meter or sensor, with its rate and "
                    "accuracy", "Sensors include different parts and differ by several percent. "
                    "Without the meter a reader cannot judge a difference.")  # fmt: skip
    rates = [row for row in results if quantity_of(row).name in (*RATES, "latency", "ttfb")]
    has_data = any(_DATA.search(n) for n in names) and any(_MEMORY.search(n) for n in names)
    if rates and not has_data and not any(_DIRECT.search(name) for name in names):
        lacking = "memory" if any(_DATA.search(n) for n in names) else "data set"
        yield _note(rates, "throughput and latency", f"the size of the {lacking} "
                    "is missing, so it cannot be compared, and direct I/O is not mentioned",
                    "A data set that fits into memory is served by memory; the numbers would not "
                    "be those of the storage.")  # fmt: skip


def _is_result(row: Row) -> bool:
    quantity = quantity_of(row)
    if row.value is None or quantity.name not in (*PERFORMANCE, *POWERED, "duration"):
        return False
    if row.kind in ("config", "limit", "context"):
        return False
    # A claimed maximum of power is a limit of the device, not a result.
    return not (quantity.name == "power" and quantity.is_claim and quantity.statistic == "max")


def _values_behind(table: PublishedTable) -> Iterator[Finding]:
    """Yield a note on ratios of two configurations if the table has a value of neither."""
    known = {
        (row.config, quantity_of(row).name)
        for row in table.rows
        if row.value is not None and quantity_of(row).form == "value" and row.config
    }
    known |= {(value.config, value.quantity.name) for value in derived(table)}
    bare = [
        row
        for row in table.rows
        if _is_result(row)
        and quantity_of(row).is_claim
        and row.compare_config
        and not any(
            (config, quantity_of(row).name) in known
            for config in (*members(row.config), *members(row.compare_config))
        )
    ]
    if bare:
        names = ", ".join(dict.fromkeys(row.metric for row in bare))
        yield _note(bare, names, "no value of either side", "A ratio without the values that it "
                    "compares can be neither recomputed nor applied.")  # fmt: skip


def _operating_point(table: PublishedTable) -> Iterator[Finding]:
    """Yield a note on measurements whose load is stated neither by their rows nor by others."""
    swept = {
        (row.config, place_of(row))
        for row in table.rows
        if row.is_measured and point_of(row) and quantity_of(row).name in RATES
    }
    silent = []
    for row in table.rows:
        name = quantity_of(row).name
        if not row.is_measured or not _is_result(row) or row.x_value not in ("", NOT_STATED):
            continue
        if name in ("throughput_per_tb", "iops_per_tb", "duration", "energy"):
            continue
        if name in POWERED and (row.config, place_of(row)) in swept:
            continue  # reported with more weight by the rule "operating_point"
        if "overall" in metric_name(row):
            continue  # a mean over all loads
        load = configured(table, row.config, "", "")
        if row.x_value == "" and load is not None and load.value.low == load.value.high:
            continue
        if row.x_value == "" and _has_load(table, row.config):
            continue
        silent.append(row)
    if silent:
        names = ", ".join(dict.fromkeys(row.metric for row in silent))
        x_name = next((row.x_name for row in silent if row.x_name), "")
        lacking = f"no value of {x_name}" if x_name else "no concurrency (clients, jobs, depth)"
        yield _note(silent, names, lacking, "Rates and latencies depend on the load. Without the "
                    "operating point they can be neither repeated nor compared.")  # fmt: skip


def _has_load(table: PublishedTable, config: str) -> bool:
    """Return whether the table states one load for a configuration, such as a client count."""
    stated: dict[str, set[float | None]] = {}
    for row in table.rows:
        if row.kind == "config" and covers(row, config) and _LOAD.search(metric_name(row)):
            stated.setdefault(metric_name(row), set()).add(row.value)
    return bool(stated) and all(len(values) == 1 for values in stated.values())


def _repetition(table: PublishedTable, results: list[Row], names: list[str]) -> Iterator[Finding]:
    # "samples_per_second" would match a word for repeats, but is a rate.
    repeated = any(_REPEATS.search(name) for name in names if "_per_second" not in name)
    if not repeated:
        why = "Without repeats a reader cannot tell whether a difference is reproducible."
        yield _note(results, f"{len(results)} results", "no number of repeats", why)
    spread = any(_SPREAD.search(name) for name in names) or any(
        quantity_of(row).statistic == "stdev" or "±" in row.printed for row in table.rows
    )
    if not spread:
        why = "Without spread or interval a reader cannot tell a difference from noise."
        yield _note(results, f"{len(results)} results", "no spread or interval", why)


def _note(rows: Iterable[Row], printed: str, lacking: str, why: str) -> Finding:
    return Finding(
        rule="missing",
        severity="note",
        rows=[row.id for row in rows],
        printed=printed,
        recomputed=f"the table states {lacking}",
        why=why,
    )
