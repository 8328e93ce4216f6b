"""What a client gives when its task has ended."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from storlab.lab.site.across import Reread
from storlab.model.result import Failure, RunOutcome


class NicBytes(NamedTuple):
    """What the data interfaces moved around a window."""

    received: int
    sent: int
    over_ns: int  # a little longer than the window


class Filled(NamedTuple):
    """What preconditioning has written once."""

    members: list[dict[str, Any]]
    bytes: int
    duration_ns: int


@dataclass(slots=True)
class ClientReport:
    """Of one task. ``failure`` is why it could not be done; of a run also see its outcome."""

    failure: Failure | None = None
    interrupted: bool = False
    outcome: RunOutcome | None = None  # of a run
    job: bytes = b""  # of a run, as it is kept
    armed_ns: int | None = None  # from the order until all was ready
    nic_bytes: NicBytes | None = None
    nic_speeds: list[int | None] = field(default_factory=list)  # bit/s; None: not known
    worked: bool = False  # there was something to put right after a run
    filled: Filled | None = None  # of fill
    written_mb_s: float = 0.0  # of overwrite
    meetings: list[tuple[int, int, int]] = field(default_factory=list)  # see contracts.engine
    memory_bytes: int | None = None  # of this host
    written: dict[str, bytes] = field(default_factory=dict)  # of verify mode: files of its record
    reread: Reread | None = None  # of verify
    notes: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # of cleaning up

    def pack(self) -> bytes:
        """For rank 0. Both ends are the same storlab: their facts were compared."""
        return zlib.compress(pickle.dumps(self), 1)

    @classmethod
    def unpack(cls, content: bytes) -> ClientReport:
        """From ``pack``, of a rank of this user. Raises ValueError for what is damaged."""
        try:
            report = pickle.loads(zlib.decompress(content))  # noqa: S301
        except (zlib.error, pickle.UnpicklingError, EOFError) as error:
            raise ValueError(f"what a client gave is damaged: {error}") from error
        if not isinstance(report, cls):
            raise ValueError(f"a client gave {type(report).__name__}")
        return report
