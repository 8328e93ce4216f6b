"""House rules for Rust source and manifests, as functions from text to a list of complaints."""

from __future__ import annotations

import re
import tomllib

from tidy.python_rules import FUNCTION_LINES
from tidy.rust_text import blank, functions

CRATE_FLOORS = {
    "base": 0, "testing": 0, "io": 1, "s3": 1, "server": 1, "run": 2,
    "block": 3, "checkpoint": 3, "object": 3, "preprocess": 3, "training": 3, "py": 4,
}  # fmt: skip
FAMILIES = frozenset(name for name, floor in CRATE_FLOORS.items() if floor == 3)

_CRATE_USE = re.compile(r"\bstorlab_(\w+)\b")
_CLOCK = re.compile(r"\bInstant::now\b|\bSystemTime::now\b|\bclock_gettime\b|\b_?rdtscp?\b")
_UNFINISHED = re.compile(r"\b(?:todo|unimplemented)!|\bdbg!")
_IGNORE = re.compile(r"#\[ignore\s*\]")


def place(crate: str) -> str:
    """The directory of a crate."""
    return f"crates/families/{crate}" if crate in FAMILIES else f"crates/{crate}"


def manifest_complaints(manifest: str, crate: str) -> list[str]:
    """Dependencies of a crate, also those of its tests and build, that do not lie below it."""
    tables = tomllib.loads(manifest)
    names: set[str] = set()
    for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
        names |= set(tables.get(kind, {}))
        for target in tables.get("target", {}).values():
            names |= set(target.get(kind, {}))
    ours = sorted(name.removeprefix("storlab-") for name in names if name.startswith("storlab-"))
    return _not_below(crate, [("Cargo.toml", name) for name in ours])


def use_complaints(source: str, crate: str) -> list[str]:
    """Paths in a source file that lead to a crate which is not below its own."""
    code = blank(source)
    found = [(f"line {_line(code, m.start())}", m.group(1)) for m in _CRATE_USE.finditer(code)]
    return _not_below(crate, [(where, name) for where, name in found if name in CRATE_FLOORS])


def _not_below(crate: str, found: list[tuple[str, str]]) -> list[str]:
    return [
        f"{where}: {crate} must not use {name}, which is not below it"
        for where, name in found
        if name != crate and CRATE_FLOORS.get(name, 99) >= CRATE_FLOORS[crate]
    ]


def clock_complaints(source: str) -> list[str]:
    """Reads of time that belong to ``crates/base/src/clock.rs``."""
    return _each(_CLOCK, blank(source), "reads time; use storlab_base::clock")


def function_complaints(source: str, limit: int = FUNCTION_LINES) -> list[str]:
    """Functions that do not fit on a screen."""
    return [
        f"line {first}: {name} has {last - first + 1} lines"
        for name, first, last in functions(source)
        if last - first + 1 > limit
    ]


def unfinished_complaints(source: str) -> list[str]:
    """Unfinished code, and tests that are ignored without a reason."""
    code = blank(source)
    return _each(_UNFINISHED, code, "is unfinished") + _each(_IGNORE, code, "without a reason")


def _each(pattern: re.Pattern[str], code: str, complaint: str) -> list[str]:
    return [
        f"line {_line(code, match.start())}: {match.group()} {complaint}"
        for match in pattern.finditer(code)
    ]


def _line(code: str, position: int) -> int:
    return code.count("\n", 0, position) + 1
