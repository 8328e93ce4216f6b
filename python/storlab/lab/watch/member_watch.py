"""Checks of a run's files and devices before and after its load.

They find blocks that were never written, files that another program changed during the run, and
buffered writes that the kernel could not write back to the device.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from storlab.contracts.family import Estimate
from storlab.model.job import Member
from storlab.model.result import Failure, RunOutcome
from storlab.process.execution import POLL_S, Interrupted, StopRequest
from storlab.stores.content import blank_blocks, unwritten_bytes
from storlab.stores.filesystems import file_system_of
from storlab.stores.medium import Medium, is_remote
from storlab.stores.sidecar import made_by_storlab

LEAST_HOLES = 0.01  # share of a file; the last block may be incomplete
LEAST_BLANK = 0.1  # share of sampled blocks; real data contain some zeros
_COPY_ON_WRITE = ("btrfs", "zfs", "bcachefs")  # allocated blocks change long after a write
# If a file lost more than 1/64 of its allocated blocks, it was truncated or holes were punched.
_FREED = 64


@dataclass(frozen=True, slots=True)
class _State:
    """Attributes of a file by which changes by other programs are detected."""

    identity: tuple[int, int]
    directory: int  # device number of the directory that holds it
    size: int
    allocated: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> _State:
        status = Path(path).stat()
        identity = (status.st_dev, status.st_ino)
        directory = Path(path).parent.stat().st_dev
        allocated = status.st_blocks * 512
        return cls(identity, directory, status.st_size, allocated, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class _Change:
    """Change of a file that another program made during a run."""

    kind: Literal["removed", "replaced", "resized", "freed", "written"]
    what: str


class MemberWatch:
    """Monitor of the files and devices of one run, as a ``with`` block around its load.

    Args:
        members: Files and devices of the job.
        medium: Medium that holds them.
        estimate: Estimate of the run, which tells whether it reads, writes and frees blocks.
        direct: Whether the job uses direct I/O.
        seed: Random seed for the positions of sampled blocks.
    """

    def __init__(
        self,
        members: Sequence[Member],
        medium: Medium,
        estimate: Estimate,
        *,
        direct: bool,
        seed: int,
    ) -> None:
        self._members = [member for member in members if member.kind != "null"]
        self._estimate = estimate
        self._seed = seed
        # Hold files open: the kernel reports a writeback error only to files open when it occurred.
        self._flushes = estimate.writes and (not direct or bool(medium.cached))
        self._open: list[tuple[Member, int]] = []
        self._states: dict[str, _State] = {}
        self._holes: list[str] = []
        self._blank: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        with suppress(OSError):  # the engine gets the same error and fails the run
            self._look()
        return self

    def __exit__(self, *_: object) -> None:
        for _member, handle in self._open:
            os.close(handle)
        self._open.clear()

    def _look(self) -> None:
        foreign = self._foreign()
        if self._estimate.reads:
            # Storlab's own files are checked, too: other programs may punch holes into them.
            self._holes = _with_holes(self._members)
            self._blank = blank_blocks(foreign, self._seed)
        for member in self._members:
            if member.kind == "file":
                self._states[member.path] = _State.of(member.path)
            if self._flushes:
                handle = os.open(member.path, os.O_RDONLY | os.O_CLOEXEC)
                self._open.append((member, handle))

    def _foreign(self) -> list[Member]:
        """Return the devices, and the files that storlab did not create."""
        return [m for m in self._members if m.kind != "file" or not made_by_storlab(Path(m.path))]

    def judge(self, outcome: RunOutcome, stop: StopRequest) -> None:
        """Check files and devices after the load; add findings to the run, or mark it as failed.

        Raises Interrupted if a stop is requested.
        """
        if outcome.status == "finished":
            outcome.conclude(self._change() or self._lost(stop))
        elif outcome.status == "failed" and (change := self._change()) is not None:
            outcome.conclude(_caused(change, outcome.failure))
        if outcome.status == "finished" and self._estimate.reads and not self._estimate.writes:
            self._sample_again()
        outcome.details["medium"] |= self._told()

    def _told(self) -> dict[str, Any]:
        return {
            "holes": self._holes,
            "blank": [
                f"{blank} of {read} sampled blocks of {name} hold one repeated byte"
                for name, (blank, read) in self._blank.items()
                if blank and blank >= LEAST_BLANK * read
            ],
        }

    def _sample_again(self) -> None:
        """Sample blocks at other positions, since blocks may have been discarded in the run."""
        for name, (blank, read) in blank_blocks(self._foreign(), self._seed + 1).items():
            before = self._blank.get(name, (0, 0))
            self._blank[name] = (before[0] + blank, before[1] + read)

    def _change(self) -> Failure | None:
        """Return a failure if another program changed a file during the run, else None."""
        for member in self._members:
            before = self._states.get(member.path)
            if before is not None and (change := self._difference(member, before)) is not None:
                return Failure(
                    message=f"{member.name} was changed by another program during the run: "
                    f"{change.what}",
                    fix="keep other programs away from the file, and repeat the run",
                    path=member.name,
                    changed=change.kind,
                )
        return None

    def _difference(self, member: Member, before: _State) -> _Change | None:
        try:
            after = _State.of(member.path)
            kind = file_system_of(Path(member.path)).kind
        except FileNotFoundError:
            return _removed(member, before)
        except OSError:
            return None  # reachability of the target is checked elsewhere
        if after.identity != before.identity:
            inodes = f"inode {before.identity[1]}, then {after.identity[1]}"
            return _Change("replaced", f"it was replaced by another file ({inodes})")
        if after.size != before.size:
            what = f"its size was {before.size:,} bytes, then {after.size:,}"
            return _Change("resized", what)
        freed = before.allocated - after.allocated
        is_cut = freed > before.size // _FREED and after.allocated < before.size
        stays = not (self._estimate.frees or kind in _COPY_ON_WRITE or is_remote(kind))
        if is_cut and stays:
            what = f"it had {before.allocated:,} allocated bytes, then {after.allocated:,}"
            return _Change("freed", what)
        if after.mtime_ns != before.mtime_ns and not self._estimate.writes and not is_remote(kind):
            return _Change("written", "it was written to: its modification time changed")
        return None

    def _lost(self, stop: StopRequest) -> Failure | None:
        """Return a failure if the kernel could not write buffered data to the device, else None."""
        failures: list[Failure] = []
        if not self._open:
            return None
        flushing = threading.Thread(
            target=_flush, args=(self._open, failures), name="storlab-flush", daemon=True
        )
        flushing.start()
        while flushing.is_alive():
            flushing.join(POLL_S)
            if stop.requested and flushing.is_alive():
                self._open = []  # the thread still uses the files
                raise Interrupted
        return failures[0] if failures else None


def _removed(member: Member, before: _State) -> _Change | None:
    """Return the removal of a file, or None if its whole file system is gone."""
    try:
        is_there = Path(member.path).parent.stat().st_dev == before.directory
    except OSError:
        return None  # reachability of the target is checked elsewhere
    return _Change("removed", "it no longer exists") if is_there else None


def _caused(change: Failure, failure: Failure | None) -> Failure:
    """Return the engine's failure, with the changed file as its cause."""
    if failure is None:
        return change
    return failure.model_copy(
        update={
            "message": f"{change.message}; the engine ended with: {failure.message}",
            "fix": change.fix,
            "path": change.path,
            "changed": change.changed,
        }
    )


def _flush(members: Sequence[tuple[Member, int]], failures: list[Failure]) -> None:
    for member, handle in members:
        try:
            os.fsync(handle)
        except OSError as error:
            failures.append(
                Failure(
                    message=f"writes to {member.name} were acknowledged and then lost: the kernel "
                    f"could not write them from the page cache to the device ({error.strerror})",
                    fix="read the kernel's log, and check that the target's medium is not full",
                    errno=error.errno,
                    errno_name=errno.errorcode.get(error.errno or 0),
                    operation="writeback",
                    path=member.name,
                )
            )


def _with_holes(members: Sequence[Member]) -> list[str]:
    """Return a phrase for each file of which some part was never written."""
    shares = {m.name: unwritten_bytes(m) / m.size for m in members if m.kind == "file"}
    return [
        f"{100 * share:.3g} % of {name} are holes or extents that were never written"
        for name, share in shares.items()
        if share >= LEAST_HOLES
    ]
