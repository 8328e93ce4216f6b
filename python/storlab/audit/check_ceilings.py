"""Audit rule: report numbers above the limits of network, PCIe, drives, capacity or power."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from storlab.audit.check_power_boundary import boundaries
from storlab.audit.configuration_facts import (
    client_count,
    drive_count,
    is_hdd,
    metric_name,
    node_count,
    number,
    settings,
)
from storlab.audit.finding import Finding, Severity
from storlab.audit.intervals import Interval, hull, si_interval
from storlab.audit.measurements import Place, Places, Value, place_of, place_words, read_share
from storlab.audit.quantities import factor_of, operation_of, quantity_of, size_bytes
from storlab.audit.table import PublishedTable, Row
from storlab.audit.watts import watts_of
from storlab.base.units import significant

SUMMARY = "throughput, IOPS, capacity and power above what the stated hardware can do"

# Bytes per second per lane and direction after encoding; PCI Express base specifications 1 to 6.
PCIE_LANE_B_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.97e9, 5: 3.94e9, 6: 7.56e9}
NVME_LANES = 4
# The outer tracks of the fastest single-actuator drives reach about 300 MB/s. At high queue depth a
# drive serves about 100 to 500 random reads per second.
HDD_B_S = 300e6
HDD_RANDOM_READS_S = 500.0
HDD_RANDOM_S = (
    1000.0  # above the read limit: caches of drives and controllers combine and sort writes
)
HDD_SMALL_BYTES = 64 * 1024
DDR_MT_S = {3: 2133.0, 4: 3200.0, 5: 9200.0}  # fastest JEDEC grade, in MT/s

_NIC_RATE = re.compile(r"(storage_|server_|node_)?(nic|network|port|link)_(rate|speed|bandwidth)")
_NICS = re.compile(r"nics|nic_count|(nics|ports)_per_(node|server)|network_ports")
_CLIENT_NIC_RATE = re.compile(r"client_(nic|network|port|link)_(rate|speed|bandwidth)")
_CLIENT_NICS = re.compile(r"client_nics|nics_per_client|client_nic_count")
_PCIE = re.compile(r"(interface|pcie|drive|bus|host)_(generation|gen)|pcie|pcie_version")
_LANES = re.compile(r"(\w+_)?lanes|pcie_width|link_width")
_LINK_RATE = re.compile(r"(drive_|device_)?(interface|sata|sas)_(rate|speed|bandwidth)")
_POWER_LIMIT = re.compile(r"(max_)?power_(limit|max|budget)|max(imum)?_power|tdp")


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield one finding per configuration and exceeded limit, about the worst value."""
    places = Places(table)
    for config in places.configs():
        yield from _throughput(table, places, config)
        yield from _hdd(table, places, config)
        yield from _power(table, places, config)
        yield from _stated_limits(table, places, config)
    yield from _capacity(table)
    yield from _memory(table)


def _flows(places: Places, config: str) -> list[tuple[Place, Value]]:
    """Return a configuration's total throughput values, stated or computed as IOPS x block size."""
    flows = []
    for place in places.of_config(config):
        known = places.throughput(config, place)
        flows += [(place, value) for value in known.values()]
        sizes = size_bytes(place[2])
        for point, rate in places.rate(config, place, "total").items():
            if point not in known and sizes:
                span = rate.span * Interval(min(sizes), max(sizes))
                flows.append((place, Value(span, rate.rows, point)))
    return flows


def _throughput(table: PublishedTable, places: Places, config: str) -> Iterator[Finding]:
    flows = _flows(places, config)
    for limit, rows, words, severity in _links(table, config):
        over = []
        for place, value in flows:
            share = read_share(place[1])
            # Links are full duplex: reads load one direction and writes the other, so only the
            # larger part of a mix counts.
            part = 1.0 if share is None else max(share, 1 - share)
            one_way = value.span.scaled(part if share is not None else 0.5)
            if one_way.low > limit * 1.01:
                over.append((one_way.low, place, value))
        if over:
            low, place, value = max(over, key=lambda flow: flow[0])
            yield Finding(
                rule="ceilings",
                severity=severity,
                rows=list(dict.fromkeys([*(r for _, _, v in over for r in v.rows), *rows])),
                printed=f"{config}, {place_words(place)}: {_gb(value.span)} GB/s",
                recomputed=f"{words} = {significant(limit / 1e9, 4)} GB/s in one direction, and "
                f"{significant(low / 1e9, 4)} GB/s would cross it",
                why="The interface cannot transfer that much. A cache in front of it served the "
                "load, or a number is wrong.",
            )


def _gb(span: Interval) -> str:
    return str(span.scaled(1e-9))


def _links(
    table: PublishedTable, config: str
) -> Iterator[tuple[float, tuple[str, ...], str, Severity]]:
    """Yield limits of network and drive links as (B/s in one direction, row ids, text, severity).

    The severity is "error" only if every factor of the limit is stated in the table.
    """
    nodes, clients = node_count(table, config), client_count(table, config)
    for count, rate, per, end in (
        (nodes, _NIC_RATE, _NICS, "storage nodes"),
        (clients, _CLIENT_NIC_RATE, _CLIENT_NICS, "clients"),
    ):
        rates = settings(table, config, rate)
        ports = number(table, config, per)
        if count is None or not rates:
            continue
        link = max(_exactly(row) for row in rates)
        many = ports.value.high if ports is not None else 1.0
        ids = (*(row.id for row in rates), *(ports.rows if ports else ()), *count.rows)
        words = f"{count.value.high:g} {end} x {many:g} x {significant(link * 8 / 1e9, 4)} Gb/s"
        severity: Severity = "error" if ports is not None else "warning"
        if link > 0:
            yield count.value.high * many * link, ids, words, severity
    yield from _drive_links(table, config)


def _drive_links(
    table: PublishedTable, config: str
) -> Iterator[tuple[float, tuple[str, ...], str, Severity]]:
    drives = drive_count(table, config)
    if drives is None:
        return
    for row in settings(table, config, _PCIE):
        lanes = number(table, config, _LANES)
        lane = PCIE_LANE_B_S.get(int(row.value or 0))
        if lane is None or row.unit not in ("pcie_gen", "gen", "version", "", "count"):
            continue
        width = lanes.value.high if lanes is not None else NVME_LANES
        words = f"{drives.value.high:g} drives x {width:g} lanes of PCIe {row.value:g}"
        severity: Severity = "error" if lanes is not None else "warning"
        ids = (row.id, *(lanes.rows if lanes else ()), *drives.rows)
        yield drives.value.high * width * lane, ids, words, severity
    for row in settings(table, config, _LINK_RATE):
        link = _exactly(row)
        if link > 0:
            words = f"{drives.value.high:g} drives x {significant(link * 8 / 1e9, 4)} Gb/s"
            yield drives.value.high * link, (row.id, *drives.rows), words, "error"


def _exactly(row: Row) -> float:
    """Return the nominal rate of a setting in B/s; settings are exact, so no rounding applies."""
    return (row.value or 0.0) * (factor_of(row) or 0.0)


def _hdd(table: PublishedTable, places: Places, config: str) -> Iterator[Finding]:
    drives = drive_count(table, config)
    if drives is None or not drives.value.high > 0 or not is_hdd(table, config):
        return
    count = drives.value.high
    for place, value in _flows(places, config):
        if value.span.low / count > HDD_B_S:
            yield _drive_finding(
                config, place, (*value.rows, *drives.rows),
                f"{significant(value.span.low / count / 1e6, 4)} MB/s for each of {count:g} drives",
                f"A disk moves at most about {HDD_B_S / 1e6:.0f} MB/s, and only in sequence.",
            )  # fmt: skip
    for place in places.of_config(config):
        sizes = size_bytes(place[2])
        share = read_share(place[1])
        mixed = share is not None and 0 < share < 1
        if not sizes or max(sizes) > HDD_SMALL_BYTES or not (mixed or "rand" in place[0].lower()):
            continue
        limit = HDD_RANDOM_READS_S if share == 1.0 else HDD_RANDOM_S
        for value in places.rate(config, place, "total").values():
            if value.span.low / count > limit:
                yield _drive_finding(
                    config, place, (*value.rows, *drives.rows),
                    f"{significant(value.span.low / count, 4)} operations per second for each of "
                    f"{count:g} drives",
                    f"A disk serves about 100 to {limit:.0f} random operations per second.",
                )  # fmt: skip


def _drive_finding(
    config: str, place: Place, rows: tuple[str, ...], recomputed: str, limit: str
) -> Finding:
    return Finding(
        rule="ceilings",
        severity="warning",
        rows=list(dict.fromkeys(rows)),
        printed=f"{config}, {place_words(place)}",
        recomputed=recomputed,
        why=f"{limit} A cache served the load, or a number is wrong.",
    )


def _power(table: PublishedTable, places: Places, config: str) -> Iterator[Finding]:
    """Yield a finding if a single drive's mean power exceeds its stated limit."""
    drives = drive_count(table, config)
    limits = [
        row
        for row in settings(table, config, _POWER_LIMIT)
        if row.config and quantity_of(row).unit is not None and row.unit
    ]
    spans = [span for row in limits if (span := si_interval(row)) is not None]
    if drives is None or drives.value.high != 1 or not spans:
        return
    if set(boundaries(table, config)) - {"device"}:
        return  # the stated boundary includes more than the drive
    limit = hull(spans)
    for place in places.of_config(config):
        for watts in watts_of(places, config, place):
            if watts.span.low > limit.high * 1.02:
                yield Finding(
                    rule="ceilings",
                    severity="warning",
                    rows=[*watts.rows, *(row.id for row in limits)],
                    printed=f"{config}, {place_words(place)}: {watts.how}; limit "
                    f"{limits[0].printed}",
                    recomputed=f"{watts.span} W",
                    why="Mean power lies above the limit that is stated for the drive. The drive "
                    "was not in the power state with that limit, or the watts include more than "
                    "the drive.",
                )


def _stated_limits(table: PublishedTable, places: Places, config: str) -> Iterator[Finding]:
    """Yield findings for rates above a limit that the table itself states for the configuration."""
    for row in table.rows:
        name, limit = quantity_of(row).name, si_interval(row)
        is_limit = row.kind == "limit" and row.config == config and not quantity_of(row).is_claim
        if not is_limit or name not in ("throughput", "iops") or limit is None:
            continue
        over = [
            (span, claimed)
            for place in places.of_config(config)
            for claimed in places.of(config, place, name)
            if operation_of(row) in ("", "total", operation_of(claimed))
            and all(a in ("", b) for a, b in zip(place_of(row), place, strict=True))
            and (span := si_interval(claimed)) is not None
            and span.low > limit.high * 1.02
        ]
        if over:
            span, claimed = max(over, key=lambda claimed_span: claimed_span[0].low)
            yield Finding(
                rule="ceilings",
                severity="warning",
                rows=[*(r.id for _, r in over), row.id],
                printed=f"{config}, {place_words(place_of(claimed))}: "
                f"{claimed.metric} {claimed.printed}",
                recomputed=f"{row.metric} is {row.printed}",
                why="The measured value lies above the limit that the table states. The limit is "
                "wrong, a cache served a part of the load, or the value is wrong.",
            )


_ANY = re.compile(".*")
_REDUCED = re.compile(r"dedup|compress|reduction|reduced|effective")


def _capacity(table: PublishedTable) -> Iterator[Finding]:
    """Yield a finding for each configuration whose usable capacity exceeds its raw capacity."""
    capacities: dict[str, dict[str, list[Row]]] = {}
    for row in table.rows:
        words = set(metric_name(row).split("_"))
        quantity = quantity_of(row)
        if row.kind != "config" or quantity.name != "capacity" or quantity.form != "value":
            continue
        kind = "usable" if "usable" in words else "raw" if {"raw", "total"} & words else ""
        if kind and not {"drive", "node", "effective"} & words:
            capacities.setdefault(row.config, {}).setdefault(kind, []).append(row)
    for config, kinds in capacities.items():
        if any(_REDUCED.search(metric_name(row)) for row in settings(table, config, _ANY)):
            continue  # "usable" may then mean effective capacity, after data reduction
        raw, usable = kinds.get("raw", []), kinds.get("usable", [])
        spans = [[s for row in rows if (s := si_interval(row))] for rows in (raw, usable)]
        if all(spans) and hull(spans[1]).low > hull(spans[0]).high:
            yield Finding(
                rule="ceilings",
                severity="error",
                rows=[row.id for row in (*raw, *usable)],
                printed=f"{config}: usable {usable[0].printed}, raw {raw[0].printed}",
                recomputed="usable capacity is more than raw capacity",
                why="Usable capacity is raw capacity minus redundancy and spares. With compression "
                "it is called effective.",
            )


def _memory(table: PublishedTable) -> Iterator[Finding]:
    """Yield a finding if a memory transfer rate exceeds the fastest grade of its DDR generation."""
    kinds = [row for row in table.rows if row.unit == "ddr_gen" and row.value is not None]
    rates = [row for row in table.rows if row.unit.upper() in ("MT/S", "MTS") and row.value]
    for kind in kinds:
        scope = [row for row in rates if row.config == kind.config]
        fastest = DDR_MT_S.get(int(kind.value or 0))
        many = {row.value for row in kinds if row.config == kind.config}
        for row in scope:
            if fastest is not None and len(many) == 1 and row.value and row.value > fastest:
                yield Finding(
                    rule="ceilings",
                    severity="warning",
                    rows=[kind.id, row.id],
                    printed=f"{kind.printed} at {row.printed}",
                    recomputed=f"the fastest JEDEC grade of DDR{kind.value:g} is {fastest:g} MT/s",
                    why="The stated memory generation or its transfer rate is wrong.",
                )
