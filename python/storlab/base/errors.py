"""Exceptions of storlab and exit codes of its command.

Every exception has three parts: the field or path, what is wrong, and how to fix it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit codes of the ``storlab`` command. They are stable: scripts may rely on them."""

    OK = 0
    INTERNAL = 1  # defect in storlab itself
    USAGE = 2  # the command line is wrong
    STUDY = 3  # the study file is wrong or cannot be read
    PREFLIGHT = 4  # this machine cannot run the study as it is
    GUARD = 5  # refused: the target might hold existing data
    RUN_FAILED = 6  # the campaign completed, and at least one run failed
    INTERRUPTED = 7  # stopped by the user; `storlab resume` continues
    RESULT = 8  # a result directory is missing, unreadable, incomplete or damaged
    ENGINE = 9  # an engine is missing, too old, or cannot do what was requested
    # a comparison completed with a negative verdict (crosscheck, gate, verify, audit)
    DISAGREE = 10
    AUDIT = 11  # storlab's own brief contradicts its runs and was not written
    INCONCLUSIVE = 12  # a comparison completed without a clear result (crosscheck, gate)
    UNREACHABLE = 13  # a target was unreachable for too long; `storlab resume` continues


def with_fix(text: str, fix: str) -> str:
    """Return a message as the terminal shows it, with its fix, if any, on the next line."""
    return f"{text}\n  fix: {fix}" if fix else text


def with_fixes(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Return messages with their fixes; if consecutive messages share a fix, show it once.

    Args:
        lines: Each message with its fix, which is empty if there is none.
    """
    following = [*lines[1:], ("", "")] if lines else []
    return [
        with_fix(text, "" if fix == after else fix)
        for (text, fix), (_, after) in zip(lines, following, strict=True)
    ]


class StorlabError(Exception):
    """Base class of all errors that storlab raises on purpose.

    ``where`` is the field, path or option; ``what`` is the problem, and ``fix`` the remedy.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, where: str, what: str, fix: str = "") -> None:
        self.where = where
        self.what = what
        self.fix = fix
        super().__init__(where, what, fix)  # arguments from which pickle recreates the error

    def __str__(self) -> str:
        return with_fix(f"{self.where}: {self.what}", self.fix)


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem in a TOML table: the field (as keys and indices), what is wrong, and the fix."""

    field: tuple[str | int, ...]
    what: str
    fix: str = ""

    @property
    def text(self) -> str:
        """Problem as one line of text: ``field: what; fix``."""
        field = ".".join(map(str, self.field))
        return f"{field}: {self.what}" + (f"; {self.fix}" if self.fix else "")


class FieldProblems(ValueError):  # noqa: N818 - a list of problems, not one error
    """Error of a validator that checks several fields; holds one problem per invalid field."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(problem.what for problem in problems))


class FormatError(ValueError):
    """Error: output of a tool deviates from its format in ``field``; ``what`` is the problem."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"{field} {what}")
        self.field = field
        self.what = what


class StudyError(StorlabError):
    """Error in a study file, so that the study cannot be run.

    ``problems`` lists all problems as dictionaries with line (or None), where, what and fix.
    """

    exit_code = ExitCode.STUDY

    def __init__(
        self,
        where: str,
        what: str,
        fix: str = "",
        problems: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(where, what, fix)
        self.problems = list(problems or [{"line": None, "where": where, "what": what, "fix": fix}])

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return super().__str__()
        lines = [f"{self.where}: {self.what}"]
        for problem in self.problems:
            lines.append(f"  {problem['where']}: {problem['what']}")
            if problem["fix"]:
                lines.append(f"    fix: {problem['fix']}")
        return "\n".join(lines)


class UsageError(StorlabError):
    """Error in the command line, such as a name that does not exist."""

    exit_code = ExitCode.USAGE


class PreflightError(StorlabError):
    """Refusal to start because the machine lacks something that the study needs."""

    exit_code = ExitCode.PREFLIGHT


class GuardError(StorlabError):
    """Refusal to run, because existing data could be destroyed. Nothing was written."""

    exit_code = ExitCode.GUARD


class RunError(StorlabError):
    """Failure of a run."""

    exit_code = ExitCode.RUN_FAILED


class UnreachableError(StorlabError):
    """Stop of a campaign because a target stopped responding. Finished runs are stored."""

    exit_code = ExitCode.UNREACHABLE


class ResultError(StorlabError):
    """Error in reading a result directory."""

    exit_code = ExitCode.RESULT


class MeterError(StorlabError):
    """Error in opening or reading a meter."""

    exit_code = ExitCode.PREFLIGHT


class EngineError(StorlabError):
    """Error of an engine: it is missing, too old, or cannot do what the study requests."""

    exit_code = ExitCode.ENGINE
