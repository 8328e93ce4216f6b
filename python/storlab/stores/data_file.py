"""Guard existing files: storlab writes to and deletes only data files that it created."""

from __future__ import annotations

import os
from pathlib import Path

from storlab.base.errors import GuardError, PreflightError
from storlab.base.files import directory_problem
from storlab.model.job import Member
from storlab.stores.devices import uses_of_file
from storlab.stores.sidecar import SUFFIX, made_by_storlab, read_sidecar

_NO_FILES_HERE = ("/dev", "/proc", "/sys")


def check_data_file(name: str, path: Path, size: int | None, *, writes: bool) -> Member:
    """Check that a campaign may use a data file, which need not exist, and describe it.

    A file that storlab did not create may be read, but not written.

    Args:
        name: Path as in the study, for error messages.
        path: Path of the file.
        size: Size in bytes; None for the size of the existing file.
        writes: Whether the campaign writes to the file.

    Raises:
        GuardError: The file belongs to another program or user, or is in use.
        PreflightError: The file cannot be used, for example because it is empty.
    """
    real = Path(os.path.realpath(path))
    if is_kernel_place(real):
        missing = "is not a device" if real.exists() else "does not exist"
        raise GuardError(
            name,
            f"{missing}, and storlab never creates or writes files in /dev, /proc or /sys",
            "check that the device is connected: `lsblk -o NAME,SERIAL,SIZE` lists all devices",
        )
    if not real.exists():
        return _new_file(name, real, size)
    laid_out = made_by_storlab(real)
    length = size or real.stat().st_size
    if not laid_out and (writes or length > real.stat().st_size):
        raise GuardError(
            name,
            f"exists, but storlab did not create it (there is no matching {real.name}{SUFFIX})",
            "choose a path that does not exist yet, or move the file away",
        )
    uses = uses_of_file(real)
    if uses and writes:
        raise GuardError(name, f"is in use: {'; '.join(uses)}", "choose another path")
    if length == 0:
        raise PreflightError(name, "is empty", 'give the target a size, such as size = "10GiB"')
    return Member(path=str(real), name=name, kind="file", size=length)


def _new_file(name: str, real: Path, size: int | None) -> Member:
    if problem := directory_problem(real.parent):
        what = f"its directory {real.parent} {problem}"
        raise PreflightError(name, what, "create it, or correct the path")
    if size is None or size == 0:
        raise PreflightError(
            name, "does not exist and has no size", 'give the target a size, such as size = "10GiB"'
        )
    read_sidecar(real)  # raises GuardError for a foreign file with the sidecar's name
    return Member(path=str(real), name=name, kind="file", size=size)


def is_kernel_place(real: Path) -> bool:
    """Return whether a resolved path is in /dev, /proc or /sys, except /dev/shm."""
    text = str(real)
    memory = "/dev/shm"  # noqa: S108  (a tmpfs for files, unlike the rest of /dev)
    if text == memory or text.startswith(f"{memory}/"):
        return False
    return any(text.startswith(f"{place}/") for place in _NO_FILES_HERE) or _on_devtmpfs(
        real.parent
    )


def _on_devtmpfs(directory: Path) -> bool:
    try:
        return directory.stat().st_dev == Path("/dev").stat().st_dev and Path("/dev").is_mount()
    except OSError:
        return False
