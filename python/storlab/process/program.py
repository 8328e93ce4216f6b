"""External programs: finding them, and asking for their version and features."""

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
    """Return the path of an engine's program, from the variable ``STORLAB_<NAME>`` or PATH.

    Args:
        name: The name of the engine.
        install: How to install the program, for the error message.
        file: The file name of the program, if it differs from the engine's name.

    Raises:
        EngineError: The program was not found.
    """
    variable = f"STORLAB_{name.upper()}"
    asked = os.environ.get(variable)
    path = executable(asked or file or name)
    if path is None:
        where = f"{variable}={asked}" if asked else file or name
        raise EngineError(where, "is not an executable file" if asked else "is missing", install)
    return path


def executable(name: str, places: str | None = None) -> Path | None:
    """Return the absolute path of a program in given directories or on PATH; None if missing.

    The path is absolute because a run has its own working directory. Links are not resolved, since
    Python finds its virtual environment by the link.

    Args:
        name: The name or path of the program.
        places: Directories separated by colons; None for PATH.
    """
    path = shutil.which(name, path=places)
    return None if path is None else Path(path).absolute()


def ask_program(
    command: Sequence[str],
    install: str,
    timeout_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program, such as with ``--version``, and return its output and exit status.

    Raises EngineError, with ``install`` as fix, if it cannot be executed or exceeds the timeout.
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
        raise EngineError(command[0], f"cannot be executed: {error}", install) from error


def probe_python(
    python: str, script: str, install: str, timeout_s: float = 120.0
) -> dict[str, Any]:
    """Run a script in another Python and return the JSON that it prints.

    Raises EngineError if that Python cannot be executed or prints something else.
    """
    done = ask_program([python, "-c", script], install, timeout_s)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise EngineError(python, f"printed no JSON: {error}", install) from error
    return answer


def asked_once(ask: Callable[[Path], AnswerT]) -> Callable[[Path], AnswerT]:
    """Decorator: cache the result of a query of a program until the program's file changes."""

    @cache
    def answer(program: Path, _modified_ns: int, _size: int) -> AnswerT:
        return ask(program)

    @wraps(ask)
    def remembered(program: Path) -> AnswerT:
        stamp = program.stat()
        return answer(program, stamp.st_mtime_ns, stamp.st_size)

    return remembered
