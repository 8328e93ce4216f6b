"""Job of a run against an S3 store, as JSON for ``crates/families/object``.

All sizes are in bytes, all times in ns.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.job import Arrival, GroupedJob, Job, WeightedSize
from storlab.model.s3 import S3Store
from storlab.model.types import Table

OBJECT_OPERATIONS = ("get", "put", "head", "list", "delete", "multi_delete")


class ObjectSizes(Table):
    """Distribution of object sizes.

    The size of object ``i`` depends only on ``i`` and the seed. ``fixed`` and ``weighted`` use
    ``sizes``. ``uniform`` draws from ``low`` to ``high``, both included. ``lognormal`` has median
    ``median`` and shape ``sigma`` (of the natural logarithm); sizes outside ``low`` to ``high`` are
    drawn again.
    """

    kind: Literal["fixed", "weighted", "uniform", "lognormal"]
    sizes: list[WeightedSize] = Field(default_factory=list)
    low: int = 0
    high: int = 0
    median: int = 0
    sigma: float = 0.0


class Pool(Table):
    """Pool of objects that exist before a run.

    Object ``i`` has the key ``<prefix><i % shards as 4 hex digits>/<i as 8 hex digits>``.
    """

    prefix: str  # common prefix of the keys, ends with a slash
    objects: int = Field(ge=0)
    shards: int = Field(default=1, ge=1)
    sizes: ObjectSizes
    seed: int = 1


class ObjectMix(Table):
    """Percentages of requests by kind, according to which each request's kind is drawn."""

    get: float = 0
    put: float = 0
    head: float = 0
    list: float = 0
    delete: float = 0
    multi_delete: float = 0


class Keys(Table):
    """Distribution according to which GET and HEAD choose objects of the pool."""

    kind: Literal["uniform", "zipf", "hot_cold"] = "uniform"
    theta: float = 1.1
    hot_space_percent: float = 10.0
    hot_access_percent: float = 90.0


class ObjectJob(Job):
    """All that an engine needs to know for one task at an S3 store; sizes in bytes, times in ns.

    ``task = "run"`` is a measured run. ``fill`` creates those objects of the pool that are missing
    or have a wrong size. ``clean`` deletes all objects and unfinished multipart uploads below
    ``write_prefix``. Both end when this is done; their requests are counted in the totals.
    """

    kind: ClassVar[str] = "object"

    task: Literal["run", "fill", "clean"] = "run"
    store: S3Store
    pool: Pool | None = None  # for run and fill
    write_prefix: str  # prefix for PUTs, ends with a slash
    sizes: ObjectSizes | None = None  # sizes for PUTs
    mix: ObjectMix = ObjectMix()
    concurrency: int = Field(default=1, ge=1)  # requests in flight
    lanes: dict[str, int] | None = None  # requests in flight by kind, instead of a random mix
    threads: int | None = None  # client threads; None: one per usable core, at most concurrency
    keys: Keys = Keys()
    join_pool: bool = False  # whether objects written in the run may be read in it
    part_size: int | None = None  # larger objects are uploaded in parts
    part_concurrency: int = Field(default=1, ge=1)  # parts of one object in flight
    range_size: int | None = None  # bytes of a GET, at a random offset
    list_max_keys: int = Field(default=1000, ge=1, le=1000)
    delete_batch: int = Field(default=100, ge=1, le=1000)  # keys of one multi_delete
    arrival: Arrival = Arrival()  # rate_iops: requests per second in total
    payload: Literal["unsigned", "signed", "streaming", "trailer-crc"] = "unsigned"
    routing: Literal["round_robin", "least_busy"] = "round_robin"
    request_timeout_ns: int = 60_000_000_000
    retries: int = Field(default=0, ge=0)
    backoff_ns: int = Field(default=0, ge=0)  # pause before a retry; doubled each time
    verify: bool = False  # compare the content of every GET with what was PUT
    window_ns: int | None = None  # for task = run

    def secrets(self) -> dict[str, str]:
        """Return the credentials of the S3 store; empty for anonymous requests."""
        credentials = self.store.credentials
        return {} if credentials is None else credentials.as_dict()


class GroupedObjectJob(GroupedJob[ObjectJob]):
    """Job of a run with groups of requests, which have the same times, store and routing."""

    kind: ClassVar[str] = "object"
