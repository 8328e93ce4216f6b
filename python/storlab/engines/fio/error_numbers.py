"""Names of the error numbers in fio's results, which differ between Linux and Windows."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping

from storlab.engines.fio import importer_options as fio_options
from storlab.engines.fio.result import Figures
from storlab.model.result import Failure

VERIFY = "EILSEQ"
"""Error by which fio reports that data read back differs from what was written."""
# From the header errno.h of Microsoft's C runtime; up to 34 the names are those of Linux.
_WINDOWS = {
    36: "EDEADLK",
    38: "ENAMETOOLONG",
    39: "ENOLCK",
    40: "ENOSYS",
    41: "ENOTEMPTY",
    42: VERIFY,
    105: "ECANCELED",
    106: "ECONNABORTED",
    107: "ECONNREFUSED",
    108: "ECONNRESET",
    110: "EHOSTUNREACH",
    114: "ELOOP",
    119: "ENOBUFS",
    129: "ENOTSUP",
    130: "EOPNOTSUPP",
    132: "EOVERFLOW",
    138: "ETIMEDOUT",
    139: "ETXTBSY",
}
_SAME_UP_TO = 34
_WINDOWS_PATH = re.compile(r"\\\\\.\\|^[A-Za-z](\\?:)?\\")


def failure_of(figures: Figures, options: Mapping[str, str]) -> Failure | None:
    """Return the failure of an imported run: its error, or that no I/O completed; else None."""
    if figures.error:
        name = error_name(figures.error, windows=on_windows(options))
        if name == VERIFY:
            return Failure(
                message="fio: verification failed: data that was read differs from what was "
                f"written ({VERIFY})",
                fix="find out why data was lost or changed before you compare this storage",
                errno=figures.error,
                errno_name=name,
            )
        return Failure(
            message=f"fio: {_meaning(figures.error, name)}",
            fix="repeat the run; the error occurred on the machine that ran fio",
            errno=figures.error,
            errno_name=name,
        )
    if not any(direction.operations for direction in figures.directions.values()):
        return Failure(message="fio completed no I/O", fix="read fio's messages of this run")
    return None


def error_name(number: int, *, windows: bool) -> str | None:
    """Return the name of an error number, such as EIO; None if the system has none for it."""
    if windows and number > _SAME_UP_TO:
        return _WINDOWS.get(number)
    return errno.errorcode.get(number)


def on_windows(options: Mapping[str, str]) -> bool:
    """Return whether a job's I/O engine or paths show that fio ran on Windows."""
    return fio_options.engine_of(options) == "windowsaio" or any(
        _WINDOWS_PATH.search(options.get(name, "")) for name in ("filename", "directory")
    )


def _meaning(number: int, name: str | None) -> str:
    if name is None:
        return f"error {number}"
    own = getattr(errno, name, None)
    return f"{name if own is None else os.strerror(own)} (error {number}, {name})"
