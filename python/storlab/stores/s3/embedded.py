"""Embedded S3 server for ``s3 = "embedded:DIR"``: a child process that serves a directory.

It listens on loopback only, with credentials created for each start, and ends when its parent ends
in any way; it exits at the end of its standard input.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import storlab
from storlab.base.clock import monotonic_ns
from storlab.base.errors import GuardError, PreflightError
from storlab.base.files import directory_problem, parse_json, read_input, replace_file
from storlab.base.locks import try_lock_exclusive
from storlab.base.units import NS_PER_S
from storlab.model.s3 import Credentials, S3Store
from storlab.process.parent_death import start_child
from storlab.process.session_cpu import TICK_NS, account
from storlab.stores.data_file import is_kernel_place

BUCKET = "storlab"
MARKER = "storlab-s3.json"
READY_S = 20.0
STOP_S = 5.0
_MARK = "storlab object directory"
# Environment variables of the child; keys of other stores are not passed on.
_KEEP = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "RUST_BACKTRACE")
# Read byte by byte up to the line's end: the rest of stdin is for the server, which exits at its
# end.
_BOOTSTRAP = """\
import json, os
line = b""
while not line.endswith(b"\\n"):
    byte = os.read(0, 1)
    if not byte:
        raise SystemExit(0)
    line += byte
order = json.loads(line)
from storlab import _native
_native.serve_s3(json.dumps(order["config"]), order["secrets"])
"""


class EmbeddedServer:
    """Running embedded server, as a context manager; the directory stays, see :meth:`remove_empty`.

    ``store`` is the bucket with its credentials, ``pid`` the child. Entering raises GuardError for
    a directory that holds foreign files, or that another campaign uses; PreflightError if it cannot
    be created, or the server does not start.
    """

    store: S3Store
    pid: int

    def __init__(self, directory: Path) -> None:
        self.directory = Path(os.path.realpath(directory))
        self._stack = ExitStack()  # releases the directory
        self._child = ExitStack()  # ends the child

    def __enter__(self) -> EmbeddedServer:
        check_directory(self.directory)
        with ExitStack() as stack:
            _claim(self.directory, stack)
            stack.callback(self._child.close)
            credentials = Credentials("storlab" + secrets.token_hex(8), secrets.token_urlsafe(30))
            try:
                port = self._start(credentials)
            except PreflightError:
                self.remove_empty()
                raise
            self.store = S3Store(
                endpoints=[f"http://127.0.0.1:{port}"], bucket=BUCKET, credentials=credentials
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def cpu(self) -> tuple[int, int]:
        """Return the CPU time since the start, user and system, in ns; resolution is a clock tick.

        Raises:
            OSError: The server has ended.
        """
        accounts = account(self.pid)
        if self.pid not in accounts:
            gone = f"/proc/{self.pid}/stat"
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), gone)
        user, system, _ = accounts[self.pid]
        return user * TICK_NS, system * TICK_NS

    def remove_empty(self) -> list[str]:
        """End the server, then remove its empty directories; return their names.

        These are the bucket's directory, and the whole directory if storlab created it. Directories
        with files stay.
        """
        self._child.close()
        bucket, marker = self.directory / BUCKET, self.directory / MARKER
        removed = []
        if bucket.is_dir() and _remove_tree_of_directories(bucket):
            removed.append(str(bucket))
        made = _read_marker(self.directory)
        if made is None or any(entry != marker for entry in self.directory.iterdir()):
            return removed
        marker.unlink()
        if made:
            self.directory.rmdir()
            removed.append(str(self.directory))
        return removed

    def _start(self, credentials: Credentials) -> int:
        errors = self._child.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        ready, ready_child = os.pipe()
        self._child.callback(os.close, ready)
        try:
            process = start_child(
                [sys.executable, "-P", "-c", _BOOTSTRAP],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                bufsize=0,
                pass_fds=(ready_child,),
                env=_environment(),
                cwd="/",
                start_new_session=True,  # Ctrl-C is for storlab, which ends the server last
            )
        finally:
            os.close(ready_child)
        self._child.callback(_end, process)
        self.pid = process.pid
        config = {"directory": str(self.directory), "bucket": BUCKET, "ready_fd": ready_child}
        order = {"config": config, "secrets": credentials.as_dict()}
        line = b""
        try:
            _stdin(process).write(json.dumps(order).encode() + b"\n")
            line = _read_line(ready, READY_S)
            return int(json.loads(line)["port"])
        except (BrokenPipeError, ValueError, KeyError, TypeError) as error:
            silent = f"silent for {READY_S:g} s"
            with suppress(subprocess.TimeoutExpired):
                silent = f"it ended with {process.wait(0.5)}"
            process.kill()
            process.wait()
            why = _tail(errors) or (f"it said {line!r}" if line else silent)
            raise PreflightError(
                f"embedded:{self.directory}",
                f"storlab's own S3 server did not start: {why}",
                "check the directory's permissions and file system",
            ) from error


def check_directory(directory: Path) -> None:
    """Check that a server may serve the directory, without writing anything.

    Raises:
        GuardError: The directory belongs to the system or holds foreign files.
        PreflightError: The directory cannot be used.
    """
    name = f"embedded:{directory}"
    real = Path(os.path.realpath(directory))
    if is_kernel_place(real):
        raise GuardError(name, "storlab never makes files there", "choose another directory")
    if not real.exists():
        if problem := directory_problem(real.parent):
            raise PreflightError(name, f"{real.parent} {problem}", "make it, or correct the path")
        return
    if problem := directory_problem(real):
        raise GuardError(name, problem, "choose another name")
    try:
        is_empty = not any(real.iterdir())
    except OSError as error:
        raise PreflightError(name, f"cannot be read: {error.strerror}", "check its mode") from error
    if not is_empty and _read_marker(real) is None:
        raise GuardError(
            name,
            f"is not empty, but storlab did not fill it (no {MARKER} in it)",
            "choose a directory that is empty or does not exist yet",
        )


def _claim(directory: Path, stack: ExitStack) -> None:
    """Create the directory and its marker if they are missing, and lock the marker."""
    while True:
        _make(directory)
        try:
            # O_RDWR: NFS locks only files open for writing.
            handle = os.open(directory / MARKER, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            what = f"{MARKER} cannot be opened: {error.strerror}"
            raise PreflightError(f"embedded:{directory}", what, "choose another place") from error
        try:
            try_lock_exclusive(handle)
            if os.fstat(handle).st_ino == (directory / MARKER).stat().st_ino:
                stack.callback(os.close, handle)
                return
        except BlockingIOError:
            os.close(handle)
            raise GuardError(
                f"embedded:{directory}",
                "another campaign, or another target of this study, uses this directory",
                "give each target a directory of its own",
            ) from None
        except FileNotFoundError:  # a campaign that ended has removed it meanwhile
            pass
        os.close(handle)


def _make(directory: Path) -> None:
    """Create the directory, and the marker that records whether storlab created it."""
    made = False
    try:
        if not directory.exists():
            directory.mkdir(mode=0o700)
            made = True
        if _read_marker(directory) is None:
            marker = {"schema_version": 1, "what": _MARK, "made_directory": made}
            replace_file(directory / MARKER, (json.dumps(marker, indent=2) + "\n").encode())
    except OSError as error:
        if made:
            directory.rmdir()
        raise PreflightError(
            f"embedded:{directory}", f"cannot be made: {error.strerror}", "choose another place"
        ) from error


def _read_marker(directory: Path) -> bool | None:
    """Return whether storlab created the directory; None without a marker of storlab."""
    try:
        document: Any = parse_json(read_input(directory / MARKER))
        return bool(document["made_directory"]) if document["what"] == _MARK else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEEP if name in os.environ}
    # Import the same storlab as this process, and never one from the working directory.
    home = str(Path(storlab.__file__).parents[1])
    return {**kept, "PYTHONPATH": os.pathsep.join([home, *filter(None, sys.path)])}


def _stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdin is None:
        raise ValueError("the process was started without a pipe")
    return process.stdin


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the child's standard input so that it ends; kill it if that takes too long."""
    _stdin(process).close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read_line(handle: int, timeout_s: float) -> bytes:
    """Read up to the end of the line, the end of the stream, or the time-out."""
    line = b""
    deadline_ns = monotonic_ns() + int(timeout_s * NS_PER_S)
    while not line.endswith(b"\n"):
        left_s = (deadline_ns - monotonic_ns()) / NS_PER_S
        if left_s <= 0 or not select.select([handle], [], [], left_s)[0]:
            break
        part = os.read(handle, 4096)
        if not part:
            break
        line += part
    return line


def _tail(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode(errors="replace").strip()[-600:]


def _remove_tree_of_directories(top: Path) -> bool:
    """Remove a tree of directories if it has no files; return whether it is gone."""
    complaints: list[OSError] = []
    note: Callable[[OSError], None] = complaints.append
    places = []
    for place, below, files in os.walk(top, topdown=False, onerror=note, followlinks=False):
        if files or complaints or any((Path(place) / name).is_symlink() for name in below):
            return False
        places.append(Path(place))
    with suppress(OSError):  # another program created a file: keep it
        for directory in places:
            directory.rmdir()
    return not top.exists()
