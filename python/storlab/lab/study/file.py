"""Reader of study files: parses and validates TOML, and reports all errors with line and fix."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from storlab.base.errors import StudyError
from storlab.base.files import read_advice, read_input
from storlab.base.nearest import suggest
from storlab.contracts.registry import ENGINES, FAMILIES, METERS, study_class
from storlab.lab.study.problems import Explainer, study_error
from storlab.lab.study.toml_lines import key_lines
from storlab.model.gate import GateFile, GateRule
from storlab.model.published import published_names
from storlab.model.publisher import BriefFile, BriefTable
from storlab.model.study import StudyBase

MOST_BYTES = 4 * 2**20  # largest size of a study file; larger files are refused without reading

MOST_ENTRIES = 10_000
"""Largest number of entries in a list or table of a study."""
MOST_DEPTH = 16
"""Deepest nesting of tables and lists; no field of a study needs more."""
# Matches dotted keys with too many parts: tomllib's time and memory grow with their square.
_LONG_KEY = re.compile(r"(?<![\w.\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){99}")
_AT = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
_UNQUOTED = re.compile(r"^\s*[\w.\"'-]+\s*=\s*\[?\s*([0-9]*[A-Za-z/~.][^\s,#\]]*)")


ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LoadedStudy:
    """Validated study, with the text and the path of its file."""

    study: StudyBase
    text: str
    sha256: str  # digest of the text in UTF-8
    path: Path

    def error(self, field: tuple[str | int, ...], what: str, fix: str = "") -> StudyError:
        """Return a StudyError about one field of this file, which names the field's line."""
        return self.errors([(field, what, fix)])

    def errors(self, details: Iterable[tuple[tuple[str | int, ...], str, str]]) -> StudyError:
        """Return one StudyError about several fields of this file, which names their lines.

        Args:
            details: For each problem the path of the field, what is wrong, and the fix.
        """
        file = str(self.path)
        explainer = _explainer(file, self.text, tomllib.loads(self.text), type(self.study))
        return study_error(file, [explainer.problem(*detail) for detail in details])


def load_study(path: Path | str) -> LoadedStudy:
    """Read and validate a study file.

    Raises:
        StudyError: The file cannot be read or is invalid; the error lists all problems with line
            and fix.
    """
    path = Path(path)
    return loaded_study(_read(path), path)


def loaded_study(text: str, path: Path) -> LoadedStudy:
    """Validate the text of a study file, which need not exist yet.

    Raises:
        StudyError: The text is not a valid study.
    """
    return LoadedStudy(
        study=parse_study(text, str(path)),
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        path=path,
    )


def parse_study(text: str, file: str = "study.toml") -> StudyBase:
    """Parse and validate the text of a study.

    Args:
        text: Study file in TOML.
        file: Name of the file in error messages.

    Raises:
        StudyError: The text is invalid, or names an engine, a meter or a published table that does
            not exist.
    """
    study, explainer = _checked(text, file, _study_models)
    problems = [
        explainer.problem(where, f'"{name}" is not an engine', suggest(name, list(ENGINES)))
        for where, name in _engines(study)
        if name not in list(ENGINES)
    ]
    problems += [
        explainer.problem(
            ("target", place, "meters", index, "kind"),
            f'"{meter.kind}" is not a meter',
            suggest(meter.kind, list(METERS)),
        )
        for place, target in enumerate(study.target)
        for index, meter in enumerate(target.meters)
        if meter.kind not in METERS
    ]
    problems += [
        explainer.problem(
            ("study", "published", index),
            f'"{name}" is not a published table',
            suggest(name, published_names()),
        )
        for index, name in enumerate(study.study.published)
        # Do not check names that end in .csv: these paths are resolved when the brief is written,
        # maybe on another machine.
        if Path(name).suffix != ".csv" and name not in published_names()
    ]
    if problems:
        raise study_error(file, problems)
    return study


def load_rules(path: Path) -> list[GateRule]:
    """Read the ``[[gate]]`` tables from a file that holds only gate rules.

    Raises:
        StudyError: The file cannot be read or is invalid.
    """
    text = _read(path, "create a file with [[gate]] tables, as in docs/gate.md")
    return _checked(text, str(path), lambda _: [GateFile])[0].gate


def load_publisher(path: Path) -> BriefTable:
    """Read the ``[brief]`` table, which names the publisher, from a file with any other tables.

    Raises:
        StudyError: The file cannot be read or its ``[brief]`` table is invalid.
    """
    text = _read(path, "create a file with a [brief] table, as in docs/brief.md")
    return _checked(text, str(path), lambda _: [BriefFile])[0].brief


def _study_models(data: dict[str, Any]) -> Iterator[type[StudyBase]]:
    """Yield the pydantic models with which to validate a study, the fastest first.

    The first model covers only the workload families that the study uses. The second covers all
    families, so that its errors can suggest a kind. Importing all families would take 0.2 s longer
    in every task of every rank of a cluster.
    """
    header, workloads = data.get("study"), data.get("workload")
    if isinstance(workloads, list) and isinstance(header, dict) and "question" not in header:
        kinds = [str(workload.get("kind")) for workload in workloads if isinstance(workload, dict)]
        if kinds and all(kind in list(FAMILIES) for kind in kinds):
            yield study_class(kinds)
    yield study_class()


def _checked(
    text: str, file: str, models: Callable[[dict[str, Any]], Iterable[type[ModelT]]]
) -> tuple[ModelT, Explainer]:
    """Validate a text with the first model that accepts it.

    Raises:
        StudyError: The text is not valid TOML, or no model accepts it; the error then lists the
            errors of the last model.
    """
    if match := _LONG_KEY.search(text):
        line = text.count("\n", 0, match.start()) + 1
        what = "a dotted key has more than 99 parts"
        raise StudyError(f"{file}:{line}", what, "shorten the key")
    try:
        data = tomllib.loads(text)
    except RecursionError:
        what = "lists or tables are nested too deeply"
        raise StudyError(file, what, "use fewer nested brackets") from None
    except ValueError as error:
        raise _syntax_error(file, text, str(error)) from None
    _check_content(file, text, data)
    problems: list[dict[str, Any]] = []
    for model in models(data):
        explainer = _explainer(file, text, data, model)
        try:
            return model.model_validate(data), explainer
        except ValidationError as error:
            problems = explainer.explain(error)
    raise study_error(file, problems)


def _check_content(file: str, text: str, data: dict[str, Any]) -> None:
    """Check for content that no field may have, before fields are validated.

    Raises:
        StudyError: A list or table has more than ``MOST_ENTRIES`` entries, tables are nested deeper
            than ``MOST_DEPTH``, or a text contains a NUL character.
    """

    def refuse(path: tuple[str | int, ...], what: str, fix: str) -> StudyError:
        explainer = _explainer(file, text, data, GateFile)
        return study_error(file, [explainer.problem(path, what, fix)])

    left: list[tuple[tuple[str | int, ...], Any]] = [((), data)]
    while left:
        path, node = left.pop()
        if isinstance(node, str):
            if "\0" in node:
                raise refuse(path, "contains a NUL character", "remove this character")
        elif isinstance(node, (dict, list)):
            if len(node) > MOST_ENTRIES:
                what = f"has {len(node):,} entries, more than {MOST_ENTRIES:,}"
                raise refuse(path, what, "remove entries")
            if len(path) > MOST_DEPTH:
                what = f"contains tables nested deeper than {MOST_DEPTH} levels"
                raise refuse(path[:4], what, "remove nested tables")
            inside = list(node.items() if isinstance(node, dict) else enumerate(node))
            left += [((*path, name), value) for name, value in inside]
            if isinstance(node, dict):
                left += [((*path, name), name) for name in node]


def _explainer(file: str, text: str, data: dict[str, Any], model: type[BaseModel]) -> Explainer:
    return Explainer(file, key_lines(text.replace("\r\n", "\n")), data, model)


def _engines(study: StudyBase) -> list[tuple[tuple[str | int, ...], str]]:
    named: list[tuple[tuple[str | int, ...], str]] = [(("study", "engine"), study.study.engine)]
    for index, workload in enumerate(study.workload):
        if workload.engine is not None:
            named.append((("workload", index, "engine"), workload.engine))
    return named


def _read(path: Path, fix: str = "correct the path, or create a study with storlab init") -> str:
    try:
        content = read_input(path, MOST_BYTES)
    except FileNotFoundError:
        raise StudyError(str(path), "does not exist", fix) from None
    except IsADirectoryError:
        raise StudyError(str(path), "is a directory, not a file", "name a file in it") from None
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise StudyError(str(path), what, read_advice(error)) from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise StudyError(f"{path}:{line}", "is not UTF-8 text", "save the file as UTF-8") from None


def _syntax_error(file: str, text: str, message: str) -> StudyError:
    match = _AT.search(message)
    lines = text.splitlines() or [""]
    line = int(match.group(1)) if match and match.group(1) else len(lines)
    written = lines[min(line, len(lines)) - 1]
    what = _AT.sub("", message)
    problem = {
        "line": line,
        "where": f"{file}:{line}",
        "what": f"not valid TOML: {what[:1].lower()}{what[1:]}: {written.strip()[:60]}",
        "fix": _syntax_fix(what, written),
    }
    return study_error(file, [problem])


def _syntax_fix(what: str, written: str) -> str:
    """Return a fix for a TOML syntax error, by common mistakes in study files."""
    unquoted = _UNQUOTED.match(written)
    if unquoted and unquoted.group(1) not in ("true", "false", "inf", "nan"):
        return f'put text and units in quotes: "{unquoted.group(1)}"'
    if "overwrite" in what.lower() or "twice" in what.lower():
        return (
            "remove the key or table, which occurs twice; for several targets or workloads, use "
            "two brackets: [[target]], [[workload]]"
        )
    if "=" not in written and not written.strip().startswith("["):
        return "write each line as a header such as [study], or as key = value"
    return 'write a key and its value like this: block_size = ["256KiB", "4MiB"]'
