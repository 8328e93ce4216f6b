"""Details of a checkpoint run, as reported by its engine."""

from __future__ import annotations

from storlab.contracts.details import Details, DetailsTable


class RankTimes(DetailsTable):
    """Times of one rank in one checkpoint or restore."""

    rank: int  # counted from 0
    client: str | None = None  # client of a cluster that ran the rank
    start_ns: int
    end_ns: int
    bytes: int


class Moved(DetailsTable):
    """Common fields of a checkpoint and a restore; clocks in ns."""

    start_ns: int
    bytes: int
    ranks: tuple[RankTimes, ...] = ()

    @property
    def ended_ns(self) -> int:
        """End of the checkpoint or restore, in ns."""
        raise TypeError("neither a checkpoint nor a restore")

    @property
    def device_bytes(self) -> int | None:
        """Bytes that the device transferred meanwhile, in the direction of the transfer."""
        raise TypeError("neither a checkpoint nor a restore")


class CheckpointWrite(Moved):
    """Details of one published checkpoint."""

    durable_ns: int
    written_ns: int | None = None  # None: not separated from durable
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
    """Details of one restore."""

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
    """Details of a checkpoint run."""

    writes: tuple[CheckpointWrite, ...] = ()
    restores: tuple[Restore, ...] = ()
