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
_RUSTDOC = re.compile(r"^[ \t]*//([/!]) ?(.*)$")


def python_complaints(source: str) -> list[str]:
    """Docstrings of modules, classes, functions and attributes."""
    return list(_complaints(_docstrings(ast.parse(source))))


def rust_complaints(source: str) -> list[str]:
    """Rustdoc of items and modules."""
    return list(_complaints(_rustdoc(source)))


def _complaints(texts: Iterator[tuple[int, str]]) -> Iterator[str]:
    for line, text in texts:
        match = _BEGINNING.match(text) or _ANYWHERE.search(text)
        if match is not None:
            yield f'line {line}: "{match.group()}" in "{text[:60]}"; see CONTRIBUTING.md, Style'


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            text = getattr(getattr(statement, "value", None), "value", None)
            if isinstance(statement, ast.Expr) and isinstance(text, str):
                yield statement.lineno, " ".join(text.split())


def _rustdoc(source: str) -> Iterator[tuple[int, str]]:
    """Each block of consecutive ``///`` or ``//!`` lines as one text."""
    kind, start, words = "", 0, []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        match = _RUSTDOC.match(line)
        if match is not None and match[1] == kind:
            words += match[2].split()
            continue
        if kind:
            yield start, " ".join(words)
        kind, start, words = (match[1], number, match[2].split()) if match else ("", 0, [])
