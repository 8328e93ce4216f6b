"""What engines tell of a run of requests."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from storlab.contracts.details import Details, Told


class EndpointRequests(Told):
    """Single HTTP requests of one kind to one server, which ended in the measure window."""

    endpoint: str  # as configured
    address: str | None = None  # of the server, with its port; None: no connection was made
    kind: str  # an operation, or of uploads in parts: "part" (of full size), "upload" (the rest)
    requests: int = 0  # that succeeded; bytes and latencies are theirs
    bytes: int = 0
    errors: int = 0
    mean_ns: float = 0.0  # latency: from connecting or sending to the answer's last byte
    p50_ns: int = 0
    p99_ns: int = 0
    latency: str = ""  # base64 of HdrHistogram V2 with 2 significant digits


class ObjectDetails(Details):
    """Of a whole run."""

    error_examples: Mapping[str, str] = Field(default_factory=dict)  # one message for each kind
    endpoints: tuple[EndpointRequests, ...] = ()  # empty: not counted by endpoint
