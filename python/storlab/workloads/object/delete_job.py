"""Job that deletes the objects of any family from a bucket."""

from __future__ import annotations

from storlab.model.s3 import S3Access
from storlab.workloads.object.job import ObjectJob

CONCURRENCY = 8
RETRIES = 5  # creating and deleting objects is not measured, so retries do no harm
BACKOFF_NS = 200_000_000


class Clear:
    """Mixin that implements ``ClearsBuckets`` of storlab.contracts.services."""

    def clear(self, access: S3Access, below: str) -> ObjectJob:
        """Return a job that deletes all objects and open uploads below a prefix."""
        return ObjectJob(
            task="clean",
            store=access.store,
            write_prefix=below,
            concurrency=CONCURRENCY,
            retries=RETRIES,
            backoff_ns=BACKOFF_NS,
        )
