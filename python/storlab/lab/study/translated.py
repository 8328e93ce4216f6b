"""Conversion of another tool's jobs to a study, for ``storlab init --from-NAME``."""

from __future__ import annotations

import textwrap
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tomlkit

from storlab.base.errors import StudyError
from storlab.base.units import exact_duration
from storlab.contracts.hook import load
from storlab.contracts.registry import TRANSLATORS
from storlab.contracts.translation import TranslatedTable, Translation
from storlab.lab.study.file import parse_study
from storlab.lab.study.problems import study_error

_WIDTH = 100


def translate(values: Mapping[str, Sequence[str]]) -> Translation:
    """Translate the jobs of one or several tools into the tables of one study.

    Args:
        values: Values of the option ``--from-NAME`` by NAME.

    Raises:
        UsageError: A job cannot be read, or none of its parts can be expressed.
    """
    parts: list[Translation] = [
        load(TRANSLATORS[name].place)(list(given)) for name, given in values.items()
    ]
    whole = Translation()
    for part in parts:
        whole.targets += part.targets
        whole.workloads += part.workloads
        whole.remarks += part.remarks
        whole.files |= part.files
    # All workloads of a study have the same ramp and runtime.
    whole.ramp_ns = max((p.ramp_ns for p in parts if p.ramp_ns is not None), default=None)
    whole.runtime_ns = max((p.runtime_ns for p in parts if p.runtime_ns is not None), default=None)
    return whole


def study_text(translation: Translation, title: str) -> str:
    """Return the translated jobs as a valid study, in TOML with comments.

    Args:
        translation: The translated jobs.
        title: Name of the study.

    Raises:
        StudyError: A value that the other tool accepts is invalid in a study; the error names the
            job that has it.
    """
    lines = list(_header(translation, title))
    starts: list[tuple[int, str]] = []
    for kind, tables in (("target", translation.targets), ("workload", translation.workloads)):
        for table in tables:
            starts.append((len(lines), table.origin))
            lines += ["", *_table(kind, table)]
    text = "\n".join(lines) + "\n"
    try:
        parse_study(text, title)
    except StudyError as error:
        raise _at_origins(error, starts) from error
    return text


def _at_origins(error: StudyError, starts: Sequence[tuple[int, str]]) -> StudyError:
    """Return the error with the jobs of the other tool in place of the study's line numbers.

    The study is not written if it is invalid, so its line numbers would be of no use.

    Args:
        error: Error of the study's validation.
        starts: For each table, the number of lines before it, and the job that it is made from.
    """
    problems = []
    for problem in error.problems:
        at = bisect_left(starts, (problem["line"] or 0, "")) - 1
        field = problem["where"].rpartition(": ")[2]
        where = f"{starts[at][1]}: {field}" if at >= 0 else problem["where"]
        problems.append(problem | {"line": None, "where": where})
    return study_error("the study cannot express these values", problems)


def _header(translation: Translation, title: str) -> Iterator[str]:
    yield from _comment(f"A storlab study that `storlab init` translated from {title}.", "# ")
    yield "#"
    if translation.remarks:
        yield "# What it cannot express:"
        for remark in translation.remarks:
            yield from _comment(remark.text, "# - ")
    else:
        yield "# It expresses every option."
    yield ""
    yield "[study]"
    yield f"name = {_value(title)}"
    yield "repeats = 3 # runs of every workload, to know the run-to-run variation"
    for name, length in (("ramp", translation.ramp_ns), ("runtime", translation.runtime_ns)):
        if length is not None:
            yield f"{name} = {_value(exact_duration(length))}"


def _comment(text: str, first: str) -> list[str]:
    return textwrap.wrap(
        _one_line(text),
        _WIDTH,
        initial_indent=first,
        subsequent_indent="#" + " " * (len(first) - 1),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(kind: str, table: TranslatedTable) -> Iterator[str]:
    yield from _comment(table.origin, "# ")
    yield f"[[{kind}]]"
    yield from _fields(table.fields, table.comments)
    # Groups are tables of their own below the workload.
    for name, value in table.fields.items():
        for inner in value if _is_tables(value) else ():
            yield ""
            yield from _comment(inner.origin, "# ")
            yield f"[[{kind}.{name}]]"
            yield from _fields(inner.fields, inner.comments)


def _fields(fields: Mapping[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    for name, value in fields.items():
        if not _is_tables(value):
            comment = comments.get(name)
            yield f"{name} = {_value(value)}" + (f" # {_one_line(comment)}" if comment else "")


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], TranslatedTable)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return tomlkit.string(value).as_string()
    if isinstance(value, dict):
        pairs = (f"{_value(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(tomlkit.item(value).as_string())


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
