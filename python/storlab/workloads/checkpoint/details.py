"""Records for the details of a checkpoint run that an engine reports besides its totals."""

from __future__ import annotations

from storlab.contracts.details import Details, DetailsTable


class RankTimes(DetailsTable):
    """Start, end and bytes of one rank in one checkpoint or restore."""

    rank: int  # counted from 0
    client: str | None = None  # client of a cluster that ran the rank
    start_ns: int
    end_ns: int
    bytes: int


class Moved(DetailsTable):
    """Base class with the fields that checkpoints and restores share; times in ns."""

    start_ns: int
    bytes: int
    ranks: tuple[RankTimes, ...] = ()

    @property
    def ended_ns(self) -> int:
        """Time at which the checkpoint or restore ended."""
        raise TypeError(f"{type(self).__name__} does not define ended_ns")

    @property
    def device_bytes(self) -> int | None:
        """Bytes that the device wrote during a checkpoint, or read during a restore."""
        raise TypeError(f"{type(self).__name__} does not define device_bytes")


class CheckpointWrite(Moved):
    """Times and bytes of one complete checkpoint."""

    durable_ns: int
    written_ns: int | None = None  # before the flush; None if not known separately
    device_written_bytes: int | None = None

    @property
    def ended_ns(self) -> int:
        """Time at which the checkpoint was durable."""
        return self.durable_ns

    @property
    def device_bytes(self) -> int | None:
        """Bytes written by the device."""
        return self.device_written_bytes


class Restore(Moved):
    """Times and bytes of one restore."""

    end_ns: int
    device_read_bytes: int | None = None
    resident_before_bytes: int | None = None  # in the page cache before it was read
    verified: bool | None = None

    @property
    def ended_ns(self) -> int:
        """Time at which all data was in memory."""
        return self.end_ns

    @property
    def device_bytes(self) -> int | None:
        """Bytes read from the device."""
        return self.device_read_bytes


class CheckpointDetails(Details):
    """All checkpoints and restores of a run."""

    writes: tuple[CheckpointWrite, ...] = ()
    restores: tuple[Restore, ...] = ()
