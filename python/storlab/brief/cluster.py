"""Section of a brief about the clients of a cluster: balance, start times and clocks.

Briefs of runs on a single machine do not have this section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

from storlab.analysis import digits
from storlab.analysis.clients import (
    Seen,
    balance_of,
    by_client,
    clients_of,
    endings_of,
    has_clients,
)
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.dataset import directory_names
from storlab.analysis.points import Section
from storlab.base.units import NS_PER_S, format_number
from storlab.brief.cluster_maxima import clients_words, fast_facts, maxima_tables, scaling_tables
from storlab.brief.flags import meaning_of
from storlab.brief.model import DataTable, ExtraSection, FactTable, FigureGroup, Number
from storlab.brief.tables import Leaf, Scales, table_of
from storlab.contracts.services import dividing_family
from storlab.figures.common import last_point, place_of
from storlab.words.text import BIAS, and_list, latency_text, plural, sentence_case
from storlab.workloads.common.flags import CLIENT_FLAGS

NONE = Number("–", missing=True)
MOST_ROWS = 32  # rows in the table of clients
MOST_FLAGGED = 4  # places listed in one note
PER_CLIENT = (
    "What a workload says is done by each client: jobs, queue depth and rates are per client, and "
    "each has data of its own. Outstanding operations, rates and latencies are those of all "
    "clients together."
)
DIVIDED = (
    "one work for all clients, of which each does a share; the whole has ended when the last one "
    "has done its own."
)
START = (
    "All clients open their files and make their buffers first, and begin at one moment, given to "
    "each as a time of its own clock. How late the first I/O came after it is recorded for every "
    "client."
)
CLOCKS = (
    "Measured over MPI before and after every run, from the exchange with the shortest round trip; "
    "an offset is wrong by at most half of that, and by the drift between the two."
)
MERGE = (
    "Windows of the clients are brought to one clock and intersected. In what they have in common "
    "counters are added and latency histograms merged: percentiles are of all operations, never "
    "averaged over clients."
)
SHARE = (
    "A client’s throughput over the mean of all clients in the same run. One below 0.8 is flagged: "
    "a sum hides a client that was held back."
)


def cluster_section(
    comparison: Comparison, groups: list[FigureGroup], scales: Scales
) -> ExtraSection | None:
    """Build the section on cluster clients; None if no run used clients."""
    if not has_clients(comparison):
        return None
    tables = [
        *fast_facts(comparison, scales),
        *maxima_tables(comparison, scales),
        *scaling_tables(comparison, scales),
        *_balance_tables(comparison),
        *_ending_tables(comparison),
        *_client_tables(comparison),
    ]
    return ExtraSection(
        anchor="clients",
        title="The clients, and all of them together",
        short="Clients",
        lead=lead(comparison),
        groups=groups,
        tables=tables,
        notes=[f"Of maxima: {BIAS[:1].lower()}{BIAS[1:]}", *flag_notes(comparison)],
    )


def lead(comparison: Comparison) -> list[str]:
    """Return a paragraph about the clients: number, start times, balance and network bytes."""
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    counts = sorted({row.point.clients for row in comparison.rows.values() if row.point.clients})
    kinds = [kind for kind in comparison.kinds if dividing_family(kind) is not None]
    if len(kinds) == len(comparison.kinds):
        sentences = [f"{_made(counts)}; each did a share of the work."]
    else:
        sentences = [_outstanding(counts, [c for c in cells if not _is_divided(c)])]
    seen = [client for cell in cells for client in clients_of(cell)]
    if seen:
        sentences += [*_begin(seen), *_together(seen), *_least(comparison), *_network(seen)]
    return [" ".join(sentences)]


def _made(counts: Sequence[int]) -> str:
    made = f"{sentence_case(clients_words(counts))} made the load"
    return made if counts == [1] else f"{made}, started together"


def _is_divided(cell: Cell) -> bool:
    return any(dividing_family(run.record.kind) is not None for run in cell.runs)


def _outstanding(counts: Sequence[int], cells: Sequence[Cell]) -> str:
    configured = sorted({cell.configured for cell in cells if cell.configured is not None})
    made = _made(counts)
    if not configured:
        return f"{made}. {PER_CLIENT.partition('. ')[0]}."
    least, most = (f"{value:,.0f}" for value in (configured[0], configured[-1]))
    text = most if least == most else f"{least} to {most}"
    return (
        f"{made}. Each client ran the full workload, so {text} operations were outstanding in "
        "total."
    )


def _begin(seen: Sequence[Seen]) -> Iterator[str]:
    late = [client for client in seen if client.client.first_io_late_ns is not None]
    if not late:
        yield "The engine does not report when clients began."
        return
    last = max(late, key=lambda client: client.client.first_io_late_ns or 0)
    yield (
        f"First I/Os came at most {latency_text(last.client.first_io_late_ns or 0)} after the "
        f"common start ({last.client.name})."
    )


def _together(seen: Sequence[Seen]) -> Iterator[str]:
    kept = min(client.together.window_kept for client in seen)
    worst = max(seen, key=lambda client: client.clock_ns)
    span = "the whole window" if kept >= 1 else f"at least {kept_text(kept)} of the window"
    yield (
        f"The clients were measured together for {span}; their "
        f"clocks differ by at most {latency_text(worst.clock_ns)} ({worst.client.name})."
    )


def kept_text(share: float) -> str:
    """Format a share as a percentage such as ``99.98 %``, never rounded up to 100."""
    percent = 100 * share
    if share >= 1:
        return "100\u00a0%"
    text = f"{percent:.3f}".rstrip("0").rstrip(".")
    return f"{'99.999' if text == '100' else text}\u00a0%"


def _least(comparison: Comparison) -> Iterator[str]:
    shares = [
        (balance, cell, section.where(point))
        for section in comparison.sections
        for point in section.points
        for cell in comparison.row(point).cells.values()
        if (balance := balance_of(cell)) is not None
    ]
    if not shares:
        return
    balance, cell, where = min(shares, key=lambda uneven: uneven[0].least[1])
    name, share = balance.least
    yield (
        f"The slowest client reached {100 * share:.0f}\u00a0% of the mean of all ({name}, on "
        f"{cell.target} at {where})."
    )


def _network(seen: Sequence[Seen]) -> Iterator[str]:
    known = [client.network for client in seen if client.network is not None]
    if len(known) < len(seen):
        yield "Bytes on the network were not counted on every client: no data_nics, or no counters."
        return
    low, high = format_number(min(known)), format_number(max(known))
    text = low if low == high else f"{low} to {high}"
    yield f"For each byte moved, {text} bytes went over the data interfaces of a client."


def _far(comparison: Comparison) -> Iterator[tuple[Section, Any, Cell]]:
    """Yield each target's cell at the last point of each sweep, with section and block size."""
    for section in comparison.sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is not None:
                for target in comparison.planned([point]):
                    yield section, facet, comparison.row(point).cells[target]


def _where(comparison: Comparison, section: Section, facet: Any) -> str:
    point = last_point(comparison, section, facet)
    at = "" if point is None else section.at(point)
    return ", ".join(text for text in (place_of(section, facet), at) if text)


def _balance_tables(comparison: Comparison) -> list[DataTable]:
    leaves = []
    for section, facet, cell in _far(comparison):
        seen = clients_of(cell)
        if len(by_client(seen)) > 1:
            where = _where(comparison, section, facet)
            leaves.append(Leaf([where], cell, _balance(cell, seen)))
    if not leaves:
        return []
    head = [
        ("clients", ""), ("least share", ""), ("median", ""), ("most", ""),
        ("first I/O, latest", ""), ("window kept", ""), ("clock error", ""),
        ("network over bytes", ""),
    ]  # fmt: skip
    caption = "Balance at the last point of the axis: shares are means over the repeats"
    return [table_of(comparison, caption, ["workload point"], head, leaves)]


def _ending_tables(comparison: Comparison) -> list[DataTable]:
    """Build the table of times at which clients finished their part of divided work."""
    leaves = [
        Leaf([_where(comparison, section, facet)], cell, numbers)
        for section, facet, cell in _far(comparison)
        if (numbers := _ending(cell))
    ]
    if not leaves:
        return []
    head = [
        ("first done", ""), ("last done", ""), ("later, at most", ""),
        ("throughput until the first", "MB/s"), ("until the last", "MB/s"),
    ]  # fmt: skip
    caption = (
        "When clients had done their shares, at the last point of the axis: means over the "
        "repeats, and the greatest difference in a run"
    )
    return [table_of(comparison, caption, ["workload point"], head, leaves)]


def _ending(cell: Cell) -> list[Number]:
    endings = endings_of(cell)
    if not endings:
        return []
    widest = max(endings, key=lambda ending: ending.last_ns - ending.first_ns)
    rates = [e.bytes_s_till_first for e in endings if e.bytes_s_till_first is not None]
    whole = [ending.bytes * NS_PER_S / ending.last_ns for ending in endings]
    return [
        Number(latency_text(fmean(e.first_ns for e in endings)), "", cell.point_id),
        Number(latency_text(fmean(e.last_ns for e in endings)), "", cell.point_id),
        Number(latency_text(widest.last_ns - widest.first_ns), widest.last.name, cell.point_id),
        Number(format_number(fmean(rates) / 1e6), "", cell.point_id) if rates else NONE,
        Number(format_number(fmean(whole) / 1e6), "", cell.point_id),
    ]


def _balance(cell: Cell, seen: Sequence[Seen]) -> list[Number]:
    balance = balance_of(cell)
    numbers = [Number(str(len(by_client([*seen]))), "", cell.point_id)]
    if balance is None:
        numbers += [NONE, NONE, NONE]
    else:
        (slow, least), (fast, most) = balance.least, balance.most
        numbers += [
            Number(digits.times(least), slow, cell.point_id),
            Number(digits.times(balance.middle), "", cell.point_id),
            Number(digits.times(most), fast, cell.point_id),
        ]
    kept = min(client.together.window_kept for client in seen)
    return [
        *numbers,
        _extreme(seen, lambda client: client.client.first_io_late_ns, latency_text, max),
        Number(kept_text(kept), "", cell.point_id),
        _extreme(seen, lambda client: client.clock_ns, latency_text, max),
        _extreme(seen, lambda client: client.network, format_number, min),
    ]


Taken = Callable[[Seen], float | None]


def _extreme(
    seen: Sequence[Seen],
    take: Taken,
    show: Callable[[float], str],
    which: Callable[..., tuple[float, Seen]],
    *,
    named: bool = True,
) -> Number:
    """Return the largest or smallest value over clients and runs, with the name of that client.

    Args:
        seen: Each client of each run.
        take: Function that returns a client's value; None if unknown.
        show: Function that formats the value.
        which: ``max``, ``min`` or a function with the same arguments.
        named: Whether to add the name of the client.
    """
    known = [(value, client) for client in seen if (value := take(client)) is not None]
    if not known:
        return NONE
    value, client = which(known, key=lambda pair: pair[0])
    name = client.client.name if named else ""
    return Number(show(value), name, client.run.record.point_id)


def _client_tables(comparison: Comparison) -> list[DataTable]:
    """Build a table of each client's extremes over all runs on a target, such as least share."""
    observed_of: dict[tuple[str, str], list[Seen]] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for row in comparison.rows.values():
        for target, cell in row.cells.items():
            for name, seen in by_client(clients_of(cell)).items():
                observed_of.setdefault((name, target), []).extend(seen)
                cells.setdefault((name, target), cell)
    names = list(dict.fromkeys(name for name, _ in observed_of))
    caption = "Client by client, over all runs: the extremes of each"
    if len(names) > MOST_ROWS:
        names = sorted(names, key=lambda name: _least_share(observed_of, name))[:MOST_ROWS]
        caption += (
            f"; of {len({n for n, _ in observed_of})} clients the {MOST_ROWS} with the least share"
        )
    leaves = [
        Leaf([name], cells[name, target], _client(observed_of[name, target]))
        for name in names
        for target in comparison.targets
        if (name, target) in observed_of
    ]
    if not leaves:
        return []
    head = [
        ("runs", ""), ("least share", ""), ("first I/O, latest", ""), ("window kept, least", ""),
        ("clock ahead by", ""), ("drift", ""), ("round trip", ""), ("network over bytes", ""),
        ("CPU, most", "%"), ("network, most", "%"),
    ]  # fmt: skip
    table = table_of(comparison, caption, ["client"], head, leaves)
    for line in table.rows:  # its numbers link to runs of several points
        line.links.clear()
    return [table]


def _least_share(observed_of: dict[tuple[str, str], list[Seen]], name: str) -> float:
    observed = (seen for (client, _), seen in observed_of.items() if client == name)
    return min(
        (s for seen in observed for client in seen if (s := client.share) is not None), default=1.0
    )


def _client(seen: Sequence[Seen]) -> list[Number]:
    def worst(
        take: Taken, show: Callable[[float], str] = format_number, which: Any = max
    ) -> Number:
        return _extreme(seen, take, show, which, named=False)

    return [
        Number(f"{len(seen):,}", fact=True),
        worst(lambda client: client.share, digits.times, min),
        worst(lambda client: client.client.first_io_late_ns, latency_text),
        worst(lambda client: client.client.window_share, kept_text, min),
        _extreme(seen, lambda client: client.client.offset_ns, _signed, _farthest, named=False),
        _extreme(seen, lambda client: client.client.drift_ns, _signed, _farthest, named=False),
        worst(lambda client: client.client.round_trip_ns, latency_text),
        worst(lambda client: client.network, format_number, min),
        worst(lambda client: client.client.cpu_percent),
        worst(lambda client: client.client.nic_busy_percent),
    ]


def _farthest(known: list[tuple[float, Seen]], key: Any = None) -> tuple[float, Seen]:
    """Return the entry that is farthest from zero in either direction."""
    del key
    return max(known, key=lambda pair: abs(pair[0]))


def _signed(value_ns: float) -> str:
    return f"{'−' if value_ns < 0 else ''}{latency_text(abs(value_ns))}"


def flag_notes(comparison: Comparison) -> list[str]:
    """Return a note for each kind of flag of clients, with the points at which it occurred."""
    by_kind: dict[str, list[str]] = {}
    for section in comparison.sections:
        for point in section.points:
            for cell in comparison.row(point).cells.values():
                for flag in cell.flags:
                    if flag.kind in CLIENT_FLAGS:
                        runs = f"{flag.runs} of {plural(len(cell.runs), 'run')}"
                        where = f"{section.where(point)} on {cell.target}"
                        by_kind.setdefault(flag.kind, []).append(
                            f"{where} ({flag.message}; {runs})"
                        )
    notes = []
    for kind, places in by_kind.items():
        meaning = meaning_of(kind)
        more = f"; and {len(places) - MOST_FLAGGED} more" if len(places) > MOST_FLAGGED else ""
        shown = "; ".join(places[:MOST_FLAGGED])
        notes.append(f"Flag “{meaning.label}”: {meaning.meaning} At {shown}{more}.")
    return notes


def cluster_method(comparison: Comparison) -> list[tuple[str, str]]:
    """Return terms with their definitions for runs on several clients, such as clock offset."""
    if not has_clients(comparison):
        return []
    divided = [kind for kind in comparison.kinds if dividing_family(kind) is not None]
    return [
        *([("Clients", PER_CLIENT)] if len(divided) < len(comparison.kinds) else []),
        *([("Divided work", f"{and_list(divided)}: {DIVIDED}")] if divided else []),
        ("Common start", START),
        ("Clocks of clients", CLOCKS),
        ("Merging of clients", MERGE),
        ("Fair share", SHARE),
    ]


def cluster_facts(comparison: Comparison) -> list[FactTable]:
    """Return tables of the study's clients, and of servers and networks that it declares."""
    tables = []
    stores = comparison.dataset.stores
    for store, place in zip(stores, directory_names(stores), strict=True):
        cluster = store.study.cluster
        if cluster is None:
            continue
        asked = {row.point.clients for row in comparison.rows.values() if row.point.clients}
        hosts = cluster.hosts or [cluster.hostfile or "those of the Slurm job"]
        rows = [
            ("Clients", ", ".join(str(count) for count in sorted(asked))),
            ("Hosts", ", ".join(hosts)),
            ("Started by", {"mpi": "mpiexec", "slurm": "srun"}[cluster.launcher]),
            ("Shared file system", cluster.mount or ""),
            ("Data interfaces", ", ".join(cluster.data_nics)),
            ("Heartbeat timeout", f"{cluster.lost_after / NS_PER_S:g}\u00a0s"),
        ]
        heading = f"Clients in {place}" if len(stores) > 1 else "Clients"
        tables.append(FactTable(heading, [(name, text) for name, text in rows if text]))
    for name, heading in (("server", "Servers"), ("network", "Network")):
        tables += _declared(comparison, name, heading)
    return tables


def _declared(comparison: Comparison, name: str, heading: str) -> list[FactTable]:
    """Return tables of facts that targets declare under ``name``; equal tables are merged."""
    told: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for column in comparison.dataset.targets:
        facts = tuple((key, _text(value)) for key, value in getattr(column.target, name).items())
        if facts:
            told.setdefault(facts, []).append(column.label)
    return [FactTable(f"{heading} of {and_list(on)}", [*facts]) for facts, on in told.items()]


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,g}"


def cluster_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return each client's share of the throughput by point, for the data embedded in a brief."""
    return [
        {"point_id": cell.point_id, "target": cell.target, "shares": balance.shares}
        for row in comparison.rows.values()
        for cell in row.cells.values()
        if (balance := balance_of(cell)) is not None
    ]
