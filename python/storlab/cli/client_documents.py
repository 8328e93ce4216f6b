"""Types of cluster-client data in ``--json`` documents, used by ``cli/documents.py``."""

from __future__ import annotations

from typing import NotRequired, Optional

from pydantic import ConfigDict
from typing_extensions import TypedDict

CLOSED = ConfigDict(extra="forbid")


class ClientMount(TypedDict):
    """File system that holds a target's directory, on one client."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    point: str
    kind: str
    source: str
    options: str
    total_bytes: int
    free_bytes: int
    network: bool


class ClientClock(TypedDict):
    """Offset of a client's CLOCK_MONOTONIC from this machine's, and how it was measured."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    offset_ns: int
    round_trip_ns: int
    drift_ns: int


class ClientStore(TypedDict):
    """Response of an object store endpoint to a client; `skew_s` is how far its clock is ahead."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    problem: str
    fix: str
    skew_s: Optional[float]  # noqa: UP045
    listed_ns: Optional[int]  # noqa: UP045


class ClientFacts(TypedDict):
    """Facts about a client of a cluster; directories are named as in the study."""

    host: str
    storlab: str
    build: str
    native: str
    io_uring: str
    python: str
    kernel: str
    cpu_level: str
    cores: int
    memory_bytes: int
    memlock_bytes: int
    open_files: int
    load: float
    nics: dict[str, int | None]
    missing_nics: list[str]
    stores: dict[str, dict[str, ClientStore]]
    devices: dict[str, dict[str, str | int]]
    engines: dict[str, str]
    mount: Optional[str]  # noqa: UP045
    mounts: dict[str, ClientMount | None]
    free: NotRequired[dict[str, int]]
    direct: NotRequired[dict[str, bool]]
    problems: dict[str, str]
    fixes: dict[str, str]
    claimed: dict[str, str]
    sees: NotRequired[list[str]]
    clock: NotRequired[ClientClock]
