"""Preflight checks of limits: whether cgroups or thread limits restrict the load of a study."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from storlab.base.units import format_bytes_si
from storlab.contracts.check import Check
from storlab.lab.watch.limits import limit_facts, limits_of
from storlab.model.s3 import EMBEDDED
from storlab.model.study import StudyBase, Target
from storlab.process.cgroups import io_limits
from storlab.stores.devices import Device
from storlab.stores.medium import medium_of

OWN_THREADS = 64  # threads of storlab itself: libraries, meters, monitors


def limit_checks(
    facts: Mapping[str, Any], cores: int, workers: int, memory_bytes: int
) -> Iterator[Check]:
    """Check the limits of CPU, memory and threads on one machine.

    Args:
        facts: Limits as :func:`storlab.lab.watch.limits.limit_facts` returns them.
        cores: Number of cores that the load generator may run on.
        workers: Largest number of worker threads of a run.
        memory_bytes: Largest memory that a run needs.
    """
    quota = facts["quota_cores"]
    if quota is not None and quota < cores:
        yield Check(
            name="CPU quota",
            status="warning",
            what=f"the control group {facts['quota_group']} allows {quota:.3g} of {cores} cores: "
            "the kernel stops the load generator when it has used them, so results may show this "
            "limit instead of the target's",
            fix="remove the quota: cpu.max, cpu.cfs_quota_us, or --cpus of the container",
        )
    if facts["memory_limit_bytes"] is not None:
        limit = format_bytes_si(facts["memory_limit_bytes"])
        what = f"limited to {limit} by {facts['memory_group']}; the page cache is part of it"
        yield Check(name="memory limit", status="ok", what=what)
    left = facts["memory_left_bytes"]
    if memory_bytes > left:
        yield Check(
            name="memory",
            status="error",
            what=f"a run needs about {format_bytes_si(memory_bytes)} for buffers and histograms, "
            f"but only {format_bytes_si(left)} are available",
            fix="use fewer jobs or smaller buffers, end other programs, or raise memory.max",
        )
    need = workers + OWN_THREADS
    if workers and need > facts["threads"]:
        yield Check(
            name="threads",
            status="error",
            what=f"a run needs about {need:,} threads, but only {facts['threads']:,} are permitted",
            fix="use fewer jobs, or raise the limit: pids.max of the control group, ulimit -u, "
            "kernel.threads-max",
        )


def io_limit_checks(device: Device) -> Iterator[Check]:
    """Yield a warning for each I/O limit that cgroups of this process set on a device."""
    for limit, name, _ in limits_of([device]):
        yield Check(
            name="I/O limit",
            status="warning",
            what=f"the control group {limit.group} limits {limit.direction} of {name} to "
            f"{limit.text}, so results may show this limit instead of the target's",
            fix="remove the limit: io.max, or blkio.throttle of cgroup version 1",
        )


def standing_limits(study: StudyBase, base: Path) -> Iterator[Check]:
    """Check the cgroup limits that apply to all runs whose load this process generates.

    Args:
        study: Study whose targets' devices are checked for I/O limits; no target is opened.
        base: Directory that relative paths of the study start from.
    """
    yield from limit_checks(limit_facts(), len(os.sched_getaffinity(0)), 0, 0)
    if not io_limits():
        return
    places = [place for target in study.target for place in _places(target, base)]
    for device in dict.fromkeys(d for place in places for d in medium_of(place).devices):
        with suppress(OSError):  # the device went away meanwhile
            yield from io_limit_checks(device)


def _places(target: Target, base: Path) -> list[Path]:
    if target.is_embedded:
        return [base / (target.s3 or "").removeprefix(EMBEDDED).strip()]
    return [] if target.is_null else [base / place for place in target.locations]
