"""What a client gives when its task has ended."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from storlab import _native
from storlab.lab.site.across import Reread
from storlab.model.latencies import LatencyColumns
from storlab.model.result import Failure, RunOutcome, sample_row


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
    laid_out: bool = False  # of prepare: there were files to be laid out anew
    outcome: RunOutcome | None = None  # of a run
    rows: bytes = b""  # its samples, packed apart: ``take_rows``
    latencies: LatencyColumns | None = None  # of its samples: each client reads its own
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
        packed = self
        if self.outcome is not None:
            rows = _packed([sample_row(sample) for sample in self.outcome.samples])
            packed = replace(self, outcome=replace(self.outcome, samples=[]), rows=rows)
        return _packed(packed)

    @classmethod
    def unpack(cls, content: bytes) -> ClientReport:
        """From ``pack``, of a rank of this user. Raises ValueError for what is damaged."""
        report = _unpacked(content)
        if not isinstance(report, cls):
            raise ValueError(f"a client gave {type(report).__name__}")
        return report

    def take_rows(self) -> list[tuple[Any, ...]]:
        """``sample_row`` of its samples, once: those of a thousand clients fill the memory.

        Raises ValueError for what is damaged.
        """
        samples = [] if self.outcome is None else self.outcome.samples
        rows = _unpacked(self.rows) if self.rows else [sample_row(sample) for sample in samples]
        self.rows = b""
        return list(rows)


def _packed(content: object) -> bytes:
    return bytes(_native.pack(pickle.dumps(content)))


def _unpacked(content: bytes) -> Any:
    try:
        return pickle.loads(_native.unpack(content))  # noqa: S301
    except (ValueError, pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"what a client gave is damaged: {error}") from error
