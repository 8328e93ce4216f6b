"""``[[target]]`` table of a study: location of the storage, its meters and facts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.base.secrets import secret_problems
from storlab.base.steady import WINDOW
from storlab.base.units import MIB, exact_number, format_size
from storlab.model.power import Boundary
from storlab.model.publisher import Components
from storlab.model.rack_and_cost import Cost
from storlab.model.s3 import EMBEDDED, S3Options
from storlab.model.types import Duration, Size, StudyTable

Layout = Literal["jbod", "stripe", "per_job"]
Fact = str | int | float
PLACES = ("path", "paths", "directory", "s3")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class Precondition(StudyTable):
    """``precondition`` of a target: fill it, then overwrite it at random until it is steady.

    Steady state is defined as in the SNIA PTS: by slope and excursion of throughput over the last
    five rounds. ``{ fills = 2, fill_block_size = "128KiB", max_rounds = 0 }`` is the PTS's
    workload-independent preconditioning.
    """

    fills: int = Field(
        default=1, ge=1, le=100, description="times that all data is written sequentially"
    )
    fill_block_size: Size = Field(
        default="1MiB", gt=0, description="size of the sequential writes, a part of 1 MiB"
    )  # type: ignore[assignment]
    block_size: Size = Field(default="128KiB", gt=0, description="size of the random overwrites")  # type: ignore[assignment]
    queue_depth: int = Field(
        default=32, ge=1, le=65_536, description="queue depth of the random overwrites"
    )
    round: Duration = Field(default="60s", gt=0, description="length of one round")  # type: ignore[assignment]
    max_rounds: int = Field(
        default=25,
        ge=0,
        description="rounds after which preconditioning ends without steady state, and its runs "
        "are flagged; 0 only fills",
    )
    slope_percent: float = Field(
        default=10,
        gt=0,
        description="largest drift over the last five rounds, in percent of their mean",
    )
    excursion_percent: float = Field(
        default=20,
        gt=0,
        description="largest difference between two of the last five rounds, in percent of their "
        "mean",
    )

    @model_validator(mode="after")
    def _whole_blocks(self) -> Precondition:
        problems = []
        if 0 < self.max_rounds < WINDOW:
            what = f"is {self.max_rounds}, but steady state is judged over {WINDOW} rounds"
            problems.append(Problem(("max_rounds",), what, f"use {WINDOW} or more, or 0"))
        if MIB % self.fill_block_size or self.fill_block_size % 512:
            what = f"{format_size(self.fill_block_size)} does not divide 1 MiB into whole sectors"
            problems.append(Problem(("fill_block_size",), what, 'write fill_block_size = "128KiB"'))
        if problems:
            raise FieldProblems(problems)
        return self


class MeterSpec(StudyTable):
    """``meters`` of a target: a power sensor; the kind decides which further fields it has."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str = Field(
        description="kind of meter, such as nvme or snmp; it decides which further fields are "
        "allowed"
    )
    boundary: Boundary = Field(
        default="device", description="equipment that the meter's reading includes"
    )

    @model_validator(mode="after")
    def _no_secrets(self) -> MeterSpec:
        """Refuse secrets, because the study is copied into the result before meters are opened."""
        problems = secret_problems(self.model_extra or {})
        if problems:
            raise FieldProblems(problems)
        return self


class Target(StudyTable):
    """``[[target]]``: the storage to measure, with facts for density and cost figures.

    Exactly one of these is given: ``path`` (a file or block device), ``paths`` (a set of them),
    ``directory`` (one file per job of block workloads, and the data of other families) or ``s3`` (a
    bucket). ``path = "null:"`` completes every I/O at once, which measures the engine itself.
    ``s3 = "embedded:DIR"`` starts storlab's own small server over a directory.
    """

    name: str = Field(min_length=1, description="name in the brief")
    path: str | None = Field(
        default=None,
        min_length=1,
        description="a file, which storlab lays out and removes; a block device by its stable id "
        "(/dev/disk/by-id/...); or null:, which completes every I/O at once and "
        "measures the engine",
    )
    paths: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, min_length=1, description="a set of files or block devices"
    )
    directory: str | None = Field(
        default=None,
        min_length=1,
        description="a directory: block workloads lay out one file per job in it, other families "
        "keep their data in storlab-data below it",
    )
    s3: str | None = Field(
        default=None,
        min_length=1,
        description="a bucket: https://endpoint/bucket, or embedded:DIR for storlab's own small "
        "server over a directory",
        examples=["https://s3.example.com/bench", "embedded:storlab-objects"],
    )
    s3_options: S3Options | None = Field(default=None, description="how to reach the bucket")
    size: Size | None = Field(
        default=None,
        gt=0,
        description="size of each file, or how much of a device to use; required for files and "
        "directories of block and gpudirect workloads, by default the whole device",
    )
    offset: Size = Field(default=0, description="start of the data set on a device")
    layout: Layout | None = Field(
        default=None,
        description="jbod spreads jobs over the set (the default); stripe spreads every job over "
        "all members in chunks; a directory is per_job",
    )
    stripe_chunk: Size | None = Field(
        default=None, gt=0, description="chunk of a stripe; a block spans at most 256 chunks"
    )
    direct: bool = Field(
        default=True,
        description="O_DIRECT; false goes through the page cache, and every run is flagged "
        "page-cache",
    )
    serial: str | None = Field(
        default=None,
        description="serial number of the device, typed by you, as consent to overwrite it",
    )
    keep_data: bool = Field(
        default=False,
        description="leave data files in place when the study is done, for the next one",
    )
    precondition: Precondition | None = Field(
        default=None,
        description="bring the target to steady state before the first run: fill it, then "
        "overwrite it at random in rounds",
    )
    capacity: Size | None = Field(
        default=None, gt=0, description="raw capacity of the whole target"
    )
    usable: Size | None = Field(
        default=None,
        gt=0,
        description="usable capacity: raw capacity minus protection and spares",
    )
    drives: int | None = Field(default=None, ge=1, description="number of drives")
    rack_units: float | None = Field(default=None, gt=0, description="rack units that it occupies")
    price: float | None = Field(default=None, ge=0, description="purchase price, in currency")
    currency: str = Field(default="USD", description="currency of price and cost, an ISO 4217 code")
    cost: Cost | None = Field(default=None, description="what servers, network and storage cost")
    server: dict[str, Fact] = Field(
        default_factory=dict,
        description='facts about its servers to print: { "CPU cores" = 24 }',
        examples=[{"CPU cores": 24, "memory": "256 GB"}],
    )
    components: Components | None = Field(
        default=None, description="what it is made of, for the table of components"
    )
    network: dict[str, Fact] = Field(
        default_factory=dict, description="facts about its network to print"
    )
    power_boundary: Boundary | None = Field(
        default=None,
        description="equipment that a declared or metered power of this target includes",
    )
    meters: list[MeterSpec] = Field(
        default_factory=list, description="power meters of this target, see docs/power.md"
    )
    power_state: int | None = Field(
        default=None,
        ge=0,
        le=31,
        description="NVMe power state of its drives during the measurement; restored afterwards",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Target:
        problems = [
            *self._place_problems(),
            *self._layout_problems(),
            *self._s3_problems(),
            *self._cost_problems(),
            *self._usable_problems(),
        ]
        if problems:
            raise FieldProblems(problems)
        return self

    def _place_problems(self) -> list[Problem]:
        given = [n for n in PLACES if getattr(self, n) is not None]
        problems = [
            Problem(
                (extra,),
                f"a target has one of path, paths, directory and s3, and {given[0]} is given",
                f"remove {given[0]} or {extra}, or make two targets",
            )
            for extra in given[1:]
        ]
        if not given:
            problems.append(
                Problem(
                    (),
                    "a target requires path, paths, directory or s3",
                    'add path = "..." to the target',
                )
            )
        for index, path in enumerate(self.paths or []):
            if path in (self.paths or [])[:index]:
                problems.append(
                    Problem(("paths", index), f'"{path}" is listed twice', "remove one of the two")
                )
        return problems

    def _layout_problems(self) -> list[Problem]:
        problems = []
        if self.layout == "stripe" and self.stripe_chunk is None:
            problems.append(
                Problem(("layout",), "a stripe requires stripe_chunk", 'add stripe_chunk = "64KiB"')
            )
        if self.stripe_chunk is not None and self.layout != "stripe":
            problems.append(
                Problem(
                    ("stripe_chunk",),
                    'only applies to layout = "stripe"',
                    'add layout = "stripe", or remove stripe_chunk',
                )
            )
        if (self.layout == "per_job") != (self.directory is not None) and self.layout is not None:
            problems.append(
                Problem(
                    ("layout",),
                    f'layout = "{self.layout}" does not fit this kind of target',
                    'a directory has layout = "per_job"; path and paths have jbod or stripe',
                )
            )
        return problems

    def _s3_problems(self) -> list[Problem]:
        if self.s3 is None:
            if self.s3_options is None:
                return []
            return [Problem(("s3_options",), "only apply to an s3 target", "remove s3_options")]
        problems = [
            Problem((name,), f"{name} does not apply to an s3 target", f"remove {name}")
            for name in ("size", "offset", "serial", "precondition", "stripe_chunk", "direct")
            if name in self.model_fields_set
        ]
        problem = s3_address_problem(self.s3)
        if problem:
            problems.append(Problem(("s3",), *problem))
        elif self.s3_options is not None and not self.is_embedded:
            problems += _option_problems(self.s3, self.s3_options)
        if self.power_state is not None and not self.is_embedded:
            problems.append(
                Problem(
                    ("power_state",),
                    "does not apply to a store, whose drives are in other machines",
                    "remove power_state, and set it on the machines with the drives",
                )
            )
        if self.is_embedded and self.s3_options is not None:
            problems.append(
                Problem(
                    ("s3_options",),
                    "does not apply to storlab's own server, which chooses address, keys "
                    "and bucket itself",
                    "remove s3_options",
                )
            )
        return problems

    def _cost_problems(self) -> list[Problem]:
        storage = None if self.cost is None else self.cost.storage
        if storage is None or self.price is None or storage == self.price:
            return []
        return [
            Problem(
                ("cost", "storage"),
                f"storage costs {exact_number(storage)} here, but the price of the target is "
                f"{exact_number(self.price)}",
                "remove one of the two: both are the price of the storage",
            )
        ]

    def _usable_problems(self) -> list[Problem]:
        if self.usable is None or self.capacity is None or self.usable <= self.capacity:
            return []
        fix = "capacity is the raw capacity, of which usable is a part; correct one of the two"
        return [Problem(("usable",), "is more than the capacity", fix)]

    @property
    def storage_price(self) -> float | None:
        """Declared price, or else the storage part of the declared cost; None if not declared."""
        if self.price is not None:
            return self.price
        return None if self.cost is None else self.cost.storage

    @property
    def locations(self) -> list[str]:
        """Return the paths as in the study; the directory of a directory target; none for s3."""
        if self.s3 is not None:
            return []
        if self.paths is not None:
            return self.paths
        return [self.path or self.directory or ""]

    @property
    def is_embedded(self) -> bool:
        """Return whether the target is ``s3 = "embedded:DIR"``."""
        return self.s3 is not None and self.s3.startswith(EMBEDDED)

    @property
    def is_null(self) -> bool:
        """Return whether the target is ``path = "null:"``."""
        return self.path == "null:"


def s3_address_problem(address: str) -> tuple[str, str] | None:
    """Return what is wrong with the address of an s3 target, and how to fix it, or None."""
    if address.startswith(EMBEDDED):
        if address.removeprefix(EMBEDDED).strip():
            return None
        return "embedded: needs a directory", 'write s3 = "embedded:storlab-objects"'
    fix = 'write s3 = "https://endpoint/bucket"'
    try:
        parts = urlsplit(address)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        return "is not an address", fix
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        return "is neither an http(s) address nor embedded:DIR", fix
    if parts.username is not None or parts.password is not None:
        return "has credentials in it", "remove them; keys come from the environment or a profile"
    if parts.query or parts.fragment:
        return "has a query or a fragment", fix
    if not _BUCKET.fullmatch(parts.path.strip("/")):
        return (
            "has no valid bucket name: 3 to 63 lower-case letters, digits, dots and hyphens",
            fix,
        )
    return None


def _option_problems(address: str, options: S3Options) -> Iterable[Problem]:
    """Yield the options that contradict the address, each with its field."""
    parts = urlsplit(address)
    for index, given in enumerate(options.endpoints):
        problem = _endpoint_problem(given, parts.scheme)
        if problem:
            yield Problem(
                ("s3_options", "endpoints", index),
                problem,
                f"write it like {parts.scheme}://{parts.netloc}",
            )
    if options.addressing == "path":
        return
    hosts = [_host_of(endpoint) for endpoint in (address, *options.endpoints)]
    for host in filter(_is_ip_address, hosts):
        yield Problem(
            ("s3_options", "addressing"),
            f"virtual addressing puts the bucket before the host name, and {host} is an IP address",
            'set addressing = "path", or name the host',
        )
        return


def _endpoint_problem(given: str, scheme: str) -> str | None:
    try:
        parts = urlsplit(given)
        _ = parts.port  # raises ValueError if the port is not a number
    except ValueError:
        return "is not an address"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "is not an http or https address"
    if parts.scheme != scheme:
        return f"is {parts.scheme}, and s3 is {scheme}; all endpoints must use the same scheme"
    if parts.username is not None or parts.password is not None:
        return "has credentials in it"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "has more than host and port"
    return None


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:  # the endpoint's own check reports it
        return ""


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
