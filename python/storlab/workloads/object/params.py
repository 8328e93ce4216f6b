"""Parameters of object workloads: fields of a study file with defaults and descriptions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from storlab.base.errors import FieldProblems, Problem
from storlab.base.nearest import suggest
from storlab.model.params import Nanoseconds, Sweep
from storlab.model.types import Size
from storlab.workloads.common.groups import GroupedParams
from storlab.workloads.common.io_fields import ArrivalKind
from storlab.workloads.common.load_levels import LOAD_LEVELS, LoadPercent
from storlab.workloads.object.job import OBJECT_OPERATIONS
from storlab.workloads.object.sizes import ObjectSize

Percent = Annotated[float, Field(ge=0, le=100)]
Requests = Annotated[int, Field(ge=1, le=65_535)]
Objects = Annotated[int, Field(ge=1, le=2**32 - 1)]  # in keys: 8 hexadecimal digits
Prefixes = Annotated[int, Field(ge=1, le=65_536)]  # in keys: 4 hexadecimal digits
Threads = Annotated[int, Field(ge=1, le=1_024)]
Parts = Annotated[int, Field(ge=1, le=1_000)]
PageKeys = Annotated[int, Field(ge=1, le=1_000)]  # limit of S3 for a page and a multi-delete
Rate = Annotated[float, Field(gt=0, le=1e7)]
Theta = Annotated[float, Field(gt=0, le=10)]
KeyChoice = Literal["uniform", "zipf", "hot_cold"]
PayloadMode = Literal["unsigned", "signed", "streaming", "trailer-crc"]
Routing = Literal["round_robin", "least_busy"]


def _read_lanes(lanes: dict[str, int]) -> dict[str, int]:
    for name in lanes:
        if name not in OBJECT_OPERATIONS:
            what = f'"{name}" is not a kind of request'
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


class ObjectParams(GroupedParams):
    """Parameters of one point of an object workload."""

    get_percent: Sweep[Percent] = Field(
        default=100.0,
        description="share of GETs in all requests, drawn for each request; requests of none of "
        "the listed kinds are PUTs; swept",
    )
    head_percent: Sweep[Percent] = Field(default=0.0, description="share of HEADs; swept")
    list_percent: Sweep[Percent] = Field(
        default=0.0,
        description="share of LISTs, each of the first page of one prefix of the pool; swept",
    )
    delete_percent: Sweep[Percent] = Field(default=0.0, description="share of DELETEs; swept")
    multi_delete_percent: Sweep[Percent] = Field(
        default=0.0, description="share of multi-deletes of delete_batch keys each; swept"
    )
    object_size: Sweep[ObjectSize] = Field(
        default="4MiB",  # type: ignore[assignment]
        description='size of the objects of the pool and of PUTs: "4MiB"; weights, { "4KiB" = 70, '
        '"1MiB" = 30 }; { uniform = ["1MiB", "8MiB"] }; or { lognormal = { median = '
        '"1MiB", sigma = 1.2, min = "4KiB", max = "64MiB" } }; swept',
    )
    concurrency: Sweep[Requests] = Field(
        default=16,
        description="requests in flight, each on its own connection; in an open loop the most "
        "that may be in flight; swept",
    )
    concurrency_per_operation: Lanes | None = Field(
        default=None,
        description="requests in flight per kind, such as { get = 8, put = 8 }, which do not wait "
        "for each other; instead of concurrency and all percents",
        examples=[{"get": 8, "put": 8}],
    )
    objects: Sweep[Objects] = Field(
        default=2500,
        description="objects in the pool, made before the first run. Make the pool larger than "
        "the server's memory to measure its drives; swept",
    )
    prefixes: Sweep[Prefixes] = Field(
        default=1, description="key prefixes that the pool is spread over; swept"
    )
    keys: Sweep[KeyChoice] = Field(
        default="uniform", description="how GET and HEAD choose objects; swept"
    )
    zipf_theta: Sweep[Theta] = Field(
        default=1.1, description="skew of keys = zipf; larger is more skewed; swept"
    )
    hot_space_percent: Sweep[Annotated[float, Field(gt=0, lt=100)]] = Field(
        default=10.0, description="for hot_cold: this share of the objects ...; swept"
    )
    hot_access_percent: Sweep[Annotated[float, Field(gt=0, le=100)]] = Field(
        default=90.0, description="... receives this share of the requests; swept"
    )
    read_written: Sweep[bool] = Field(
        default=False,
        description="objects written during a run may be read in it, like those of the pool; swept",
    )
    part_size: Sweep[Size | None] = Field(
        default=None,
        description="objects larger than this are uploaded in parts of this size, 5 MiB to 5 GiB, "
        "at most 10,000; a PUT lasts from the start of the upload until its "
        "completion. By default one request per object; swept",
    )
    part_concurrency: Sweep[Parts] = Field(
        default=4, description="parts of one object in flight; swept"
    )
    range_size: Sweep[Annotated[Size, Field(gt=0)] | None] = Field(
        default=None,
        description="a GET asks for this many bytes at a random place of the object; by default "
        "for the whole object; swept",
    )
    list_max_keys: Sweep[PageKeys] = Field(
        default=1000, description="keys per page of a LIST; swept"
    )
    delete_batch: Sweep[PageKeys] = Field(default=100, description="keys per multi-delete; swept")
    rate_requests: Sweep[Rate | None] = Field(
        default=None,
        description="open loop: requests per second in total, started on time whether or not "
        "earlier ones have ended; not with concurrency_per_operation; swept",
    )
    load_percent: Sweep[LoadPercent | None] = LOAD_LEVELS
    arrival: ArrivalKind | None = Field(
        default=None, description="spacing of an open loop's requests; by default constant"
    )
    payload: Sweep[PayloadMode] = Field(
        default="unsigned",
        description="how bodies are signed: unsigned (UNSIGNED-PAYLOAD), signed (SHA-256 of the "
        "body), streaming (signed chunks), trailer-crc (unsigned with a trailing "
        "CRC). Client CPU differs two- to sixfold, so other values than unsigned are "
        "flagged; swept",
    )
    routing: Sweep[Routing] = Field(
        default="round_robin",
        description="how requests choose among several endpoints; least_busy takes the one with "
        "the fewest requests of this client in flight; swept",
    )
    request_timeout: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="60s",  # type: ignore[assignment]
        description="a request whose answer is not complete after this time counts as an error",
    )
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="retries of a failed request; by default none, so that no error is hidden",
    )
    retry_backoff: Nanoseconds = Field(
        default="0s",  # type: ignore[assignment]
        description="pause before the first retry, doubled before each further one",
    )
    verify: Sweep[bool] = Field(
        default=False,
        description="compare the content of every GET with what was PUT; a wrong body is reported "
        "with its key and ends the campaign with code 10. Lengths are always "
        "compared; swept",
    )
    threads: Sweep[Threads | None] = Field(
        default=None,
        description="threads of the client, at most concurrency; by default one per usable core, "
        "which groups divide; swept",
    )
