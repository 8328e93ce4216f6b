"""Requests by endpoint: detection of a slow one, and merging of clients' rows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from storlab._native import Histogram
from storlab.contracts.family import ClientDetails
from storlab.contracts.registry import FAMILIES
from storlab.workloads.object.details import EndpointRequests, ObjectDetails
from storlab.workloads.object.endpoints import (
    slow_endpoints,
    traffic_by_server,
    uneven_flag,
)

MS = 1_000_000
A, B, C = "http://a:9000", "http://b:9000", "http://c:9000"


def row(endpoint: str, latencies_ms: Iterable[float], **changes: Any) -> dict[str, Any]:
    """Return a row as the engine reports it, with ``latencies_ms`` of each request."""
    histogram, values = Histogram(), list(latencies_ms)
    for value in values:
        histogram.record(int(value * MS))
    return {
        "endpoint": endpoint,
        "address": "10.0.0.1:9000",
        "kind": "get",
        "requests": len(values),
        "bytes": 10 * len(values),
        "mean_ns": MS * sum(values) / max(1, len(values)),
        "latency": b64encode(histogram.to_v2()).decode(),
        **changes,
    }


def run(*rows: dict[str, Any]) -> Any:
    return SimpleNamespace(details={"endpoints": list(rows)})


def slow(*rows: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.fastest_name) for one in slow_endpoints(run(*rows))]


def test_an_endpoint_with_a_higher_median_is_named() -> None:
    rows = [row(A, [1.0] * 100), row(B, [1.49] * 100), row(C, [51.0] * 100)]
    assert slow(*rows) == [("get", C, A)]
    flag = uneven_flag(run(*rows))
    assert flag is not None
    assert flag.kind == "uneven-endpoints"
    assert C in flag.message


def test_two_slow_endpoints_of_three_are_both_named() -> None:
    rows = [row(A, [50.0] * 200), row(B, [50.0] * 200), row(C, [1.0] * 200)]
    assert slow(*rows) == [("get", A, C), ("get", B, C)]


def test_a_slow_tail_is_found_where_medians_are_alike() -> None:
    steady = [1.0] * 1900 + [2.0] * 100
    assert slow(row(A, steady), row(B, [1.0] * 1800 + [40.0] * 200)) == [("get", B, A)]
    # A share within which equal endpoints may differ, and too few requests to decide.
    assert slow(row(A, steady), row(B, [1.0] * 1920 + [40.0] * 80)) == []
    assert slow(row(A, steady[::4]), row(B, [1.0] * 450 + [40.0] * 50)) == []


@pytest.mark.parametrize(
    "rows",
    [
        [row(A, [1.0] * 500)],
        [row(A, [1.0] * 500), row(B, [1.3] * 500), row(C, [1.2] * 500)],
        [row(A, [1.0] * 500), row(B, [9.0] * 99)],
        # Stalls that hit equal endpoints with one request in a hundred more or less.
        [row(A, [1.0] * 1985 + [90.0] * 15), row(B, [1.0] * 1975 + [90.0] * 25)],
        # Small and large requests around uploads use endpoints in a fixed order.
        [row(A, [1.0] * 500, kind="upload"), row(B, [30.0] * 500, kind="upload")],
        [row(A, [1.0] * 500, kind="get"), row(B, [30.0] * 500, kind="put")],
        [row(A, [1.0] * 500), row(A, [], address=None, errors=3)],
    ],
)
def test_equal_endpoints_few_requests_and_other_kinds_are_not_marked(rows: Any) -> None:
    assert slow(*rows) == []
    assert uneven_flag(run(*rows)) is None


def test_addresses_of_one_endpoint_are_told_apart() -> None:
    rows = [row(A, [1.0] * 100), row(A, [9.0] * 100, address="10.0.0.2:9000")]
    assert slow(*rows) == [("get", f"{A} (10.0.0.2:9000)", f"{A} (10.0.0.1:9000)")]


def test_errors_without_a_connection_count_at_their_endpoint() -> None:
    rows = [row(A, [1.0] * 10), row(A, [], address=None, errors=3)]
    traffic = traffic_by_server(EndpointRequests(**one) for one in rows)
    assert list(traffic) == ["get"]
    assert list(traffic["get"]) == [A]
    assert (traffic["get"][A].requests, traffic["get"][A].errors) == (10, 3)


def test_rows_of_clients_are_summed_and_their_histograms_merged() -> None:
    family = FAMILIES["object"]
    first = {"endpoints": [row(A, [1.0] * 60, errors=1), row(B, [2.0] * 10)], "connections": 4}
    second = {"endpoints": [row(A, [9.0] * 40, errors=2)]}
    parts = [ClientDetails("one", "h1", 0, first), ClientDetails("two", "h2", 0, second)]
    merged = family.merge_details(parts)
    assert merged["connections"] == 4
    known = {one.endpoint: one for one in ObjectDetails.model_validate(merged).endpoints}
    assert (known[A].requests, known[A].bytes, known[A].errors) == (100, 1000, 3)
    assert known[A].mean_ns == pytest.approx(4.2 * MS)
    assert known[A].p50_ns == pytest.approx(1 * MS, rel=0.01)
    assert known[A].p99_ns == pytest.approx(9 * MS, rel=0.01)
    assert known[B].requests == 10
    # As wide as needed for a percentile, so that repeats can be merged later.
    assert len(known[A].latency) < 200


def test_results_without_endpoints_are_read() -> None:
    assert ObjectDetails.model_validate({"error_examples": {}}).endpoints == ()
    assert uneven_flag(SimpleNamespace(details={})) is None
