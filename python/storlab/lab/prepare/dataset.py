"""Data files of targets, which storlab creates, reuses on resume, and removes at the end."""

from __future__ import annotations

import errno
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from storlab import __version__
from storlab.base.errors import PreflightError, RunError
from storlab.base.seeds import derive_seed
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.contracts.registry import get_engine
from storlab.contracts.reporter import Reporter
from storlab.contracts.services import fills_members
from storlab.lab.plan.home_space import HomeNeed
from storlab.model.job import Member
from storlab.model.result import Failure, Snapshot
from storlab.process.execution import StopRequest, finish
from storlab.stores.filesystems import existing_parent, free_bytes, supports_direct
from storlab.stores.sidecar import DataFileHold, Sidecar, is_complete, made_by_storlab

GRAIN = 1 << 20  # files are filled in blocks of this size


class PrepareError(RunError):
    """Error while preparing or cleaning a target; ``failure`` has details as for a failed run."""

    def __init__(self, where: str, failure: Failure) -> None:
        super().__init__(where, failure.message, failure.fix)
        self.failure = failure


def to_lay_out(members: Iterable[Member]) -> list[Member]:
    """Return the data files that storlab still has to write (lay out).

    Files that storlab did not create are left out, because they may only be read.
    """
    return [
        member
        for member in members
        if member.kind == "file"
        and not is_complete(Path(member.path), member.size)
        and (not Path(member.path).exists() or made_by_storlab(Path(member.path)))
    ]


def check_space(
    members: Iterable[Member], homes: Mapping[Path, Sequence[HomeNeed]] | None = None
) -> None:
    """Check that data sets and the files of runs fit on their file systems; write nothing.

    Args:
        members: Files and devices of targets.
        homes: Space that workloads need, by ``storlab-data`` directory.

    Raises:
        PreflightError: The free space of a file system is too small.
    """
    needed: dict[int, int] = defaultdict(int)
    runs: dict[int, int] = defaultdict(int)  # only one run needs its space at a time
    left: dict[int, int] = defaultdict(int)
    place: dict[int, Path] = {}
    for member in to_lay_out(members):
        path = Path(member.path)
        parent = existing_parent(path.parent)
        number = parent.stat().st_dev
        there = path.stat().st_blocks * 512 if path.exists() else 0
        needed[number] += max(0, member.size - there)
        place[number] = parent
    for home, needs in (homes or {}).items():
        parent = existing_parent(home)
        number = parent.stat().st_dev
        whole = HomeNeed()
        for need in needs:
            whole.add(need)
        needed[number] += whole.missing_bytes(home)
        runs[number] = max(runs[number], whole.run_bytes)
        left[number] += whole.left_bytes(home)
        place[number] = parent
    for number, size in needed.items():
        free = free_bytes(place[number]) + left[number]
        if size + runs[number] > free:
            raise PreflightError(
                str(place[number]),
                f"{space_text(size, runs[number])} but only {format_bytes_si(free)} are free",
                "reduce the size of the data, or use another directory",
            )


def space_text(data_bytes: int, run_bytes: int) -> str:
    """Return a phrase with the space that data sets and the files of a run need."""
    data = f"the data sets need {format_bytes_si(data_bytes)}"
    if run_bytes and data_bytes:
        return f"{data}, the files of a run another {format_bytes_si(run_bytes)},"
    return f"the files of a run need {format_bytes_si(run_bytes)}" if run_bytes else data


def lay_out(
    members: Sequence[Member],
    holds: Mapping[str, DataFileHold],
    *,
    direct: bool,
    seed: int,
    stop: StopRequest,
    reporter: Reporter,
) -> None:
    """Fill each incomplete data file with incompressible data, one file after the other.

    Args:
        members: Files and devices of a target.
        holds: Locks of the campaign on data files, by path.
        direct: Whether to write with O_DIRECT if the file system supports it.
        seed: Seed of the study.
        stop: Stop request to watch.
        reporter: Receiver of progress.

    Raises:
        PrepareError: A write failed; the error has errno and offset if a device failed.
        Interrupted: A stop was requested.
    """
    for number, member in enumerate(to_lay_out(members)):
        reporter.step(
            f"laying out {member.name} ({format_bytes_si(member.size)})", float(member.size)
        )
        try:
            _lay_out_one(
                member,
                _held(member, holds),
                direct=direct,
                seed=derive_seed(seed, "layout", number),
                stop=stop,
                reporter=reporter,
            )
        except OSError as error:
            raise PrepareError(member.name, _failure(member, error)) from error


def clean_up(members: Iterable[Member], holds: Mapping[str, DataFileHold]) -> list[str]:
    """Remove those data files that this campaign created, and return their names."""
    removed = []
    for member in members:
        with suppress(OSError):  # a failed file system must not stop the campaign's results
            if member.path in holds and holds[member.path].remove():
                removed.append(member.name)
    return removed


def _held(member: Member, holds: Mapping[str, DataFileHold]) -> DataFileHold:
    if member.path not in holds:  # a user's file, only to be read, has gone
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), member.path)
    return holds[member.path]


def _lay_out_one(
    member: Member,
    hold: DataFileHold,
    *,
    direct: bool,
    seed: int,
    stop: StopRequest,
    reporter: Reporter,
) -> None:
    path = Path(member.path)
    sidecar = Sidecar(
        member.size, seed, __version__, "started", campaign=hold.owner, written_by=hold.campaign
    )
    if not path.exists():
        hold.write(sidecar)  # before the file, so that a crash leaves no file without an owner
    fd = hold.open_to_lay_out()
    try:
        sidecar = replace(sidecar, inode=os.fstat(fd).st_ino, token=hold.mark(fd))
        hold.write(sidecar)
        os.ftruncate(fd, 0)
        os.ftruncate(fd, member.size)
        whole = member.size // GRAIN * GRAIN
        _write_tail(fd, whole, member.size - whole, seed)
    finally:
        os.close(fd)
    if whole:
        use_direct = direct and supports_direct(path)
        part = member.model_copy(update={"size": whole})
        fill([part], direct=use_direct, seed=seed, stop=stop, reporter=reporter)
    hold.write(replace(sidecar, state="complete"))


def fill(
    members: Sequence[Member],
    *,
    direct: bool,
    seed: int,
    stop: StopRequest,
    reporter: Reporter,
    block: int = GRAIN,
) -> int:
    """Write each file or device once from start to end, all of them in parallel.

    Zoned drives are filled up to the capacity of their zones, which may be less than their size.

    Args:
        members: Files or devices, whose sizes are multiples of 1 MiB.
        direct: Whether to write with O_DIRECT.
        seed: Seed of the data.
        stop: Stop request to watch.
        reporter: Receiver of progress.
        block: Size of a write, which divides the sizes of all members.

    Returns:
        Number of bytes written.

    Raises:
        PrepareError: A write failed.
        Interrupted: A stop was requested.
    """
    written = 0
    engine, family = get_engine("native"), fills_members()
    handles = [
        engine.start(
            family.fill_job(member, block, direct=direct, seed=derive_seed(seed, "fill", n)),
            Path(member.path).parent,
        )
        for n, member in enumerate(members)
    ]
    meter = ByteMeter(reporter)
    try:
        for member, handle in zip(members, handles, strict=True):
            outcome = finish(handle, stop, meter.add)
            if outcome.failure is not None:
                raise PrepareError(member.name, outcome.failure)
            written += outcome.totals["write"].bytes
        return written
    finally:
        for handle in handles:
            handle.cancel()
        for handle in handles:
            handle.wait()


class ByteMeter:
    """Computes the bytes written so far from the rates in snapshots, for the progress bar."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._bytes = 0.0
        self._last_ns = 0

    def add(self, snapshot: Snapshot) -> None:
        """Add the bytes since the last snapshot, and report progress."""
        elapsed_ns = max(0, snapshot.elapsed_ns - self._last_ns)
        self._bytes += (snapshot.bytes_s or 0.0) * elapsed_ns / NS_PER_S
        self._last_ns = snapshot.elapsed_ns
        self._reporter.step_progress(self._bytes, snapshot)


def _write_tail(fd: int, offset: int, length: int, seed: int) -> None:
    if length:
        os.pwrite(fd, random.Random(seed).randbytes(length), offset)  # noqa: S311  (data, no secret)
        os.fsync(fd)


def _failure(member: Member, error: OSError) -> Failure:
    fix = "check free space and permissions of the file's directory"
    if isinstance(error, FileExistsError):
        fix = "another program has just created this file: move it away, or use another path"
    return Failure(
        message=f"cannot lay out {member.name}: {error.strerror}",
        fix=fix,
        errno=error.errno,
        errno_name=errno.errorcode.get(error.errno or 0),
        operation="write",
        path=member.name,
    )
