"""Facts that a table states about its configurations: drives, nodes, network, outstanding I/O."""

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
    """A number that follows from rows of the table. ``complete`` is False for a lower bound."""

    value: Interval
    rows: tuple[str, ...]
    complete: bool = True
    words: str = ""


def metric_name(row: Row) -> str:
    """The metric's name in lower case with underscores."""
    return re.sub(r"[^a-z0-9]+", "_", row.metric.strip().lower()).strip("_")


def covers(row: Row, config: str) -> bool:
    """Whether a row speaks about a configuration: by its name, in a list of names, or of all."""
    if row.config in ("", config):
        return True
    return config in members(row.config)


def members(config: str) -> list[str]:
    """The configurations that a cell such as ``A / B`` names."""
    return [part.strip() for part in re.split(r"\s+/\s+|\s*;\s*", config) if part.strip()]


def settings(table: PublishedTable, config: str, pattern: re.Pattern[str]) -> list[Row]:
    """Rows of settings whose metric's name fits; those that name the configuration win."""
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
    """One setting as the range of values that the table prints for it, exactly as printed."""
    rows = settings(table, config, pattern)
    if not rows:
        return None
    values = [row.value for row in rows if row.value is not None]
    return Fact(Interval(min(values), max(values)), tuple(row.id for row in rows))


def drive_count(table: PublishedTable, config: str) -> Fact | None:
    """Drives of a configuration: stated, or per node times nodes, or counted in its name."""
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
    """Storage servers of a configuration."""
    return number(table, config, _NODES)


def client_count(table: PublishedTable, config: str) -> Fact | None:
    """Clients that load a configuration."""
    return number(table, config, _CLIENTS)


def is_hdd(table: PublishedTable, config: str) -> bool:
    """Whether the table says that this configuration is made of rotating disks only."""
    rows = [row for row in table.rows if row.config and covers(row, config)]
    words = " ".join([config, *(f"{r.metric} {r.printed}" for r in rows if r.kind == "config")])
    words = words.replace("_", " ")
    rotating = re.search(r"\bHDDs?\b|\bhard (disk )?drives?\b|\b\d+k? rpm\b", words, re.I)
    flash = re.search(r"\bSSDs?\b|\bNVMe\b|\bflash\b|\bcache\b|\bhybrid\b", words, re.I)
    return bool(rotating) and not flash


def configured(table: PublishedTable, config: str, x_name: str, x_value: str) -> Fact | None:
    """Outstanding I/O as configured at an operating point; None where too little is stated.

    Queue depth x jobs (x clients), or concurrent streams that hold one request each. With one of
    depth and jobs missing it is a lower bound.
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
        return None  # jobs in all, or of each client: not said
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
    """Whether a swept parameter is one that sets outstanding I/O: depth, jobs, workers, clients."""
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
    """Whether operations came at a given rate, so that depth and jobs are only an upper limit."""
    rows = [row for row in table.rows if row.kind == "config" and covers(row, config)]
    texts = [*x_names, *(f"{row.metric} {row.printed}" for row in rows)]
    return any(_PACED.search(re.sub(r"[^a-z0-9]+", "_", text.lower())) for text in texts)
