"""Run the embedded S3 server for ``s3 = "embedded:DIR"``: a child process that serves a directory.

It listens on loopback only, with new credentials at each start. It exits when its standard input
closes, so it also ends if its parent is killed.
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
# Environment variables that the child inherits; credentials of other stores are not among them.
_KEEP = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "RUST_BACKTRACE")
# Program of the child. It reads one line byte by byte and leaves the rest of standard input to the
# server, which exits when that input closes.
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
    """Context manager that runs an embedded server; leaving ends it but keeps the directory.

    ``store`` is the bucket with its credentials, ``pid`` the child's process id. Entering raises
    GuardError if the directory contains foreign files or another campaign uses it, and
    PreflightError if it cannot be created or the server does not start.
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
        """Return user and system CPU time of the server in ns, with a clock tick's resolution.

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
        """End the server, then remove its directories that contain no files.

        These are the bucket's directory, and the whole directory if storlab created it.

        Returns:
            Paths of the removed directories.
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
            silent = f"no answer within {READY_S:g} s"
            with suppress(subprocess.TimeoutExpired):
                silent = f"it ended with exit code {process.wait(0.5)}"
            process.kill()
            process.wait()
            why = _tail(errors) or (f"it answered {line!r}" if line else silent)
            raise PreflightError(
                f"embedded:{self.directory}",
                f"storlab's own S3 server did not start: {why}",
                "check the directory's permissions and file system",
            ) from error


def check_directory(directory: Path) -> None:
    """Check, without writing anything, that an embedded server may serve a directory.

    Raises:
        GuardError: The directory belongs to the system or contains foreign files.
        PreflightError: The directory cannot be created or read.
    """
    name = f"embedded:{directory}"
    real = Path(os.path.realpath(directory))
    if is_kernel_place(real):
        raise GuardError(
            name, "storlab never creates files in /dev, /proc or /sys", "choose another directory"
        )
    if not real.exists():
        if problem := directory_problem(real.parent):
            raise PreflightError(name, f"{real.parent} {problem}", "create it, or correct the path")
        return
    if problem := directory_problem(real):
        raise GuardError(name, problem, "choose another name")
    try:
        is_empty = not any(real.iterdir())
    except OSError as error:
        raise PreflightError(
            name, f"cannot be read: {error.strerror}", "check its permissions"
        ) from error
    if not is_empty and _read_marker(real) is None:
        raise GuardError(
            name,
            f"is not empty, and its files are not storlab's (no {MARKER} in it)",
            "choose a directory that is empty or does not exist yet",
        )


def _claim(directory: Path, stack: ExitStack) -> None:
    """Create the directory and its marker if they are missing, and lock the marker."""
    while True:
        _make(directory)
        try:
            # Open for writing too, because NFS locks only such files.
            handle = os.open(directory / MARKER, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            what = f"{MARKER} cannot be opened: {error.strerror}"
            raise PreflightError(
                f"embedded:{directory}", what, "choose another directory"
            ) from error
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
        except FileNotFoundError:  # try again: a campaign that just ended has removed it
            pass
        os.close(handle)


def _make(directory: Path) -> None:
    """Create a missing directory, and the marker file that records whether storlab created it."""
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
            f"embedded:{directory}",
            f"cannot be created: {error.strerror}",
            "choose another directory",
        ) from error


def _read_marker(directory: Path) -> bool | None:
    """Return whether storlab created the directory, by its marker file; None without marker."""
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
    """Close the server's standard input, which ends it; kill it if that takes too long."""
    _stdin(process).close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read_line(handle: int, timeout_s: float) -> bytes:
    """Read from a pipe up to the end of the line, the end of the stream, or the time limit."""
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
    """Remove a tree of directories unless it contains files; return whether it was removed."""
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
