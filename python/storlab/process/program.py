"""Programs of others: where they are, and what they say of themselves."""

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
    """The program of an engine: that of ``STORLAB_<NAME>``, else the one on the path, which is
    called as the engine or ``file``.

    Raises EngineError, with ``install`` as the cure, when there is none.
    """
    variable = f"STORLAB_{name.upper()}"
    asked = os.environ.get(variable)
    path = executable(asked or file or name)
    if path is None:
        where = f"{variable}={asked}" if asked else file or name
        raise EngineError(where, "is not an executable file" if asked else "is missing", install)
    return path


def executable(name: str, places: str | None = None) -> Path | None:
    """The program of that name or path, in ``places`` or on the path; None where there is none.

    Absolute, as a run has a directory of its own; a link stays one, by which a Python knows its
    environment.
    """
    path = shutil.which(name, path=places)
    return None if path is None else Path(path).absolute()


def ask_program(
    command: Sequence[str],
    install: str,
    timeout_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """What it prints. Raises EngineError, with ``install`` as the cure, where it does not run."""
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
    """The JSON that a script prints in that Python. Raises EngineError where it does not run."""
    done = ask_program([python, "-c", script], install, timeout_s)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise EngineError(python, f"does not run: {error}", install) from error
    return answer


def asked_once(ask: Callable[[Path], AnswerT]) -> Callable[[Path], AnswerT]:
    """What a program says of itself, remembered for as long as its file is the same."""

    @cache
    def answer(program: Path, _modified_ns: int, _size: int) -> AnswerT:
        return ask(program)

    @wraps(ask)
    def remembered(program: Path) -> AnswerT:
        stamp = program.stat()
        return answer(program, stamp.st_mtime_ns, stamp.st_size)

    return remembered
