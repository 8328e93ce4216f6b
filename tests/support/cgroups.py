"""Control groups for tests, in the cgroup version that this machine allows."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from storlab.base.clock import sleep_s
from storlab.process.cgroups import groups_of

V1_NAMES = {"cpu": "cpu", "memory": "memory", "io": "blkio"}


@contextmanager
def control_group(
    controller: str, limits_v1: Mapping[str, str], limits_v2: Mapping[str, str]
) -> Iterator[Path]:
    """Make a control group with these limits and remove it; skip the test if that is not permitted.

    Args:
        controller: Controller name in version 2: cpu, memory, io.
        limits_v1: Limits (text by file name) in a version 1 hierarchy.
        limits_v2: Limits (text by file name) in the unified hierarchy.
    """
    top, limits = _top(controller, limits_v1, limits_v2)
    group = top / f"storlab-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        for name, text in limits.items():
            (group / name).write_text(text)
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group with limits of {controller} can be made: {error}")
    try:
        yield group
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:  # the kernel has not yet released its last process
                sleep_s(0.05)


def _top(
    controller: str, limits_v1: Mapping[str, str], limits_v2: Mapping[str, str]
) -> tuple[Path, Mapping[str, str]]:
    """Return the topmost group that this process sees, and the limits for its version."""
    if os.geteuid() != 0:
        pytest.skip("control groups need root")
    for group in groups_of(V1_NAMES[controller]):
        if (group / "cgroup.controllers").exists():
            top = groups_of(V1_NAMES[controller])[-1]
            known = (top / "cgroup.controllers").read_text().split()
            if controller in known:
                with suppress(OSError):
                    (top / "cgroup.subtree_control").write_text(f"+{controller}")
                return top, limits_v2
        elif (group / "cgroup.procs").exists() and not (group / "cgroup.type").exists():
            return _highest(group, controller), limits_v1
    pytest.skip(f"this machine has no controller {controller}")


def _highest(group: Path, controller: str) -> Path:
    above = [g for g in groups_of(V1_NAMES[controller]) if group.is_relative_to(g)]
    return above[-1]


def storlab_in(group: Path, arguments: Sequence[str | Path]) -> list[str]:
    inside = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    program = "import sys; from storlab.cli.main import main; sys.exit(main())"
    return ["sh", "-c", inside, "sh", sys.executable, "-c", program, *map(str, arguments)]
