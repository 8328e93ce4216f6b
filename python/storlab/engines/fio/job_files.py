"""Reader of fio's job files and command lines, as in fio's HOWTO for 3.33 and later.

``configparser`` does not fit: sections of the same name are separate jobs, a ``[global]`` section
applies only to the sections after it, and ``include`` inserts another file.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from storlab.base.errors import UsageError
from storlab.base.files import read_input
from storlab.base.units import MIB

_MOST_INCLUDES = 16  # depth of nested include files; a file that includes itself ends here
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_OPERATORS = ";&|<>"
_SHELL_VARIABLE = re.compile(r"\$(?!pagesize|mb_memory|ncpus|job|file|clientuid)([A-Za-z_]\w*)")
_COMMAND_LINE = "fio command line"
# Options that need no value.
FLAGS = frozenset({
    "bs_unaligned", "norandommap", "time_based", "verify_only", "exitall", "exitall_on_error",
    "stonewall", "wait_for_previous", "new_group", "thread", "group_reporting", "zero_buffers",
    "refill_buffers", "blocksize_unaligned",
})  # fmt: skip
_TIMES = ("runtime", "timeout", "ramp_time", "startdelay")
# Options of the command line that are not options of a job. They choose the output, or the machine
# that runs fio.
_PROGRAM_FLAGS = frozenset({
    "bandwidth-log", "minimal", "append-terse", "version", "help", "cmdhelp", "enghelp", "showcmd",
    "readonly", "parse-only", "warnings-fatal", "server", "cpuclock-test", "crctest", "memcpytest",
    "merge-blktrace-only",
})  # fmt: skip
_PROGRAM_OPTIONS = frozenset({
    "output", "latency-log", "output-format", "eta", "eta-interval", "eta-newline", "debug",
    "inflate-log", "alloc-size", "max-jobs", "terse-version", "daemonize", "client",
    "remote-config", "idle-prof", "status-interval", "trigger-file", "trigger-timeout", "trigger",
    "trigger-remote", "aux-path",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """Option of a job, with the file and line that set it."""

    name: str
    value: str | None  # None if the option has none
    where: str  # file and line, as in "job.fio:12"
    missing: tuple[str, ...] = ()  # variables in the value that the environment lacks

    @property
    def text(self) -> str:
        """The option as ``name=value``, with variables replaced."""
        return self.name if self.value is None else f"{self.name}={self.value}"


@dataclass(slots=True)
class JobSection:
    """Section of a job file, or job of a command line; global options precede its own."""

    name: str
    where: str
    settings: list[Setting] = field(default_factory=list)
    shared: int = 0  # number of global options in ``settings``
    first: bool = False  # the first job of a file; fio runs files one after the other


def read_jobs(value: str, environment: Mapping[str, str] | None = None) -> list[JobSection]:
    """Return the jobs of a job file, or of a command line that runs ``fio``.

    Args:
        value: Path of a file, or a command line.
        environment: Values of ``${NAME}``; by default those of this process.

    Raises:
        UsageError: The file or command line is malformed; the error names the line and a fix.
    """
    environment = os.environ if environment is None else environment
    words = _command_words(value)
    if words is not None:
        return _CommandLine(environment).read(words)
    return _JobFile(Path(value), environment).read()


def _command_words(value: str) -> list[str] | None:
    """Split a value into words if it is a command line; return None if it is a path."""
    # A command line can be too long for a path; then Path.is_file raises OSError.
    is_file = os.path.isfile(value)  # noqa: PTH113
    if is_file or not re.search(r"(^|[\s/;&|])fio\s", value):
        return None
    text = value.replace("\\\r\n", " ").replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        fix = "put the whole command line in quotes of the other kind"
        raise UsageError(_COMMAND_LINE, f"cannot be split into words: {error}", fix) from None
    return words if any(map(_is_fio, words)) else None


def _is_fio(word: str) -> bool:
    return word == "fio" or word.endswith("/fio")


class _JobFile:
    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self.environment = environment
        self.globals: list[Setting] = []
        self.sections: list[JobSection] = []

    def read(self) -> list[JobSection]:
        current: list[Setting] | None = None
        for number, line in _lines(self.path):
            where = f"{self.path}:{number}"
            if line.startswith("["):
                current = self._open(line, where)
            elif current is None:
                what = f'"{line}" precedes the first section'
                raise UsageError(where, what, "write [global] or a job's name in brackets above it")
            else:
                current += self._settings(line, self.path, where, 0)
        if self.sections:
            self.sections[0].first = True
        return self.sections

    def _open(self, line: str, where: str) -> list[Setting]:
        """Begin a section; return the list to which its options are added."""
        name = line[1:-1]
        if not line.endswith("]") or not name:
            raise UsageError(where, f'"{line}" is not a section', "write [name]")
        if name.startswith("global"):
            return self.globals
        section = JobSection(name, where, list(self.globals), len(self.globals))
        self.sections.append(section)
        return section.settings

    def _settings(self, line: str, file: Path, where: str, depth: int) -> Iterator[Setting]:
        if not re.match(r"include\s", line):
            yield setting(line, where, self.environment)
            return
        name = line[len("include") :].strip()
        path = Path(name) if Path(name).exists() else file.parent / name
        if not path.is_file():
            fix = f"create it, or correct the path; it is relative to {file.parent}"
            raise UsageError(where, f'the included file "{name}" does not exist', fix)
        if depth == _MOST_INCLUDES:
            what = f"include files are nested more than {_MOST_INCLUDES} deep"
            raise UsageError(where, what, "remove the include of the file in itself")
        for number, text in _lines(path):
            here = f"{path}:{number}"
            if text.startswith("["):
                fix = "an included file has options only: move its sections to the job file"
                raise UsageError(here, "an included file has a section", fix)
            yield from self._settings(text, path, here, depth + 1)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of a file, without comments and empty lines."""
    try:
        text = read_input(path).decode()
    except FileNotFoundError:
        fix = "give the path of a fio job file, or a command line that begins with fio"
        raise UsageError(str(path), "does not exist", fix) from None
    except UnicodeDecodeError:
        raise UsageError(str(path), "is not text in UTF-8", "give a fio job file") from None
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        # In fio, a comment may begin anywhere in a line, even inside a value.
        bare = re.split("[;#]", line, maxsplit=1)[0].strip()
        if bare:
            yield number, bare


def setting(text: str, where: str, environment: Mapping[str, str]) -> Setting:
    """Parse an option such as ``size=4*$mb_memory``, and replace its variables."""
    names = [match[1] for match in _VARIABLE.finditer(text)]
    text = _VARIABLE.sub(lambda match: environment.get(match[1], ""), text)
    missing = tuple(name for name in names if name not in environment)
    name, sign, value = (part.strip() for part in text.partition("="))
    if not sign:
        return Setting(name, None, where, missing)
    replaced = _keywords(value)
    if value.startswith("(") and value.endswith(")"):
        replaced = calculated(replaced)
        # The unit of a time in parentheses is the microsecond.
        replaced += "us" if name in _TIMES and replaced.isdigit() else ""
    elif replaced != value:
        replaced = calculated(replaced)
    return Setting(name, replaced, where, missing)


def _keywords(value: str) -> str:
    pages = os.sysconf("SC_PAGESIZE")
    for word, number in (
        ("$pagesize", pages),
        ("$mb_memory", os.sysconf("SC_PHYS_PAGES") * pages // MIB),
        ("$ncpus", os.cpu_count() or 1),
    ):
        value = value.replace(word, str(number))
    return value


def calculated(text: str) -> str:
    """Evaluate an expression of whole numbers; return other texts unchanged."""
    tokens = re.findall(r"\d+|[-+*/%^()]|\S", text)
    try:
        value, rest = _sum(tokens)
    except (ValueError, IndexError, ZeroDivisionError):
        return text
    return text if rest else str(value)


def _sum(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in "+-":
        term, rest = _product(tokens[1:])
        value, tokens = (value + term if tokens[0] == "+" else value - term), rest
    return value, tokens


def _product(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _power(tokens)
    while tokens and tokens[0] in "*/%":
        factor, rest = _power(tokens[1:])
        if tokens[0] == "*":
            value *= factor
        else:
            value = value // factor if tokens[0] == "/" else value % factor
        tokens = rest
    return value, tokens


def _power(tokens: list[str]) -> tuple[int, list[str]]:
    if tokens[0] == "(":
        value, rest = _sum(tokens[1:])
        if rest[0] != ")":
            raise ValueError(rest[0])
        rest = rest[1:]
    else:
        value, rest = int(tokens[0]), tokens[1:]
    if rest and rest[0] == "^":
        exponent, rest = _power(rest[1:])
        if not 0 <= exponent <= 64:
            raise ValueError(exponent)
        value **= exponent
    return value, rest


def _own_words(words: list[str]) -> list[str]:
    """Return the words before the first shell operator.

    Raises:
        UsageError: There are several fio commands, or a shell expression such as ``$(...)``.
    """
    end = next((i for i, word in enumerate(words) if set(word) <= set(_OPERATORS)), len(words))
    if any(map(_is_fio, words[end:])):
        fix = "give each command an option --from-fio of its own"
        raise UsageError(_COMMAND_LINE, "has several fio commands", fix)
    own = words[:end]
    if end < len(words) and words[end][0] in "<>" and own[-1:] in (["1"], ["2"]):
        own.pop()  # the number in 2>file
    for word in own:
        if match := re.search(r"\$\(|\$\[|`", word):
            what = f'"{word}" has the shell expression {match.group()}'
            raise UsageError(_COMMAND_LINE, what, "write its value instead")
    return own


class _CommandLine:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self.globals: list[Setting] = []
        self.sections: list[JobSection] = []
        self.files: list[str] = []
        self.wanted: list[str] = []  # names given by --section
        self.current: list[Setting] = self.globals

    def read(self, words: list[str]) -> list[JobSection]:
        start = next(i for i, word in enumerate(words) if _is_fio(word))
        for word in words[:start]:
            if _ASSIGNMENT.fullmatch(word):
                name, _, value = word.partition("=")
                self.environment[name] = value
        rest = _own_words(words[start + 1 :])
        while rest:
            word = rest.pop(0)
            # Word processors turn the hyphens of an option into dashes.
            if word.startswith(("-", "\u2013", "\u2014")) and len(word) > 1:
                self._option(word.lstrip("-\u2013\u2014"), rest)
            else:
                self.files.append(word)
        if self.sections:
            self.sections[0].first = True
        return [*self.sections, *self._from_files()]

    def _option(self, text: str, rest: list[str]) -> None:
        name, sign, value = text.partition("=")
        if not sign and name not in FLAGS | _PROGRAM_FLAGS:
            if not rest:
                what = f"--{name} has no value at the end of the line"
                raise UsageError(_COMMAND_LINE, what, f"write --{name}=VALUE")
            sign, value = "=", rest.pop(0)
        if name == "section":
            self.wanted.append(value)
        elif name == "name":
            self._open(value)
        elif name not in _PROGRAM_FLAGS | _PROGRAM_OPTIONS:
            value = _SHELL_VARIABLE.sub(r"${\1}", value)
            self.current.append(
                setting(f"{name}={value}" if sign else name, _COMMAND_LINE, self.environment)
            )

    def _open(self, name: str) -> None:
        if name.startswith("global"):
            self.current = self.globals
            return
        section = JobSection(name, _COMMAND_LINE, list(self.globals), len(self.globals))
        self.sections.append(section)
        self.current = section.settings

    def _from_files(self) -> Iterator[JobSection]:
        """Yield the jobs of the job files on the command line, with its global options."""
        for file in self.files:
            reader = _JobFile(Path(file), self.environment)
            reader.globals = list(self.globals)
            for section in reader.read():
                if not self.wanted or section.name in self.wanted:
                    yield replace(section)
