"""Find the files to import in directories, globs and archives, which are unpacked."""

from __future__ import annotations

import glob
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, cast

from storlab.base import zstd
from storlab.base.errors import ResultError
from storlab.base.files import open_input
from storlab.exchange.decoding import DAMAGE, OPENERS, compression_of

MOST_UNPACKED_BYTES = zstd.MOST_BYTES
"""Limit for the unpacked content of all archives together: small ones may unpack to terabytes."""
MOST_MEMBERS = 100_000
_MOST_LAYERS = 5  # depth of archives inside archives
_TAR_SUFFIXES = (
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.zst",
    ".tzst",
    ".tar.bz2",
    ".tbz2",
    ".tar.xz",
    ".txz",
)
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """File to import; one from an archive is in a temporary directory."""

    path: Path
    shown: str  # path for messages: "results/runs.tar.gz/drive1/fio.json"
    name: str  # path below the given directory, starting with its name
    explicit: bool = False  # whether the user named the file, not its directory, archive or a glob


@dataclass(frozen=True, slots=True)
class InputTree:
    """Directory to import: given by the user, or with the content of an archive."""

    path: Path
    shown: str
    name: str


@dataclass(slots=True)
class Inputs:
    """Files and directories found at the given paths, and errors of unreadable archives."""

    files: list[InputFile] = field(default_factory=list)
    trees: list[InputTree] = field(default_factory=list)
    # Paths that cannot be imported, with what is wrong and the fix
    refused: list[ResultError] = field(default_factory=list)
    results: list[InputTree] = field(default_factory=list)  # result directories of storlab


class InputFinder:
    """Finder of the files to import; as a context manager, it removes unpacked archives."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._found = Inputs()
        self._left_bytes = MOST_UNPACKED_BYTES
        self._left_members = MOST_MEMBERS

    def __enter__(self) -> InputFinder:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def find(self, paths: Sequence[Path]) -> Inputs:
        """Return all files in the given files, directories, globs and archives.

        Raises:
            ResultError: A path does not exist, or a glob matches no file.
        """
        for path in paths:
            if path.is_dir():
                self._add_tree(InputTree(path, str(path), path.absolute().name), 0)
            elif os.path.lexists(path):
                self._add_file(InputFile(path, str(path), path.name, explicit=True), 0)
            elif glob.has_magic(str(path)):
                self._add_glob(str(path))
            else:
                fix = "give a file or directory of results that exists and that you may read"
                raise ResultError(str(path), "does not exist", fix)
        return self._found

    def _add_glob(self, pattern: str) -> None:
        matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 (absolute patterns)
        if not matches:
            raise ResultError(pattern, "matches no file", "give a pattern that matches files")
        seen: set[Path] = set()
        for match in map(Path, matches):
            if match.is_dir():
                if "**" not in pattern:  # ** also matches every file in its directories
                    self._add_tree(InputTree(match, str(match), match.absolute().name), 0)
            elif match not in seen:
                name = f"{match.absolute().parent.name}/{match.name}"
                self._add_file(InputFile(match, str(match), name), 0)
            seen.add(match)

    def _add_tree(self, tree: InputTree, layer: int) -> None:
        self._found.trees.append(tree)
        for folder, folders, names in os.walk(tree.path):
            here = Path(folder)
            if (here / "result.json").is_file() and (here / "runs").is_dir():
                folders.clear()
                below = here.relative_to(tree.path)
                self._found.results.append(
                    InputTree(here, _joined(tree.shown, below), _joined(tree.name, below))
                )
                continue
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    below = (here / name).relative_to(tree.path)
                    file = InputFile(
                        here / name, _joined(tree.shown, below), _joined(tree.name, below)
                    )
                    self._add_file(file, layer)

    def _add_file(self, file: InputFile, layer: int) -> None:
        try:
            archive = _is_archive(file.path)
        except OSError:
            archive = False  # the error is reported when the file is read
        if not archive:
            self._found.files.append(file)
            return
        try:
            tree = self._unpacked(file, layer)
        except ResultError as error:
            self._found.refused.append(error)
            return
        self._add_tree(tree, layer + 1)

    def _unpacked(self, file: InputFile, layer: int) -> InputTree:
        if layer == _MOST_LAYERS:
            what = f"is an archive inside {layer} other archives"
            raise ResultError(file.shown, what, "unpack it and give its files")
        place = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="storlab-import-"))
        )
        members = _zip_members(file.path) if _is_zip(file.path) else _tar_members(file.path)
        try:
            for name, stream in members:
                self._unpack(file, place, name, stream)
        except (tarfile.TarError, zipfile.BadZipFile, RuntimeError, *DAMAGE) as error:
            what = f"cannot be unpacked: {error}"
            raise ResultError(
                file.shown, what, "give an undamaged archive, or unpack it"
            ) from error
        return InputTree(place, file.shown, file.name)

    def _unpack(self, file: InputFile, place: Path, name: str, stream: IO[bytes]) -> None:
        # Absolute names and ".." must not lead out of the temporary directory.
        parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]
        if not parts:
            return
        self._left_members -= 1
        target = place.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as output:
            while chunk := stream.read(_CHUNK_BYTES):
                self._left_bytes -= len(chunk)
                if self._left_bytes < 0:
                    break
                output.write(chunk)
        if min(self._left_bytes, self._left_members) < 0:
            what = (
                f"contains more than storlab unpacks in one import: {MOST_UNPACKED_BYTES:,} bytes, "
                f"{MOST_MEMBERS:,} files"
            )
            raise ResultError(file.shown, what, "unpack it and give the files with the results")


def _joined(name: str, below: Path) -> str:
    return name if below == Path() else f"{name}/{below.as_posix()}"


def _is_zip(path: Path) -> bool:
    return path.name.lower().endswith(".zip") and zipfile.is_zipfile(path)


def _is_archive(path: Path) -> bool:
    """Return whether a file is a tar archive, or a zip archive with a name ending in .zip."""
    handle = open_input(path)
    try:
        head = os.read(handle, 512)
    finally:
        os.close(handle)
    if head.startswith(b"PK\x03\x04"):
        return _is_zip(path)
    if compression_of(head):
        with _unpacking(path) as stream:
            try:
                head = stream.read(512)
            except DAMAGE:
                return path.name.lower().endswith(_TAR_SUFFIXES)
    return head[257:262] == b"ustar" or path.name.lower().endswith(_TAR_SUFFIXES)


def _unpacking(path: Path) -> IO[bytes]:
    """Open a file for reading; decompress it if it is compressed."""
    with path.open("rb") as file:
        suffix = compression_of(file.read(16))
    return cast(IO[bytes], OPENERS[suffix](path)) if suffix else path.open("rb")


def _zip_members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                with archive.open(member) as stream:
                    yield member.filename, stream


def _tar_members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with _unpacking(path) as content, tarfile.open(fileobj=content, mode="r|") as archive:
        for member in archive:
            if member.isreg():
                stream = archive.extractfile(member)
                if stream is not None:
                    yield member.name, stream
