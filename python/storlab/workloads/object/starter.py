"""Object workload of the study that ``storlab init`` writes."""

from __future__ import annotations

from collections.abc import Sequence


class Starter:
    """Mixin of a family that adds workloads to the study of ``storlab init``."""

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """Return an object workload as commented-out lines."""
        del files, device
        return [_MIXED]


_MIXED = """\
# Requests to an S3 store (to use them, uncomment such a target above, too):
# [[workload]]
# kind = "object"
# name = "mixed objects"
# get_percent = [30, 70]   # the rest is PUT
# object_size = "4MiB"
# objects = 100            # created before the runs
# concurrency = 16         # requests in flight
"""
