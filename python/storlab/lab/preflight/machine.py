"""Preflight checks of CPU cores: whether other programs or the hypervisor take CPU time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from storlab import _native
from storlab.base.units import NS_PER_S, format_duration
from storlab.contracts.check import Check

SPIN_NS = NS_PER_S
"""Duration in ns for which all cores are kept busy to measure lost CPU time."""
_SPIN_SHARE = 100  # the spin takes at most 1/100 of a campaign's time
_LEAST_SPIN_NS = NS_PER_S // 50
_LOST_PERCENT = 2.0
_LOAD_PER_CORE = 0.5


def spin_ns(campaign_ns: int) -> int:
    """Return how long to keep all cores busy to see whether others take CPU time, in ns.

    The longer the campaign, the longer this test may take, up to a second.
    """
    return min(SPIN_NS, max(_LEAST_SPIN_NS, campaign_ns // _SPIN_SHARE))


def core_checks(length_ns: int) -> Iterator[Check]:
    """Check the load average, and the CPU time lost while all cores are busy for ``length_ns``."""
    yield load_check(os.getloadavg()[0], len(os.sched_getaffinity(0)))
    yield spin_check(json.loads(_native.spin(length_ns / NS_PER_S)))


def load_check(load: float, cores: int) -> Check:
    """Check the load average of the last minute against the number of cores."""
    what = f"{load:.2f} over the last minute, with {cores} core{'s' if cores > 1 else ''}"
    if load <= _LOAD_PER_CORE * cores:
        return Check(name="load", status="ok", what=what)
    return Check(
        name="load",
        status="warning",
        what=f"{what}: other programs take cores from the load generator",
        fix="end other programs, or wait until they have finished",
    )


def spin_check(spun: dict[str, float | None]) -> Check:
    """Check how much CPU time busy threads lost, by the result of ``_native.spin``."""
    lost, stolen = spun["lost_percent"] or 0.0, spun["steal_percent"]
    length = format_duration(round(spun["length_ns"] or 0))
    host = "" if stolen is None else f"; the hypervisor took {stolen:.2g} % of the cores' time"
    what = (
        f"{spun['threads']} busy threads did not run in {lost:.2g} % of {length}, and the "
        f"largest gap was {format_duration(round(spun['largest_gap_ns'] or 0))}{host}"
    )
    if lost < _LOST_PERCENT and (stolen or 0.0) < _LOST_PERCENT:
        return Check(name="cores", status="ok", what=what)
    return Check(
        name="cores",
        status="warning",
        what=f"{what}: throughput will be understated, and latencies will include such gaps",
        fix="end other programs; for a virtual machine or a container, request dedicated cores",
    )
