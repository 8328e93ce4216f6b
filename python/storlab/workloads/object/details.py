"""Records for the details of a run against S3 that an engine reports besides its totals."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from storlab.contracts.details import Details, DetailsTable


class EndpointRequests(DetailsTable):
    """Counters of the requests of one kind to one server that ended in the measure window."""

    endpoint: str  # as configured in the study
    address: str | None = None  # IP address and port of the server; None: no connection was made
    # An operation; in multipart uploads "part" (a part of full size) or "upload" (other requests).
    kind: str
    requests: int = 0  # successful requests, which the bytes and latencies refer to
    bytes: int = 0
    errors: int = 0
    mean_ns: float = 0.0  # latency: from connecting or sending to the last byte of the response
    p50_ns: int = 0
    p99_ns: int = 0
    latency: str = ""  # base64 of HdrHistogram V2 with 2 significant digits


class ObjectDetails(Details):
    """Report about a run of object requests: counters of each endpoint."""

    error_examples: Mapping[str, str] = Field(default_factory=dict)  # one message per kind of error
    endpoints: tuple[EndpointRequests, ...] = ()  # empty: not counted by endpoint
