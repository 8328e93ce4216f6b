"""The order that clears a bucket, whatever its objects are of."""

from __future__ import annotations

from storlab.model.s3 import S3Access
from storlab.workloads.object.job import ObjectJob

CONCURRENCY = 8
RETRIES = 5  # making and removing objects is not measured, so that it may try again
BACKOFF_NS = 200_000_000


class Clear:
    """Implements ``ClearsBuckets`` of storlab.contracts.offers."""

    def clear(self, access: S3Access, below: str) -> ObjectJob:
        """The job that deletes every object and open upload below a prefix."""
        return ObjectJob(
            task="clean",
            store=access.store,
            write_prefix=below,
            concurrency=CONCURRENCY,
            retries=RETRIES,
            backoff_ns=BACKOFF_NS,
        )
