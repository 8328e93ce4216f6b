"""What ``storlab init`` suggests for stores."""

from __future__ import annotations

from collections.abc import Sequence


class Starter:
    """Implements ``storlab.contracts.offers.StartsStudies``."""

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """A workload on a store, as a comment."""
        del files, device
        return [_MIXED]


_MIXED = """\
# Requests to an S3 store (activate a target of that kind above, too):
# [[workload]]
# kind = "object"
# name = "mixed objects"
# get_percent = [30, 70]   # the rest is PUT
# object_size = "4MiB"
# objects = 100            # made beforehand
# concurrency = 16         # requests in flight
"""
