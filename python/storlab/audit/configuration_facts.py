"""Facts that a table states about configurations: drives, nodes, network, outstanding I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from storlab.audit.intervals import Interval, hull
from storlab.audit.table import PublishedTable, Row

_SETTINGS = ("config", "context", "limit")
_DEPTH = re.compile(r"^(io_?depth|queue_?depth|qd|outstanding(_ios?)?)$")
_JOBS = re.compile(r"^(num_?jobs?|jobs|processes)(_tested|_used)?$|^fio_jobs$")
_STREAMS = re.compile(
    r"^(\w*_)?(workers|threads|concurrency|concurrent(_\w+)?|streams|connections)(_tested|_used)?$"
)
_PER_CLIENT = re.compile(r"^(\w+)_per_(client|host|load_generator)$")
_CLIENTS = re.compile(r"^(clients?|client_(count|nodes)|load_generators|hosts|num_clients)$")
_NODES = re.compile(
    r"^(servers?|nodes|cluster_nodes|storage_(nodes|servers)|(node|server)_count|num_nodes)$"
)
_DRIVES = re.compile(r"^(drives?|drive_count|num_drives|disks?|disk_count|ssds|hdds|ssd_count)$")
_DRIVES_PER_NODE = re.compile(r"^(drives|disks|ssds|hdds)_per_(node|server)$")
_COUNTED = re.compile(r"(?<![\w.])(\d+)\s*[x×]\s*(?:[\w.]+\s+)*?(HDD|SSD|disk|drive)s?\b", re.I)


@dataclass(frozen=True, slots=True)
class Fact:
    """Number that follows from rows of a table; only a lower bound if ``complete`` is False."""

    value: Interval
    rows: tuple[str, ...]
    complete: bool = True
    words: str = ""


def metric_name(row: Row) -> str:
    """Return the name of a row's metric in lower case with underscores."""
    return re.sub(r"[^a-z0-9]+", "_", row.metric.strip().lower()).strip("_")


def covers(row: Row, config: str) -> bool:
    """Return whether a row names a configuration, alone or in a list, or applies to all."""
    if row.config in ("", config):
        return True
    return config in members(row.config)


def members(config: str) -> list[str]:
    """Return the configurations named in a cell such as ``A / B``."""
    return [part.strip() for part in re.split(r"\s+/\s+|\s*;\s*", config) if part.strip()]


def settings(table: PublishedTable, config: str, pattern: re.Pattern[str]) -> list[Row]:
    """Return the rows for a configuration that state a setting whose name matches ``pattern``.

    Rows that name the configuration take precedence over rows for all configurations.
    """
    rows = [
        row
        for row in table.rows
        if row.kind in _SETTINGS
        and row.value is not None
        and covers(row, config)
        and pattern.fullmatch(metric_name(row))
    ]
    return [row for row in rows if row.config] or rows


def number(table: PublishedTable, config: str, pattern: re.Pattern[str]) -> Fact | None:
    """Return the range of values stated for a setting, or None if there are none."""
    rows = settings(table, config, pattern)
    if not rows:
        return None
    values = [row.value for row in rows if row.value is not None]
    return Fact(Interval(min(values), max(values)), tuple(row.id for row in rows))


def drive_count(table: PublishedTable, config: str) -> Fact | None:
    """Return the number of drives of a configuration, or None if it is not stated.

    It is stated directly, as drives per node x nodes, or in the configuration's name ("6x SSD").
    """
    per_node = number(table, config, _DRIVES_PER_NODE)
    nodes = number(table, config, _NODES)
    if per_node is not None and nodes is not None:
        return Fact(per_node.value * nodes.value, (*per_node.rows, *nodes.rows))
    if per_node is not None:
        return None
    stated = number(table, config, _DRIVES)
    if stated is not None and nodes is None:
        return stated
    named = _COUNTED.findall(config)
    if len(named) == 1 and nodes is None:
        count = float(named[0][0])
        return Fact(Interval(count, count), ())
    return None


def node_count(table: PublishedTable, config: str) -> Fact | None:
    """Return the number of storage servers of a configuration, or None if not stated."""
    return number(table, config, _NODES)


def client_count(table: PublishedTable, config: str) -> Fact | None:
    """Return the number of clients that load a configuration, or None if not stated."""
    return number(table, config, _CLIENTS)


def is_hdd(table: PublishedTable, config: str) -> bool:
    """Return whether the table describes a configuration as made of rotating disks only."""
    rows = [row for row in table.rows if row.config and covers(row, config)]
    words = " ".join([config, *(f"{r.metric} {r.printed}" for r in rows if r.kind == "config")])
    words = words.replace("_", " ")
    rotating = re.search(r"\bHDDs?\b|\bhard (disk )?drives?\b|\b\d+k? rpm\b", words, re.I)
    flash = re.search(r"\bSSDs?\b|\bNVMe\b|\bflash\b|\bcache\b|\bhybrid\b", words, re.I)
    return bool(rotating) and not flash


def configured(table: PublishedTable, config: str, x_name: str, x_value: str) -> Fact | None:
    """Return the configured outstanding I/O at an operating point, or None if not stated.

    It is queue depth x jobs (x clients), or the number of concurrent streams with one request each.
    If only depth or only jobs is stated, the result is a lower bound.
    """
    name = re.sub(r"[^a-z0-9]+", "_", x_name.strip().lower()).strip("_")
    x = _x_fact(x_value)
    depth = x if x and _DEPTH.fullmatch(name) else number(table, config, _DEPTH)
    jobs = x if x and _JOBS.fullmatch(name) else number(table, config, _JOBS)
    streams = x if x and _STREAMS.fullmatch(name) else number(table, config, _STREAMS)
    clients = x if x and _CLIENTS.fullmatch(name) else number(table, config, _CLIENTS)
    per_client = [
        row
        for row in settings(table, config, _PER_CLIENT)
        if (match := _PER_CLIENT.fullmatch(metric_name(row)))
        and (_JOBS.fullmatch(match[1]) or _STREAMS.fullmatch(match[1]))
    ]
    if per_client and clients is not None:
        jobs_of_client = hull(Interval(r.value, r.value) for r in per_client if r.value is not None)
        ids = tuple(row.id for row in per_client)
        jobs = Fact(jobs_of_client * clients.value, (*ids, *clients.rows))
    elif jobs is not None and clients is not None:
        return None  # the table does not state whether jobs are per client or in total
    if streams is not None and depth is None and jobs is None:
        return Fact(streams.value, streams.rows, True, _words(streams.value, "streams"))
    if depth is None and jobs is None:
        return None
    parts = [
        (fact, word)
        for fact, word in ((depth, "queue depth"), (jobs, "jobs"), (streams, "threads"))
        if fact is not None
    ]
    value, rows = Interval(1, 1), tuple[str, ...]()
    for fact, _ in parts:
        value, rows = value * fact.value, (*rows, *fact.rows)
    words = " x ".join(_words(fact.value, word) for fact, word in parts)
    return Fact(value, rows, depth is not None and jobs is not None, words)


def _x_fact(text: str) -> Fact | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return Fact(Interval(value, value), ())


def _words(value: Interval, word: str) -> str:
    return f"{word} {value}"


def is_load_x(x_name: str) -> bool:
    """Return whether a swept parameter sets outstanding I/O: depth, jobs, workers or clients."""
    name = re.sub(r"[^a-z0-9]+", "_", x_name.strip().lower()).strip("_")
    return any(p.fullmatch(name) for p in (_DEPTH, _JOBS, _STREAMS, _CLIENTS)) or name in (
        "concurrency",
        "outstanding",
    )


_PACED = re.compile(
    r"(^|_)(target|offered|arrival|request|fixed|constant)_?(load|rate|iops|qps|ops|throughput|tps)"
    r"|rate_?(limit|iops|cap)|open_?loop|poisson|throttl|think_?time|(^|_)pac(ed|ing)(_|$)"
    r"|(^|_)(iops|qps|tps|load)_(target|offered|percent)|max_rate|^(iops|qps|tps|rate)$"
)


def is_paced(table: PublishedTable, config: str, x_names: Iterable[str]) -> bool:
    """Return whether operations were issued at a fixed rate (open loop).

    Queue depth and jobs are then only upper limits of the load.
    """
    rows = [row for row in table.rows if row.kind == "config" and covers(row, config)]
    texts = [*x_names, *(f"{row.metric} {row.printed}" for row in rows)]
    return any(_PACED.search(re.sub(r"[^a-z0-9]+", "_", text.lower())) for text in texts)
