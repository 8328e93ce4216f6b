"""Which data files are storlab's own: each has a ``<file>.storlab.json`` beside it.

The sidecar is written before its file is made, and names the file's inode once it is there. A file
that somebody put in its place later has another inode, and is not touched.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from storlab.base.errors import GuardError
from storlab.lab.files import replace_file

SUFFIX = ".storlab.json"
_MARK = "storlab data file"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What a sidecar says about its data file."""

    size: int
    seed: int
    storlab_version: str
    state: Literal["started", "complete"]
    inode: int | None = None
    schema_version: int = 1
    what: str = _MARK


def sidecar_path(data_file: Path) -> Path:
    """Where the sidecar of a data file lies."""
    return data_file.with_name(data_file.name + SUFFIX)


def write_sidecar(data_file: Path, sidecar: Sidecar) -> None:
    """Write it in one step."""
    content = json.dumps(asdict(sidecar), indent=2) + "\n"
    replace_file(sidecar_path(data_file), content.encode())


def read_sidecar(data_file: Path) -> Sidecar | None:
    """The sidecar, None where there is none.

    Raises GuardError when a file of that name is not a sidecar: it is somebody's, too.
    """
    path = sidecar_path(data_file)
    try:
        value: Any = json.loads(path.read_bytes())
        sidecar = Sidecar(**value)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GuardError(str(path), f"cannot be read: {error.strerror}", _MOVE) from error
    except (ValueError, TypeError) as error:
        raise GuardError(str(path), "is not a sidecar of storlab", _MOVE) from error
    if sidecar.what != _MARK or sidecar.schema_version != 1:
        raise GuardError(str(path), "is not a sidecar that this version of storlab reads", _MOVE)
    return sidecar


_MOVE = "move it and its data file away, or choose another path"


def is_ours(data_file: Path) -> bool:
    """Whether storlab made this very file (an empty one, where the sidecar has no inode yet)."""
    sidecar = read_sidecar(data_file)
    if sidecar is None:
        return False
    status = data_file.stat()
    if sidecar.inode is None:
        return status.st_size == 0
    return status.st_ino == sidecar.inode


def is_complete(data_file: Path, size: int) -> bool:
    """Whether the file stands as laid out: ours, whole, and of this size."""
    if not data_file.exists() or not is_ours(data_file):
        return False
    sidecar = read_sidecar(data_file)
    laid_out = sidecar is not None and sidecar.state == "complete" and sidecar.size == size
    return laid_out and data_file.stat().st_size == size


def remove_data_file(data_file: Path) -> bool:
    """Delete a data file of ours and its sidecar; True when there was one. Others stay."""
    if not data_file.exists():
        sidecar_path(data_file).unlink(missing_ok=True)
        return False
    if data_file.is_symlink() or not is_ours(data_file):
        return False
    data_file.unlink()
    sidecar_path(data_file).unlink(missing_ok=True)
    return True
