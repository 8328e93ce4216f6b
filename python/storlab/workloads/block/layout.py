"""Block I/O jobs that fill files and precondition devices, for runs of any family."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.model.job import Member, WeightedSize
from storlab.model.study import Precondition, Target
from storlab.stores.zones import zoned_bytes, zones_of
from storlab.workloads.block.job import BlockJob, Mix, Sync
from storlab.workloads.common.random_choice import Offsets

QUEUE_DEPTH = 8


class Layout:
    """Mixin with the jobs that fill, precondition and reread targets (contracts/services)."""

    def fill_job(self, member: Member, grain: int, *, direct: bool, seed: int) -> BlockJob:
        """Return a job that fills a file or device once, sequentially, with incompressible data."""
        return BlockJob(
            members=[member],
            direct=direct,
            jobs=1,
            queue_depth=_depth(QUEUE_DEPTH, [member]),
            mix=Mix(read=0, write=100),
            block_sizes=[WeightedSize(bytes=grain)],
            offsets=Offsets(kind="sequential"),
            sync=Sync(kind="fsync", final=True),
            window_bytes=zoned_bytes(member) or member.size,
            seed=seed,
        )

    def overwrite_job(
        self, target: Target, spec: Precondition, members: Sequence[Member], seed: int
    ) -> BlockJob:
        """Return a job for one round of preconditioning: random overwrites of the whole target.

        Zoned drives are overwritten zone by zone, because they refuse random writes.
        """
        zoned = any(zones_of(member.path) for member in members)
        return BlockJob(
            members=list(members),
            layout="jbod",
            direct=target.direct,
            jobs=len(members),
            queue_depth=_depth(spec.queue_depth, members),
            mix=Mix(read=0, write=100),
            block_sizes=[WeightedSize(bytes=spec.block_size)],
            offsets=Offsets(kind="sequential" if zoned else "uniform"),
            window_ns=spec.round,
            seed=seed,
        )

    def stored_job(self, content: bytes) -> BlockJob:
        """Load a job from JSON that ``BlockJob.stored`` made."""
        return BlockJob.model_validate_json(content)


def _depth(wanted: int, members: Sequence[Member]) -> int:
    """Return a queue depth; on a zoned drive at most the number of zones that may be open."""
    zoned = [zones for member in members if (zones := zones_of(member.path))]
    return min([wanted, *(zones.most_written for zones in zoned)])
