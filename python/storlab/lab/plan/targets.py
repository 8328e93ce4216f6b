"""Kind and size of targets on this machine, found without opening them."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from storlab.base.errors import Problem
from storlab.base.files import directory_problem, read_advice
from storlab.model.s3 import EMBEDDED, S3Options
from storlab.model.study import Target
from storlab.model.target import PLACES
from storlab.stores.devices import Device, device_number

PlaceKind = Literal["null", "device", "file", "directory", "s3"]
_MEMORY = "/dev/shm"  # noqa: S108 - a file system in /dev, not a device


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Kind and size of a target; ``member_bytes`` is None if the size is unknown."""

    kind: PlaceKind
    members: int  # files or devices; a directory has as many as its largest point needs, s3 has 0
    member_bytes: int | None
    laid_out: bool  # whether storlab writes the data set
    absent: tuple[str, ...] = ()  # devices that are not on this machine
    made_bytes: int = 0  # size of the data sets that workloads create

    @property
    def data_bytes(self) -> int:
        """Size of the target's data in bytes; 0 if it is unknown."""
        return self.members * (self.member_bytes or 0) + self.made_bytes


def place_of(target: Target) -> str:
    """Return the field that sets the target's location: path, paths, directory or s3."""
    return next(name for name in PLACES if getattr(target, name) is not None)


def store_note(target: Target) -> str:
    """Return a note for the plan on where the objects of an s3 target are stored."""
    address = target.s3 or ""
    if address.startswith(EMBEDDED):
        return (
            f"storlab's own S3 server on {address.removeprefix(EMBEDDED)}, by loopback: results "
            "include that server's speed"
        )
    options = target.s3_options or S3Options()
    made = "; the bucket is created if it does not exist" if options.create_bucket else ""
    return (
        f"bucket {address.rstrip('/').rpartition('/')[2]}, only below the prefix "
        f'"{options.prefix}storlab-..."{made}'
    )


def target_facts(target: Target, files: int, made_bytes: int = 0) -> TargetFacts | Problem:
    """Return kind and size of a target, or a problem with it.

    Args:
        target: Target of the study.
        files: Largest number of files that a point needs.
        made_bytes: Size of the data sets that the workloads create.
    """
    for where, path in _named_paths(target):
        try:
            Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            pass  # it may be on a client, or be created later: doctor and the guard check that
        except OSError as error:
            return Problem(where, f"{path[:60]}: {error.strerror}", read_advice(error))
    if target.s3 is not None:
        return TargetFacts("s3", 0, None, laid_out=True, made_bytes=made_bytes)
    if target.is_null:
        return TargetFacts("null", 1, target.size or 2**40, laid_out=False)
    if target.directory is not None:
        place = Path(target.directory)
        if place.exists() and (problem := directory_problem(place)):
            measurable = place.is_file() or place.is_block_device()
            fix = f'set path = "{target.directory}"' if measurable else "name a directory"
            return Problem(("directory",), f'"{target.directory}" {problem}', fix)
        if files == 0 and target.precondition is not None:
            return Problem(
                ("precondition",),
                "needs files of a known size, but no workload uses such files on this target",
                "remove precondition, or add a block workload",
            )
        return TargetFacts("directory", files, target.size, laid_out=True, made_bytes=made_bytes)
    field = "path" if target.paths is None else "paths"
    devices = [path for path in target.locations if _is_device_path(path)]
    if not devices:
        return _file_facts(target, field)
    if len(devices) < len(target.locations):
        return Problem(
            (field,),
            "mixes devices and files",
            "define one target for the devices and one for the files, or use one kind",
        )
    return _device_facts(target, field)


def _named_paths(target: Target) -> list[tuple[tuple[str | int, ...], str]]:
    """Return each path of the target together with the study field that holds it."""
    if target.paths is not None:
        return [(("paths", index), path) for index, path in enumerate(target.paths)]
    if target.is_embedded:
        return [(("s3",), (target.s3 or "").removeprefix(EMBEDDED))]
    return [((place_of(target),), path) for path in target.locations]


def _is_device_path(path: str) -> bool:
    """Return whether a path is a block device, or a missing file in ``/dev``."""
    if device_number(path) is not None:
        return True
    in_dev = path.startswith("/dev/") and not path.startswith(f"{_MEMORY}/")
    return in_dev and not Path(path).is_file()


def _file_facts(target: Target, field: str) -> TargetFacts | Problem:
    for path in map(Path, target.locations):
        if path.is_dir():
            return Problem((field,), f'"{path}" is a directory', f'set directory = "{path}"')
        if path.exists() and not path.is_file():
            fix = "name a file, a block device or a directory"
            return Problem((field,), f'"{path}" is neither a file nor a block device', fix)
    size, laid_out = target.size, True
    if size is None:
        sizes = [Path(p).stat().st_size for p in target.locations if Path(p).exists()]
        if len(sizes) < len(target.locations):
            return Problem(
                (field,), "a file that does not exist yet needs a size", 'add size = "1GiB"'
            )
        size, laid_out = min(sizes), False
    return TargetFacts("file", len(target.locations), size, laid_out)


def _device_facts(target: Target, field: str) -> TargetFacts | Problem:
    sizes: list[int] = []
    absent: list[str] = []
    for path in target.locations:
        number = device_number(path)
        if number is None:
            if Path(path).exists() and not stat.S_ISBLK(Path(path).stat().st_mode):
                fix = "name a block device"
                return Problem((field,), f'"{path}" is not a block device', fix)
            absent.append(path)
            continue
        size_bytes = _size_bytes(number)
        if size_bytes == 0:  # the device node exists without a device
            absent.append(path)
            continue
        room = size_bytes - target.offset
        if room < (target.size or 1):
            return Problem(
                ("size" if target.size else "offset",),
                f'"{path}" has {size_bytes} bytes, less than offset + size',
                "reduce size or offset",
            )
        sizes.append(room)
    size = target.size or (min(sizes) if sizes and not absent else None)
    return TargetFacts("device", len(target.locations), size, False, tuple(absent))


def device_facts(path: str) -> dict[str, str | int]:
    """Return the facts by which the kernel identifies a block device; empty if it is missing."""
    number = device_number(path)
    return Device(number).facts() if number is not None and _size_bytes(number) else {}


def _size_bytes(number: int) -> int:
    """Return the size of a device; 0 if it has no medium or does not exist."""
    try:
        return Device(number).size_bytes
    except OSError:
        return 0
