"""Block I/O jobs that fill files and precondition devices, for runs of any family."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.model.job import Member, WeightedSize
from storlab.model.study import Precondition, Target
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
            queue_depth=QUEUE_DEPTH,
            mix=Mix(read=0, write=100),
            block_sizes=[WeightedSize(bytes=grain)],
            offsets=Offsets(kind="sequential"),
            sync=Sync(kind="fsync", final=True),
            window_bytes=member.size,
            seed=seed,
        )

    def overwrite_job(
        self, target: Target, spec: Precondition, members: Sequence[Member], seed: int
    ) -> BlockJob:
        """Return a job for one round of preconditioning: random overwrites of the whole target."""
        return BlockJob(
            members=list(members),
            layout="jbod",
            direct=target.direct,
            jobs=len(members),
            queue_depth=spec.queue_depth,
            mix=Mix(read=0, write=100),
            block_sizes=[WeightedSize(bytes=spec.block_size)],
            offsets=Offsets(kind="uniform"),
            window_ns=spec.round,
            seed=seed,
        )

    def stored_job(self, content: bytes) -> BlockJob:
        """Load a job from JSON that ``BlockJob.stored`` made."""
        return BlockJob.model_validate_json(content)
