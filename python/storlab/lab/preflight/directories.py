"""Preflight checks of directories: whether data will go to the intended file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from storlab.base.files import directory_problem
from storlab.contracts.check import Check
from storlab.stores.filesystems import existing_parent, file_system_of, unmounted_above


def directory_checks(directory: Path, *, made: bool = False) -> Iterator[Check]:
    """Check that a directory exists and that its file system is mounted.

    Otherwise data would go to another file system than the one that other checks examine.

    Args:
        directory: Directory for a target's data.
        made: Whether storlab creates the directory if it does not exist.
    """
    nearest = existing_parent(directory)
    under = file_system_of(nearest)
    on = f"{under.kind} at {under.mount_point}"
    absent = unmounted_above(directory)
    later = "" if absent is None else f"mount {absent.mount_point}"
    if directory.exists():
        if problem := directory_problem(directory):
            yield _check("error", f"{directory} {problem}", "name a directory")
    else:
        what = (
            f"{directory} does not exist; {nearest} ({on}) is checked instead, which may be "
            "another file system if one is mounted below it before the run"
        )
        first = f"{later}, then create the directory" if later else "create it, or correct the path"
        yield _check("ok", what) if made else _check("error", what, first)
    if absent is not None:
        what = (
            f"/etc/fstab lists {absent.source} at {absent.mount_point}, but it is not mounted: "
            f"data would go to {on}"
        )
        yield Check(name="mount", status="warning", what=what, fix=later)


def _check(status: Literal["ok", "error"], what: str, fix: str = "") -> Check:
    return Check(name="directory", status=status, what=what, fix=fix)
