"""External programs: lookup, and queries of their version and features."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from storlab.base.errors import EngineError

AnswerT = TypeVar("AnswerT")


def find_program(name: str, install: str, file: str = "") -> Path:
    """Return the path of an engine's program, from ``STORLAB_<NAME>`` or PATH.

    Args:
        name: The name of the engine.
        install: How to install the program, for the message.
        file: The name of the program's file, if it is not the engine's.

    Raises:
        EngineError: There is no such program.
    """
    variable = f"STORLAB_{name.upper()}"
    asked = os.environ.get(variable)
    path = executable(asked or file or name)
    if path is None:
        where = f"{variable}={asked}" if asked else file or name
        raise EngineError(where, "is not an executable file" if asked else "is missing", install)
    return path


def executable(name: str, places: str | None = None) -> Path | None:
    """Return the absolute path of a program in ``places`` or on PATH, or None.

    It is absolute because a run has its own working directory. Links are not resolved, since a
    Python finds its virtual environment by them.

    Args:
        name: The name or path of the program.
        places: Directories separated by colons.
    """
    path = shutil.which(name, path=places)
    return None if path is None else Path(path).absolute()


def ask_program(
    command: Sequence[str],
    install: str,
    timeout_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its output.

    Raises EngineError, with ``install`` as fix, if it fails.
    """
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(command[0], f"does not run: {error}", install) from error


def probe_python(
    python: str, script: str, install: str, timeout_s: float = 120.0
) -> dict[str, Any]:
    """Return the JSON that a script prints in another Python. Raises EngineError if it fails."""
    done = ask_program([python, "-c", script], install, timeout_s)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise EngineError(python, f"does not run: {error}", install) from error
    return answer


def asked_once(ask: Callable[[Path], AnswerT]) -> Callable[[Path], AnswerT]:
    """Cache a query of a program until the program's file changes."""

    @cache
    def answer(program: Path, _modified_ns: int, _size: int) -> AnswerT:
        return ask(program)

    @wraps(ask)
    def remembered(program: Path) -> AnswerT:
        stamp = program.stat()
        return answer(program, stamp.st_mtime_ns, stamp.st_size)

    return remembered
