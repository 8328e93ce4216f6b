"""The exception tree and the exit codes.

Every error says three things: which field or path, what was wrong, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit codes of the ``storlab`` command. They are stable: scripts may rely on them."""

    OK = 0
    INTERNAL = 1  # a defect of storlab itself
    USAGE = 2  # the command line is wrong
    STUDY = 3  # the study file is wrong, or cannot be read
    PREFLIGHT = 4  # this machine cannot run the study as it stands
    GUARD = 5  # refused: the target might hold somebody's data
    RUN_FAILED = 6  # the campaign went to its end, and at least one run failed
    INTERRUPTED = 7  # stopped by the user; `storlab resume` goes on
    RESULT = 8  # a result directory is missing, unreadable, incomplete or damaged
    ENGINE = 9  # an engine is missing, too old, or cannot do what was asked
    DISAGREE = 10  # a comparison ran, and its verdict is "no" (crosscheck, gate, verify, audit)
    AUDIT = 11  # storlab's own brief contradicts its runs, and was not written
    INCONCLUSIVE = 12  # a comparison ran, and what it has does not decide (crosscheck, gate)
    UNREACHABLE = 13  # a target stayed away for too long; `storlab resume` goes on


def with_fix(text: str, fix: str) -> str:
    """Return what is wrong, and below it the fix if there is one, as the terminal shows both."""
    return f"{text}\n  fix: {fix}" if fix else text


def with_fixes(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Return texts with their fixes below them; texts in a row that have one fix show it once.

    Args:
        lines: Each text with its fix, which is empty if there is none.
    """
    following = [*lines[1:], ("", "")] if lines else []
    return [
        with_fix(text, "" if fix == after else fix)
        for (text, fix), (_, after) in zip(lines, following, strict=True)
    ]


class StorlabError(Exception):
    """Root of every error that storlab raises on purpose.

    ``where`` names the field, path or option; ``what`` says what is wrong; ``fix`` what to do.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, where: str, what: str, fix: str = "") -> None:
        self.where = where
        self.what = what
        self.fix = fix
        super().__init__(where, what, fix)  # what a process pool makes the error from again

    def __str__(self) -> str:
        return with_fix(f"{self.where}: {self.what}", self.fix)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``: kind, where, what, fix, exit_code."""
        return {
            "kind": type(self).__name__,
            "where": self.where,
            "what": self.what,
            "fix": self.fix,
            "exit_code": int(self.exit_code),
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a table: the field (a path below that table), what, and the fix."""

    field: tuple[str | int, ...]
    what: str
    fix: str = ""

    @property
    def text(self) -> str:
        """``field: what; fix``, where it is said without a place of its own."""
        field = ".".join(map(str, self.field))
        return f"{field}: {self.what}" + (f"; {self.fix}" if self.fix else "")


class FieldProblems(ValueError):  # noqa: N818 - a list of problems, not one error
    """Raised by validators that look at several fields, so that each error names its field."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(problem.what for problem in problems))


class StudyError(StorlabError):
    """The study file does not say something that can be run.

    ``problems`` lists every error that was found, each with line (or None), where, what and fix.
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

    def as_dict(self) -> dict[str, Any]:
        """As every error, and ``problems``."""
        return {**super().as_dict(), "problems": self.problems}


class UsageError(StorlabError):
    """The command line asks for something that does not exist."""

    exit_code = ExitCode.USAGE


class PreflightError(StorlabError):
    """The machine lacks something that the study needs."""

    exit_code = ExitCode.PREFLIGHT


class GuardError(StorlabError):
    """Refused, because running could destroy data. Nothing was written."""

    exit_code = ExitCode.GUARD


class RunError(StorlabError):
    """A run ended as failed."""

    exit_code = ExitCode.RUN_FAILED


class UnreachableError(StorlabError):
    """A campaign stopped because a target stayed away. What was finished is stored."""

    exit_code = ExitCode.UNREACHABLE


class ResultError(StorlabError):
    """A result directory cannot be read."""

    exit_code = ExitCode.RESULT


class MeterError(StorlabError):
    """A meter cannot be opened or read."""

    exit_code = ExitCode.PREFLIGHT


class EngineError(StorlabError):
    """An engine is missing, too old, or cannot do what the study asks."""

    exit_code = ExitCode.ENGINE
