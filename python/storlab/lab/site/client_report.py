"""Report that a client of a cluster sends at the end of a task."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from storlab import _native
from storlab.lab.site.verification import Reread
from storlab.model.latencies import LatencyColumns
from storlab.model.result import Failure, RunOutcome, sample_row


class NicBytes(NamedTuple):
    """Bytes that a client's data network interfaces transferred around the measure window."""

    received: int
    sent: int
    over_ns: int  # slightly longer than the window


class Filled(NamedTuple):
    """Result of the fill phase of preconditioning on a client."""

    members: list[dict[str, Any]]
    bytes: int
    duration_ns: int


@dataclass(slots=True)
class ClientReport:
    """Result of one task on a client; ``failure`` is the reason if the task failed."""

    failure: Failure | None = None
    interrupted: bool = False
    laid_out: bool = False  # prepare: whether files had to be written
    outcome: RunOutcome | None = None  # run
    rows: bytes = b""  # run: samples, packed separately, see ``take_rows``
    latencies: LatencyColumns | None = None  # run: latencies of the samples, computed by the client
    job: bytes = b""  # run: job as it is stored
    armed_ns: int | None = None  # run: time from the order until ready to start
    state: dict[str, Any] = field(default_factory=dict)  # run: machine before it, see machine_watch
    nic_bytes: NicBytes | None = None
    nic_speeds: list[int | None] = field(default_factory=list)  # bit/s; None if unknown
    worked: bool = False  # whether the run needed a clean-up
    filled: Filled | None = None  # fill
    written_mb_s: float = 0.0  # overwrite
    meetings: list[tuple[int, int, int]] = field(default_factory=list)  # see contracts.engine
    memory_bytes: int | None = None  # memory of the host
    # State files of a run in verify mode, by name: they record which blocks were written.
    written: dict[str, bytes] = field(default_factory=dict)
    reread: Reread | None = None  # verify
    notes: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # clean

    def pack(self) -> bytes:
        """Serialise the report for rank 0, which must run the same version of storlab."""
        packed = self
        if self.outcome is not None:
            rows = _packed([sample_row(sample) for sample in self.outcome.samples])
            packed = replace(self, outcome=replace(self.outcome, samples=[]), rows=rows)
        return _packed(packed)

    @classmethod
    def unpack(cls, content: bytes) -> ClientReport:
        """Restore a report from ``pack``; raise ValueError if it is damaged.

        This is safe only for content from a process of this user, since it is pickled.
        """
        report = _unpacked(content)
        if not isinstance(report, cls):
            raise ValueError(f"a client sent a {type(report).__name__} instead of a report")
        return report

    def failure_on(self, client: str) -> Failure | None:
        """Return the failure, if any, with the name of the client before the message."""
        if self.failure is None:
            return None
        message = f"{client}: {self.failure.message}"
        return self.failure.model_copy(update={"message": message})

    def take_rows(self) -> list[tuple[Any, ...]]:
        """Return the samples as rows (see ``sample_row``), and release them to save memory.

        This works only once.

        Raises:
            ValueError: The packed rows are damaged.
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
        raise ValueError(f"the report of a client is damaged: {error}") from error
