"""What engines tell of a run of checkpoints."""

from __future__ import annotations

from storlab.contracts.details import Details, Told


class RankTimes(Told):
    """One rank in one checkpoint or restore."""

    rank: int  # from 0
    client: str | None = None  # of a cluster, that it was on
    start_ns: int
    end_ns: int
    bytes: int


class Moved(Told):
    """What a checkpoint and a restore have in common."""

    start_ns: int
    bytes: int
    ranks: tuple[RankTimes, ...] = ()

    @property
    def ended_ns(self) -> int:
        """When nothing more was to be waited for."""
        raise TypeError("neither a checkpoint nor a restore")

    @property
    def device_bytes(self) -> int | None:
        """What the device counted meanwhile, in the direction of the transfer."""
        raise TypeError("neither a checkpoint nor a restore")


class CheckpointWrite(Moved):
    """One checkpoint that was published."""

    durable_ns: int
    written_ns: int | None = None  # None: not told apart from durable
    device_written_bytes: int | None = None

    @property
    def ended_ns(self) -> int:
        """When it was durable."""
        return self.durable_ns

    @property
    def device_bytes(self) -> int | None:
        """Written."""
        return self.device_written_bytes


class Restore(Moved):
    """One restore."""

    end_ns: int
    device_read_bytes: int | None = None
    resident_before_bytes: int | None = None  # in memory, before it was read
    verified: bool | None = None

    @property
    def ended_ns(self) -> int:
        """When all of it was in memory."""
        return self.end_ns

    @property
    def device_bytes(self) -> int | None:
        """Read."""
        return self.device_read_bytes


class CheckpointDetails(Details):
    """Of a whole run."""

    writes: tuple[CheckpointWrite, ...] = ()
    restores: tuple[Restore, ...] = ()
