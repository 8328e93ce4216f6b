"""The parameters of ``kind = "object"``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from storlab.base.errors import FieldProblems, Problem
from storlab.base.nearest import suggest
from storlab.model.params import Nanoseconds, Params, Sweep
from storlab.model.types import Size
from storlab.workloads.common.io_fields import ArrivalKind
from storlab.workloads.object.job import OBJECT_OPERATIONS
from storlab.workloads.object.sizes import ObjectSize

Percent = Annotated[float, Field(ge=0, le=100)]
Requests = Annotated[int, Field(ge=1, le=65_535)]
Objects = Annotated[int, Field(ge=1, le=2**32 - 1)]  # numbered in 8 hexadecimal digits
Prefixes = Annotated[int, Field(ge=1, le=65_536)]  # numbered in 4
Threads = Annotated[int, Field(ge=1, le=1_024)]
Parts = Annotated[int, Field(ge=1, le=1_000)]
PageKeys = Annotated[int, Field(ge=1, le=1_000)]  # most of S3, for a page and for a multi-delete
Rate = Annotated[float, Field(gt=0, le=1e7)]
Theta = Annotated[float, Field(gt=0, le=10)]
KeyChoice = Literal["uniform", "zipf", "hot_cold"]
PayloadMode = Literal["unsigned", "signed", "streaming", "trailer-crc"]
Routing = Literal["round_robin", "least_busy"]


def _read_lanes(lanes: dict[str, int]) -> dict[str, int]:
    for name in lanes:
        if name not in OBJECT_OPERATIONS:
            what = f'"{name}" is no kind of request'
            raise FieldProblems([Problem((name,), what, suggest(name, OBJECT_OPERATIONS))])
    return lanes


Lanes = Annotated[
    dict[str, Requests],
    Field(min_length=1),
    AfterValidator(_read_lanes),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"enum": list(OBJECT_OPERATIONS)},
            "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 65_535},
        }
    ),
]


class ObjectParams(Params):
    """Of one point."""

    get_percent: Sweep[Percent] = Field(
        default=100.0,
        description="share of GETs in all requests; what is neither GET nor another kind is PUT; "
        "swept",
    )
    head_percent: Sweep[Percent] = Field(default=0.0, description="share of HEADs; swept")
    list_percent: Sweep[Percent] = Field(
        default=0.0, description="share of LISTs, each of one page; swept"
    )
    delete_percent: Sweep[Percent] = Field(default=0.0, description="share of DELETEs; swept")
    multi_delete_percent: Sweep[Percent] = Field(
        default=0.0, description="share of multi-deletes, of delete_batch keys each; swept"
    )
    object_size: Sweep[ObjectSize] = Field(
        default="4MiB",  # type: ignore[assignment]
        description='size of objects: "4MiB"; weights, { "4KiB" = 70, "1MiB" = 30 }; '
        '{ uniform = ["1MiB", "8MiB"] }; or { lognormal = { median = "1MiB", sigma = 1.2, '
        'min = "4KiB", max = "64MiB" } }; swept',
    )
    concurrency: Sweep[Requests] = Field(
        default=16, description="requests in flight, each on a connection of its own; swept"
    )
    concurrency_per_operation: Lanes | None = Field(
        default=None,
        description="requests in flight of each kind, instead of percents and concurrency",
        examples=[{"get": 8, "put": 8}],
    )
    objects: Sweep[Objects] = Field(
        default=2500, description="objects that are there before the first run; swept"
    )
    prefixes: Sweep[Prefixes] = Field(
        default=1, description="key prefixes that they are spread over; swept"
    )
    keys: Sweep[KeyChoice] = Field(
        default="uniform", description="how GET and HEAD choose among the objects; swept"
    )
    zipf_theta: Sweep[Theta] = Field(
        default=1.1, description="skew of keys = zipf; larger is more skewed; swept"
    )
    hot_space_percent: Sweep[Annotated[float, Field(gt=0, lt=100)]] = Field(
        default=10.0, description="keys = hot_cold: this share of the objects ...; swept"
    )
    hot_access_percent: Sweep[Annotated[float, Field(gt=0, le=100)]] = Field(
        default=90.0, description="... receives this share of the requests; swept"
    )
    read_written: Sweep[bool] = Field(
        default=False,
        description="objects that a run wrote may be read in it, like those of the pool; swept",
    )
    part_size: Sweep[Size | None] = Field(
        default=None,
        description="larger objects are uploaded in parts of this size, from 5MiB on; by default "
        "every object is one request; swept",
    )
    part_concurrency: Sweep[Parts] = Field(
        default=4, description="parts of one object in flight; swept"
    )
    range_size: Sweep[Annotated[Size, Field(gt=0)] | None] = Field(
        default=None,
        description="a GET asks for so many bytes at a random place of the object; whole objects "
        "by default; swept",
    )
    list_max_keys: Sweep[PageKeys] = Field(default=1000, description="keys of a LIST's page; swept")
    delete_batch: Sweep[PageKeys] = Field(default=100, description="keys of a multi-delete; swept")
    rate_requests: Sweep[Rate | None] = Field(
        default=None,
        description="open loop: requests per second over all, due on time whether or not earlier "
        "ones have ended; swept",
    )
    arrival: ArrivalKind | None = Field(
        default=None, description="spacing of an open loop's requests; constant by default"
    )
    payload: Sweep[PayloadMode] = Field(
        default="unsigned",
        description="how bodies are signed: unsigned, signed (SHA-256 of the body), streaming "
        "(signed in chunks) or trailer-crc; it changes client CPU and results; swept",
    )
    routing: Sweep[Routing] = Field(
        default="round_robin", description="how requests choose among several endpoints; swept"
    )
    request_timeout: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="60s",  # type: ignore[assignment]
        description="a request without its whole answer after this time is an error",
    )
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0, description="further attempts of a failed request; none hides no error"
    )
    retry_backoff: Nanoseconds = Field(
        default="0s",  # type: ignore[assignment]
        description="pause before a retry, doubled for each further one",
    )
    verify: Sweep[bool] = Field(
        default=False, description="compare the content of every GET with what was PUT; swept"
    )
    threads: Sweep[Threads | None] = Field(
        default=None, description="threads of the client; one for each usable core by default"
    )
