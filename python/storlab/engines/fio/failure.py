"""Explanation of failed fio runs from their exit status, JSON and standard error."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from storlab.engines.fio import result as fio_result
from storlab.engines.fio.result import FioOutput
from storlab.model.result import Failure
from storlab.process.member_files import absolute
from storlab.workloads.block.job import BlockJob

_IO_ERROR = re.compile(
    r"io_u error on file (?P<path>.*): (?P<what>[^:]*): (?P<operation>\w+) offset=(?P<offset>\d+)"
)
_THREAD_ERROR = re.compile(
    r"err=(?P<errno>\d+)/file:[^,]*, func=(?P<func>[^,]*), error=(?P<what>.*)"
)
_FIXES = {
    errno.EIO: (
        "read the kernel's log (dmesg): if it names the device, read its SMART data; if "
        "it mentions page cache invalidation, stop the other program that uses this "
        "file"
    ),
    errno.ENOSPC: "free space on the device or file system, or set a smaller size",
    errno.EROFS: "remount the file system with write access, or measure reads only",
    errno.ENODEV: "the device is gone: check the cabling and the kernel's log (dmesg)",
    errno.ENXIO: "the device is gone: check the cabling and the kernel's log (dmesg)",
    errno.EACCES: "give this user access to the target, or run as root",
    errno.EINVAL: "use a block size that is a multiple of the device's logical block, or set "
    "direct = false if O_DIRECT is not supported",
    errno.EOPNOTSUPP: "leave out this operation, which the device or file system does not support",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit status and output of an ended fio process.

    ``output`` is None if the JSON cannot be parsed, and ``damage`` is then the reason.
    """

    exit_code: int
    output: FioOutput | None
    damage: str | None
    stdout: str
    stderr: str

    @property
    def messages(self) -> str:
        """Text that fio printed before its JSON, followed by standard error."""
        match = re.search(r"^\{", self.stdout, re.MULTILINE)
        notes = self.stdout[: match.start()] if match else self.stdout
        return f"{notes}\n{self.stderr}"


def explain(job: BlockJob, ended: Ended) -> Failure | None:
    """Return why a fio run failed, or None if its result is valid.

    A run failed if the exit status is not 0, a job has an ``error``, the JSON is unreadable, or no
    I/O was completed in the measure window.
    """
    figures = None
    if ended.output is not None:
        figures = fio_result.merge(fio_result.read_document(ended.output.documents[-1]))
    thread = _THREAD_ERROR.search(ended.messages)
    code = figures.error if figures is not None else 0
    if code == 0 and thread is not None:
        code = int(thread["errno"])
    if code or ended.exit_code:
        return _failure(job, ended, code, thread)
    if figures is None:
        message = f"fio's output cannot be read: {ended.damage}"
        return Failure(message=message, fix="read the output of fio in raw/")
    if not figures.measuring:
        return Failure(
            message="fio completed no I/O in the measure window",
            fix="lengthen the window, or lower the queue depth or block size",
        )
    return None


def _failure(job: BlockJob, ended: Ended, code: int, thread: re.Match[str] | None) -> Failure:
    error = _IO_ERROR.search(ended.messages)
    reason = error["what"] if error else thread["what"] if thread else _first_line(ended.stderr)
    fix = _FIXES.get(code, "read raw/stderr.txt")
    if thread is not None and "init" in thread["func"]:
        fix = 'allow io_uring on this host, or set backend = "posix" and queue_depth = 1'
    return Failure(
        message=f"fio: {reason or f'exit code {ended.exit_code}'}",
        fix=fix,
        errno=code or None,
        errno_name=errno.errorcode.get(code),
        operation=error["operation"] if error else None,
        offset=int(error["offset"]) if error else None,
        path=_name_of(job, error["path"]) if error else None,
    )


def _first_line(stderr: str) -> str:
    lines = (line.strip() for line in stderr.splitlines())
    return next((line.removeprefix("fio: ") for line in lines if line), "")


def _name_of(job: BlockJob, path: str) -> str:
    """Return the displayed name of the target's file or device that fio calls ``path``.

    fio's path may be a file descriptor that storlab holds open.
    """
    return next((m.name for m in job.members if absolute(m) == path), path)
