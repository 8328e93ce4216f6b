"""Job that deletes objects from a bucket, whichever workload family made them."""

from __future__ import annotations

from storlab.model.s3 import S3Access
from storlab.workloads.object.job import ObjectJob

CONCURRENCY = 8
RETRIES = 5  # creating and deleting objects is not measured, so retries do no harm
BACKOFF_NS = 200_000_000


class Clear:
    """Mixin with the job that deletes objects (``ClearsBuckets`` of storlab.contracts.services)."""

    def clear(self, access: S3Access, below: str) -> ObjectJob:
        """Return a job that deletes all objects and unfinished uploads below a prefix."""
        return ObjectJob(
            task="clean",
            store=access.store,
            write_prefix=below,
            concurrency=CONCURRENCY,
            retries=RETRIES,
            backoff_ns=BACKOFF_NS,
        )
