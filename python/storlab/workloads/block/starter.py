"""Tables for files and devices in the study that ``storlab init`` writes."""

from __future__ import annotations

from collections.abc import Sequence


class Starter:
    """Mixin with the family's tables of the starter study."""

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """Return a workload on the files, and reads of a device as commented-out lines."""
        tables = [_MIXED.format(targets=", ".join(files))]
        return tables if device is None else [*tables, _READ_ONLY.format(target=device)]


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
# rate_iops = 1000       # open loop: so many operations per second, whether or not they keep up
# offsets = "zipf"       # or uniform, hot_cold, permutation
# verify = true          # check afterwards that every block holds what was written

# Names that readers know for some of the values; they label the brief.
[[workload.use_case]]
name = "small reads, as of a database"
match = {{ block_size = "4KiB", read_percent = 100 }}
"""

_READ_ONLY = """\
# Reads of a device, which change nothing on it (activate the target above, too):
# [[workload]]
# kind = "block"
# name = "random reads"
# targets = [{target}]
# block_size = ["4KiB", "256KiB"]
# read_percent = 100
# queue_depth = 32
# jobs = 4
"""
