"""Checks of a checkpoint workload's parameters: do they fit together, target and machine?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from storlab.base.errors import Problem, StudyError
from storlab.base.units import format_bytes_si, format_size
from storlab.model.job import LARGEST_IO
from storlab.model.s3 import LARGEST_PART, LEAST_PART, MOST_PARTS
from storlab.model.study import Target
from storlab.process.host_memory import BUFFER_SHARE, host_memory_bytes, host_memory_text
from storlab.workloads.checkpoint.job import CheckpointFile
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.checkpoint.profiles import (
    Profile,
    files_of,
    is_path,
    load_profile,
    make_profile,
    read_tables,
)

BLOCK = 4096  # all I/Os are multiples of it, whatever the device's sector size is
ONLY_FILES = {"sync": "fsync", "publish": "rename", "cold": "direct", "preallocate": True}
"""Parameters that apply only to files, with their defaults."""
SPARE_BUFFERS = 4  # of each rank, in addition to those in flight
RESTORE_FIELDS = ("verify", "cold")


def combination_problems(
    values: list[CheckpointParams], given: set[str], engine: str | None
) -> list[Problem]:
    """Check whether the parameters of a workload fit together; return the problems.

    Args:
        values: Parameters of each point of the workload.
        given: Names of the fields that the study sets.
        engine: Engine that the study sets; None if it sets none.
    """
    return [
        *_size_problems(values),
        *_restore_problems(values[0], given),
        *_writer_problems(values, engine),
    ]


def _size_problems(values: list[CheckpointParams]) -> Iterable[Problem]:
    for size in dict.fromkeys(v.io_size for v in values):
        if size <= 0 or size % BLOCK or size > LARGEST_IO:
            what = f"{format_size(size)} is not a multiple of {format_size(BLOCK)} up to "
            what += format_size(LARGEST_IO)
            yield Problem(("io_size",), what, 'use for example "4MiB"')
    if not LEAST_PART <= (part := values[0].part_size) <= LARGEST_PART:
        bounds = f"{format_size(LEAST_PART)} and {format_size(LARGEST_PART)}"
        what = f"{format_size(part)} is not between {bounds}, as S3 requires"
        yield Problem(("part_size",), what, 'use "64MiB"')


def _restore_problems(first: CheckpointParams, given: set[str]) -> Iterable[Problem]:
    for field in RESTORE_FIELDS:
        if first.restores == 0 and field in given:
            fix = f"remove {field}, or set restores = 1"
            yield Problem((field,), "applies to restores, but there are none", fix)


def _writer_problems(values: list[CheckpointParams], engine: str | None) -> Iterable[Problem]:
    writer = values[0].writer
    if engine is not None and (engine == "torch") != (writer == "torch"):
        what = f'engine = "{engine}" and writer = "{writer}" contradict each other'
        yield Problem(("writer",), what, 'remove engine, which writer = "torch" implies')
    if writer == "torch" and any(v.layout == "safetensors" for v in values):
        what = "is not possible with PyTorch, which writes its own format"
        yield Problem(("layout",), what, 'use layout = "profile", or writer = "native"')


def own_profile(name: str) -> dict[str, Any] | None:
    """Return the content of a user's profile file; None for a built-in profile.

    It is also None if the file cannot be read. A plan is refused then, but stored results that name
    the file can still be read.
    """
    try:
        return read_tables(name) if is_path(name) else None
    except StudyError:
        return None


def profile_of(params: CheckpointParams) -> Profile:
    """Return the checkpoint profile of a point; raise StudyError if it does not exist.

    The content of a user's profile file is stored in the parameters when the plan is made, and is
    covered by the plan's hash. The file is not read again.
    """
    tables = params.profile_data
    name: str = params.profile
    return load_profile(name) if tables is None else make_profile(tables, name)


def point_files(params: CheckpointParams) -> tuple[Profile, list[CheckpointFile]]:
    """Return the profile of a point and the files that it writes for each checkpoint.

    Raises:
        StudyError: The profile does not exist or is invalid.
    """
    profile = profile_of(params)
    return profile, files_of(profile, params.layout, params.scale, params.subset)


def ranks_of(profile: Profile, params: CheckpointParams) -> int:
    """Return the number of ranks that write: those of the profile or of the chosen subset."""
    return min(profile.ranks, params.subset or profile.ranks)


def files_of_ranks(files: Iterable[CheckpointFile], ranks: range) -> list[CheckpointFile]:
    """Return the files of some ranks only, with ranks renumbered from 0."""
    return [
        file.model_copy(update={"rank": file.rank - ranks.start})
        for file in files
        if file.rank in ranks
    ]


def target_problem(params: CheckpointParams, target: Target) -> Problem | None:
    """Return the problem that prevents a point from running on a target; None if it can run.

    Raises:
        StudyError: The profile does not exist or is invalid.
    """
    try:
        profile, files = point_files(params)
    except StudyError as error:
        place = "" if error.where == "profile" else f"{error.where}: "
        return Problem(("profile",), f"{place}{error.what}", error.fix)
    subset = params.subset
    if subset is not None and subset > profile.ranks:
        what = f"{subset} is more than the {profile.ranks} ranks of {profile.name}"
        return Problem(("subset",), what, f"use at most {profile.ranks}")
    if not any(file.bytes for file in files):
        what = f"the first {subset} ranks of {profile.name} write nothing"
        least = 1 + min(file.rank for file in profile.files if file.bytes)
        return Problem(("subset",), what, f"use at least {least}, or remove it")
    return None if target.s3 is None else _bucket_problem(params, files)


def _bucket_problem(params: CheckpointParams, files: list[CheckpointFile]) -> Problem | None:
    if params.layout == "safetensors":
        what = "safetensors files are written to directories only"
        return Problem(("layout",), what, 'use "profile"')
    if params.writer == "torch":
        what = "PyTorch writes to directories only"
        return Problem(("writer",), what, 'use writer = "native"')
    for name, usual in ONLY_FILES.items():
        if (value := getattr(params, name)) is not None and value != usual:
            what = "applies to files only, but the target is a bucket"
            return Problem((name,), what, "remove it")
    largest = max(file.bytes for file in files)
    if largest > MOST_PARTS * params.part_size:
        least = -(-largest // (MOST_PARTS << 20))
        what = f"a file of {format_bytes_si(largest)} would have too many parts"
        return Problem(("part_size",), what, f"use at least {least}MiB")
    return None


def buffer_bytes(params: CheckpointParams, ranks: int) -> int:
    """Return the memory of the ranks' buffers and of the data pool in bytes; 0 for PyTorch."""
    if params.writer == "torch":
        return 0
    buffers: int = params.io_depth + SPARE_BUFFERS
    size: int = params.io_size
    return (ranks + 1) * buffers * size


def memory_problem(params: CheckpointParams, ranks: int) -> str | None:
    """Say why the buffers of all ranks do not fit in this machine's memory; None if they do."""
    needed = buffer_bytes(params, ranks)
    if needed <= BUFFER_SHARE * host_memory_bytes():
        return None
    return (
        f"the buffers of {ranks} ranks take {format_bytes_si(needed)}, more than half of the "
        f"{host_memory_text()}: set subset = 8, or a smaller io_depth or io_size"
    )
