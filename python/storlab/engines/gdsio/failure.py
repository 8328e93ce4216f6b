"""Explanation of failed gdsio runs from their output, because the exit status is unreliable."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

from storlab.model.result import Failure
from storlab.process.child import ending

_REGISTER = re.compile(r"file register error:\s*(?P<what>.*?)\s+filename:\s*(?P<path>\S+)")
_IO = re.compile(
    r"io failed\s*:\s*ret\s*:(?P<ret>-?\d+)\s+errno\s*:(?P<errno>\d+),\s*file offset\s*:"
    r"(?P<offset>\d+)"
)
_STOPPED = re.compile(r"IO failed.*?ret\s*:\s*(?P<ret>-?\d+)\s+errno\s*:\s*(?P<errno>\d+)")
_LIBRARY = re.compile(r"error while loading shared libraries:\s*(?P<what>.*)")
_CUDA_ERROR = re.compile(r"(?:cuda|CUDA)\w*.*(?:fail|error|Error|out of memory).*")
_FIXES = {
    errno.EIO: "read raw/cufile.log and the kernel's log (dmesg); `storlab doctor` tests the path",
    errno.ENOSPC: "free space on the device or file system, or set a smaller size",
    errno.EROFS: "remount the file system with write access, or measure reads only",
    errno.EACCES: "give this user access to the target, or run as root",
}


_READ_RAW = "read gdsio's output and cufile.log in raw/"


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit status and output of an ended gdsio process.

    ``damage`` is the reason why its output has no usable result, or None.
    """

    exit_code: int
    damage: str | None
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """Text of standard error followed by standard output."""
        return f"{self.stderr}\n{self.stdout}"


def explain(ended: Ended, names: dict[str, str]) -> Failure | None:
    """Return why a gdsio run failed, or None if its result is valid.

    Args:
        ended: The exit status and output of gdsio.
        names: The displayed name of the target's file by the name of the link that gdsio opened.
    """
    for explained in (_of_library(ended), _of_register(ended, names), _of_io(ended)):
        if explained is not None:
            return explained
    if ended.exit_code == 0 and ended.damage is None:
        return None
    last = _last_line(ended)
    cuda = _CUDA_ERROR.search(ended.words)
    if cuda is not None:
        return Failure(
            message=f"gdsio: {cuda.group(0).strip()}",
            fix="run `nvidia-smi`: the GPU may be lost, out of memory or used by another process",
        )
    if ended.exit_code:
        message = f"gdsio ended {ending(ended.exit_code)}"
        return Failure(message=message + (f": {last}" if last else ""), fix=_READ_RAW)
    message = f"gdsio's output cannot be used: {ended.damage}"
    return Failure(message=message + (f" ({last})" if last else ""), fix=_READ_RAW)


def _of_library(ended: Ended) -> Failure | None:
    match = _LIBRARY.search(ended.words)
    if match is None:
        return None
    return Failure(
        message=f"gdsio cannot be loaded: {match['what'].strip()}",
        fix="install the complete CUDA toolkit, or add its libraries to LD_LIBRARY_PATH",
    )


def _of_register(ended: Ended, names: dict[str, str]) -> Failure | None:
    match = _REGISTER.search(ended.words)
    if match is None:
        return None
    return Failure(
        message=f"gdsio: cuFile does not accept the file: {match['what']}",
        fix="run `storlab doctor`, which tells why; or set allow_compat_mode in cufile.json, which "
        "makes cuFile use POSIX I/O",
        operation="register",
        path=names.get(match["path"].split("/")[-1], match["path"]),
    )


def _of_io(ended: Ended) -> Failure | None:
    match = _IO.search(ended.words)
    stopped = match or _STOPPED.search(ended.words)
    if stopped is None:
        return None
    # A small ret is -errno of the failed I/O. errno itself may stem from a later call.
    code = abs(int(stopped["ret"])) or int(stopped["errno"])
    known = code if code in errno.errorcode else int(stopped["errno"])
    words = os.strerror(known) if known else f"code {code}"
    return Failure(
        message=f"gdsio: an I/O failed: {words}",
        fix=_FIXES.get(known, _READ_RAW),
        errno=known or None,
        errno_name=errno.errorcode.get(known),
        offset=int(match["offset"]) if match else None,
    )


def _last_line(ended: Ended) -> str:
    lines = [line.strip() for line in ended.words.splitlines() if line.strip()]
    return lines[-1] if lines else ""
