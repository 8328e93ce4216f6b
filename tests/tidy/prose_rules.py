"""House rules for docstrings and rustdoc: habits that make text hard to read for a stranger."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_BEGINNING = re.compile(r"(?:Of|What|Whose|Where|Those|Nothing|None|Who|The same)\b")
_ANYWHERE = re.compile(
    r"\bBy name\.|\bSee the module\b|\bOf its\b|\banew\b|\bfor good\b|\bnothing but\b"
    r"|\bnot without\b|\bnobody\b|\b[Nn]one where\b|\bwhere there is (?:none|no)\b"
    r"|\b(?:is|are) to end\b"
)
_PART = re.compile(r"^(?:[ \t]*|#+ .*)\n", re.MULTILINE)  # blank lines and headings
_PARAGRAPH = re.compile(r"(?:Of|What|Whose|Those|Who|The same|As for)\b")
_RUSTDOC = re.compile(r"^[ \t]*//([/!]) ?(.*)$")


def python_complaints(source: str) -> list[str]:
    """Return bad habits in docstrings of modules, classes, functions and attributes."""
    return list(_complaints(_docstrings(ast.parse(source))))


def rust_complaints(source: str) -> list[str]:
    """Return bad habits in rustdoc of items and modules."""
    return list(_complaints(_rustdoc(source)))


def _complaints(texts: Iterator[tuple[int, str]]) -> Iterator[str]:
    for line, text in texts:
        first, *others = (" ".join(part.split()) for part in _PART.split(text))
        match = _BEGINNING.match(first) or _ANYWHERE.search(" ".join(text.split()))
        match = match or next(filter(None, map(_PARAGRAPH.match, others)), None)
        if match is not None:
            yield f'line {line}: "{match.group()}" in "{first[:60]}"; see CONTRIBUTING.md, Style'


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            text = getattr(getattr(statement, "value", None), "value", None)
            if isinstance(statement, ast.Expr) and isinstance(text, str):
                yield statement.lineno, text.strip()


def _rustdoc(source: str) -> Iterator[tuple[int, str]]:
    """Yield each block of consecutive ``///`` or ``//!`` lines as one text, with its line."""
    kind, start, lines = "", 0, []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        match = _RUSTDOC.match(line)
        if match is not None and match[1] == kind:
            lines.append(match[2])
            continue
        if kind:
            yield start, "\n".join(lines).strip()
        kind, start, lines = (match[1], number, [match[2]]) if match else ("", 0, [])
