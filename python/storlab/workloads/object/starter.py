"""Object workloads of the studies that ``storlab init`` and ``storlab try`` write."""

from __future__ import annotations

from collections.abc import Sequence


class Starter:
    """Mixin of a family that adds workloads to studies that storlab writes."""

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """Return an object workload as commented-out lines."""
        del files, device
        return [_MIXED]

    def short_tables(self, *, writes: bool) -> list[str]:
        """Return GETs and PUTs of small and large objects; none if writes are not allowed."""
        return [_SHORT] if writes else []


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

_SHORT = """\
[[workload]]
kind = "object"
name = "GET"
get_percent = 100
object_size = ["64KiB", "4MiB"]
concurrency = [1, 16]
objects = 50 # a pool larger than the server's memory would measure its drives

[[workload]]
kind = "object"
name = "PUT"
get_percent = 0
object_size = ["64KiB", "4MiB"]
concurrency = [1, 16]
"""
