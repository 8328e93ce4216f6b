"""Short study of a few places, for ``storlab try``: a first answer within a minute for each.

A place is a directory, a file, a block device or an S3 bucket. storlab writes only to directories
and buckets; block devices and files that exist are only read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from storlab.base.errors import PreflightError, UsageError
from storlab.base.files import directory_problem, shell_word
from storlab.base.units import (
    GIB,
    NS_PER_MS,
    NS_PER_S,
    exact_duration,
    format_bytes_si,
    format_duration,
    format_size,
)
from storlab.contracts.registry import FAMILIES
from storlab.lab.plan.plan import RUN_OVERHEAD_NS, make_plan, prepare_ns_by_target
from storlab.lab.study.file import LoadedStudy, loaded_study
from storlab.lab.study.starter import data_size, one_line, quoted, stable_path
from storlab.model.published import load_published
from storlab.model.s3 import EMBEDDED
from storlab.model.target import s3_address_problem
from storlab.stores.devices import Device, device_number
from storlab.stores.filesystems import file_system_of, free_bytes, supports_direct
from storlab.stores.s3.credentials import usual_endpoint

REPEATS = 3
STEP_NS = 10 * NS_PER_MS  # granularity of ramp and runtime
LEAST_RUN_NS = 300 * NS_PER_MS  # in shorter runs, slow drives complete too few operations
RAMP_PART = 5  # the ramp is one part in five of a run
LEAST_FILE_BYTES = 16 << 20
_BUCKETS = "s3://"


@dataclass(frozen=True, slots=True)
class Place:
    """Storage to measure, with its fields as a target of a study."""

    name: str  # as the user gave it
    field: str  # path, directory or s3
    address: str
    others: tuple[str, ...]  # further lines of the target table
    where: str  # description for a comment
    writes: bool  # whether storlab may write to it

    def table(self) -> str:
        """Return the target table of the study in TOML."""
        lines = (
            "[[target]]",
            f"name = {quoted(self.name)}",
            f"{self.field} = {quoted(self.address)} # {one_line(self.where)}",
            *self.others,
        )
        return "\n".join([*lines, ""])


def short_study(
    given: Sequence[str], seconds: int, file: Path, published: Sequence[str] = ()
) -> LoadedStudy:
    """Make a study that measures each place for about the given time, with its preparation.

    Args:
        given: Paths of directories, files and block devices, or addresses of buckets.
        seconds: Time for each place, in seconds.
        file: Path of the study file, for error messages.
        published: Names or paths of tables with published numbers, such as those of a data sheet.

    Raises:
        ResultError: A table of published numbers cannot be read.
        UsageError: A place does not exist or cannot be measured, a place is given twice, paths and
            buckets are mixed, or the time is too short.
        PreflightError: This user cannot write to a directory or read a file or device.
        OSError: A path cannot be examined.
    """
    places = [place_of(text) for text in given]
    _check_alike(places)
    for name in published:
        load_published(name)  # an error is better now than after the runs
    names = [str(Path(name).absolute()) if Path(name).suffix else name for name in published]
    trial = loaded_study(_text(places, NS_PER_S, names), file)
    plan = make_plan(trial)
    prepare_ns = max(prepare_ns_by_target(trial, plan).values())
    runs = len(plan.runs) // len(places)
    run_ns = (seconds * NS_PER_S - prepare_ns) // runs - RUN_OVERHEAD_NS
    if run_ns < LEAST_RUN_NS:
        least = -(-((LEAST_RUN_NS + RUN_OVERHEAD_NS) * runs + prepare_ns) // NS_PER_S)
        raise UsageError(
            "--seconds",
            f"{seconds} s are too short: {runs} runs take place after {format_duration(prepare_ns)}"
            " of preparation",
            f"give at least {least}",
        )
    return loaded_study(_text(places, run_ns, names), file)


def place_of(given: str) -> Place:
    """Return the storage that a command-line argument names.

    Raises:
        UsageError: The argument names no storage that can be measured.
        PreflightError: This user lacks permission.
        OSError: A path cannot be examined.
    """
    if given.startswith((_BUCKETS, "http://", "https://", EMBEDDED)):
        return _bucket(given)
    path = Path(given)
    if not path.exists():
        raise UsageError(
            given,
            directory_problem(path),
            "give an existing directory (storlab makes its data file in it and removes it), file "
            f"or block device, or a bucket such as {_BUCKETS}NAME",
        )
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return _directory(given, path)
    if stat.S_ISBLK(mode):
        return _device(given, path)
    if stat.S_ISREG(mode):
        return _file(given, path)
    raise UsageError(
        given,
        "is neither a directory, a file nor a block device",
        "give the path of one of these",
    )


def _check_alike(places: Sequence[Place]) -> None:
    """Raise UsageError if a place is given twice, or paths and buckets are mixed."""
    seen: dict[str, str] = {}
    for place in places:
        real = place.address if place.field == "s3" else os.path.realpath(place.address)
        if real in seen:
            what = f'is the same storage as "{seen[real]}"'
            raise UsageError(place.name, what, "give each place once")
        seen[real] = place.name
    buckets = [place.name for place in places if place.field == "s3"]
    paths = [place.name for place in places if place.field != "s3"]
    if buckets and paths:
        raise UsageError(
            f"{paths[0]}, {buckets[0]}",
            "are a path and a bucket, and block I/O cannot be compared with S3 requests",
            "give only paths or only buckets; for S3 requests to a directory, give "
            f"{EMBEDDED}DIRECTORY, which starts storlab's own S3 server on it",
        )


def _directory(given: str, path: Path) -> Place:
    if (path / "result.json").exists():
        fix = f"to see these results: storlab compare {shell_word(given)}"
        raise UsageError(given, "is a result directory of storlab, not storage to measure", fix)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PreflightError(
            given,
            "cannot be written to: this user lacks permission, or its file system is read-only",
            "give a directory that you may write to",
        )
    size, free = data_size(path, 8, GIB), free_bytes(path)
    if size > free:
        what = (
            f"has {format_bytes_si(free)} free, too little for a data file of {format_size(size)}"
        )
        raise PreflightError(given, what, "free space there, or give another directory")
    return Place(
        name=given,
        field="directory",
        address=os.path.abspath(path),  # noqa: PTH100 - Path.resolve would follow links
        others=(f"size = {quoted(format_size(size))}", *_buffered(path)),
        where=_file_system(path),
        writes=True,
    )


def _file(given: str, path: Path) -> Place:
    if path.suffix == ".toml":
        fix = f"to run a study: storlab run {shell_word(given)}"
        raise UsageError(given, "is a TOML file, not storage to measure", fix)
    _check_readable(given, path)
    size = path.stat().st_size
    if size < LEAST_FILE_BYTES:
        raise UsageError(
            given,
            f"has {format_bytes_si(size)}, too little to measure",
            f"give a file of {format_size(LEAST_FILE_BYTES)} or more, or its directory, in which "
            "storlab makes a data file",
        )
    return Place(
        name=given,
        field="path",
        address=os.path.abspath(path),  # noqa: PTH100
        others=tuple(_buffered(path)),
        where=f"a file of {format_bytes_si(size)} {_file_system(path)}, which is only read",
        writes=False,
    )


def _device(given: str, path: Path) -> Place:
    _check_readable(given, path)
    number = device_number(path)
    stable = None if number is None else stable_path(Device(number))
    return Place(
        name=given,
        field="path",
        address=stable or os.path.abspath(path),  # noqa: PTH100
        others=(),
        where="a block device, which is only read",
        writes=False,
    )


def _check_readable(given: str, path: Path) -> None:
    if not os.access(path, os.R_OK):
        fix = "run storlab as a user who may read it, such as root"
        raise PreflightError(given, "cannot be read: this user lacks permission", fix)


def _bucket(given: str) -> Place:
    address, others = given, []
    if given.startswith(_BUCKETS):
        bucket, _, prefix = given.removeprefix(_BUCKETS).partition("/")
        address = f"{usual_endpoint(Path.cwd()).rstrip('/')}/{bucket}"
        if prefix.strip("/"):
            others.append(f"s3_options = {{ prefix = {quoted(prefix.rstrip('/') + '/')} }}")
    problem = s3_address_problem(address)
    if problem is not None:
        where = "the address of the bucket" if "@" in given else given  # it may hold a password
        fix = "give s3://NAME or https://HOST/NAME; keys come from the environment or a profile"
        raise UsageError(where, problem[0], fix)
    return Place(
        name=given,
        field="s3",
        address=address,
        others=tuple(others),
        where="keys come from the environment or an AWS profile",
        writes=True,
    )


def _buffered(path: Path) -> Iterator[str]:
    if file_system_of(path).in_memory:
        yield "direct = false # memory has no cache to bypass"
    elif not supports_direct(path):
        yield "direct = false # its file system has no O_DIRECT, so the page cache takes part"


def _file_system(path: Path) -> str:
    system = file_system_of(path)
    return f"on {system.mount_point} ({system.kind})"


def _text(places: Sequence[Place], run_ns: int, published: Sequence[str]) -> str:
    """Return the study in TOML, with runs of the given length (ns), ramp included."""
    names = [place.name for place in places]
    ramp_ns = run_ns // RAMP_PART // STEP_NS * STEP_NS
    head = _HEADER.format(
        name=quoted(" against ".join(names)),
        repeats=REPEATS,
        ramp=quoted(exact_duration(ramp_ns)),
        runtime=quoted(exact_duration((run_ns - ramp_ns) // STEP_NS * STEP_NS)),
        baseline=quoted(names[-1]),
    )
    if published:
        head += f"published = [{', '.join(map(quoted, published))}]\n"
    writes = all(place.writes for place in places)
    workloads = [
        table
        for family in FAMILIES.values()
        if all(place.field in family.places for place in places)
        for table in family.short_tables(writes=writes)
    ]
    return "\n".join([head, *(place.table() for place in places), *workloads])


_HEADER = """\
# The study that `storlab try` ran. `storlab run` on this file repeats it; edit it as you like.
#
# Its runs are short, for a first answer. For a decision take longer runs (runtime = "60s"), more
# repeats, and more data than the caches above the drives hold. `storlab schema` lists every field.

[study]
name = {name}
repeats = {repeats}
ramp = {ramp}
runtime = {runtime}
interval = "100ms"
baseline = {baseline} # the target with which the others are compared
"""
