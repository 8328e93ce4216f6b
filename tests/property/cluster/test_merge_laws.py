"""Laws of merging clients, for any clocks and any number of clients."""

from __future__ import annotations

import io
from unittest.mock import patch

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from storlab import _native
from storlab.base.units import NS_PER_S
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace
from storlab.lab.site import merge as module
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.merge import Client, merge
from storlab.model.result import EngineInfo, OperationTotals, RunOutcome, Sample
from storlab.model.samples import samples_to_table, summarise_latency

SECONDS = 2
latencies = st.lists(st.integers(1, 10**9), max_size=4)
clients = st.lists(st.tuples(st.integers(-(10**14), 10**14), latencies), min_size=1, max_size=6)
START_NS = 2 * 10**14


def histogram(values: list[int]) -> _native.Histogram:
    made = _native.Histogram()
    for value in values:
        made.record(value)
    return made


def client_of(number: int, offset_ns: int, values: list[int]) -> Client:
    begin, encoded = START_NS + offset_ns, histogram(values).to_v2()
    samples = [
        Sample(
            n,
            begin + n * NS_PER_S,
            begin + (n + 1) * NS_PER_S,
            "read",
            len(values),
            len(values),
            encoded,
        )
        for n in range(SECONDS)
    ]
    totals = OperationTotals(
        operations=SECONDS * len(values),
        bytes=SECONDS * len(values),
        latency=summarise_latency(histogram(values * SECONDS).to_v2()),
    )
    outcome = RunOutcome(
        "finished",
        EngineInfo(name="native", version="1"),
        begin,
        begin + SECONDS * NS_PER_S,
        samples,
        {"read": totals},
        None,
    )
    place = ClientPlace(name=f"c{number}", host="h", rank=number + 1)
    clock = ClockOffset(offset_ns, 10)
    return Client(place, ClientReport(outcome=outcome), clock, clock)


@given(clients)
def test_nothing_is_lost_and_nothing_is_added(given: list[tuple[int, list[int]]]) -> None:
    whole = merge(
        [client_of(n, *each) for n, each in enumerate(given)], NS_PER_S, SECONDS * NS_PER_S, "block"
    )
    every = [value for _, values in given for value in values]
    assert (whole.window_start_ns, whole.window_end_ns) == (
        START_NS,
        START_NS + SECONDS * NS_PER_S,
    )
    assert sum(sample.operations for sample in whole.samples) == SECONDS * len(every)
    assert all(sample.latency == histogram(every).to_v2() for sample in whole.samples)
    assert whole.cluster is not None
    assert whole.cluster.window_kept == 1.0
    assert sum(client.operations for client in whole.cluster.clients) == SECONDS * len(every)


@given(clients, st.randoms())
def test_the_order_of_clients_does_not_matter(
    given: list[tuple[int, list[int]]], random: object
) -> None:
    made = [client_of(n, *each) for n, each in enumerate(given)]
    mixed = list(made)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    first = merge(made, NS_PER_S, SECONDS * NS_PER_S, "block")
    other = merge(mixed, NS_PER_S, SECONDS * NS_PER_S, "block")
    assert first.samples == other.samples
    assert first.totals == other.totals


@given(clients, st.integers(1, 4))
def test_how_many_are_taken_at_a_time_does_not_matter(
    given: list[tuple[int, list[int]]], at_once: int
) -> None:
    made = [client_of(n, *each) for n, each in enumerate(given)]
    together = merge(made, NS_PER_S, SECONDS * NS_PER_S, "block")
    with patch.object(module, "_CLIENTS_AT_ONCE", at_once):
        apart = merge(made, NS_PER_S, SECONDS * NS_PER_S, "block")
    assert (apart.samples, apart.totals) == (together.samples, together.totals)
    tables = [pq.read_table(io.BytesIO(o.raw[module.CLIENTS_FILE])) for o in (apart, together)]
    assert tables[0].equals(tables[1])


@given(clients)
def test_samples_of_each_client_are_those_of_a_campaign_of_its_own(
    given: list[tuple[int, list[int]]],
) -> None:
    """Check that a client's samples equal those of a single run bit for bit, except times."""
    made = [client_of(n, *each) for n, each in enumerate(given)]
    alone = [samples_to_table(client.outcome.samples).to_pylist() for client in made]
    wanted = [
        row
        | {"client": client.place.name}
        | {at: row[at] - client.before.offset_ns for at in ("start_ns", "end_ns")}
        for client, rows in zip(made, alone, strict=True)
        for row in rows
    ]
    whole = merge(made, NS_PER_S, SECONDS * NS_PER_S, "block")
    assert pq.read_table(io.BytesIO(whole.raw[module.CLIENTS_FILE])).to_pylist() == wanted
