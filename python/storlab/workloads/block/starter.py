"""Block workloads of the studies that ``storlab init`` and ``storlab try`` write."""

from __future__ import annotations

from collections.abc import Sequence


class Starter:
    """Mixin of a family that adds workloads to studies that storlab writes."""

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """Return a block workload on files, and a commented-out one that reads a device."""
        tables = [_MIXED.format(targets=", ".join(files))]
        return tables if device is None else [*tables, _READ_ONLY.format(target=device)]

    def short_tables(self, *, writes: bool) -> list[str]:
        """Return small random and large sequential I/O, with writes or without."""
        if writes:
            random, sequential = "[100, 70, 0] # reads, a mix, writes", "[100, 0] # reads, writes"
            return [_SHORT.format(random=random, sequential=sequential, note="")]
        random, sequential = "100 # or [100, 70, 0]", "100 # or [100, 0]"
        return [_SHORT.format(random=random, sequential=sequential, note=_ONLY_READ)]


_MIXED = """\
[[workload]]
kind = "block"
name = "mixed random I/O"
targets = [{targets}]
access = "random"
block_size = ["4KiB", "256KiB"]
read_percent = [70, 100] # the rest is written
queue_depth = 16         # outstanding I/Os of each job
jobs = [1, 2]
# rate_iops = 1000       # open loop: operations per second, even if earlier ones have not ended
# load_percent = [10, 30, 50, 70, 90, 110] # latency under load: percentages of the measured maximum
# offsets = "zipf"       # or uniform, hot_cold, permutation
# verify = true          # check afterwards that every block contains what was written

# Use cases: names of some combinations of values, which the brief shows to its readers.
[[workload.use_case]]
name = "small reads, as of a database"
match = {{ block_size = "4KiB", read_percent = 100 }}
"""

_READ_ONLY = """\
# Reads of a device, which do not change it (to use them, uncomment its target above, too):
# [[workload]]
# kind = "block"
# name = "random reads"
# targets = [{target}]
# block_size = ["4KiB", "256KiB"]
# read_percent = 100
# queue_depth = 32
# jobs = 4
"""

_ONLY_READ = """\
# A target is a block device or a file that existed, so these workloads only read. To write to a
# device as well, which DESTROYS all data on it: write read_percent as in the comments, review
# `storlab plan`, and give its hash to `storlab run --plan-hash`.
"""

_SHORT = """\
{note}[[workload]]
kind = "block"
name = "random I/O"
block_size = "4KiB"
read_percent = {random}
queue_depth = [1, 32]

[[workload]]
kind = "block"
name = "sequential I/O"
access = "sequential"
block_size = "1MiB"
read_percent = {sequential}
queue_depth = 8
"""
