"""House rules for Rust source and manifests: functions from text to a list of complaints."""

from __future__ import annotations

import re
import tomllib

from tidy import tree
from tidy.rust_text import blank

FAMILIES = frozenset(each.name for each in (tree.ROOT / "crates/families").iterdir())
CRATE_FLOORS = {"base": 0, "testing": 0, "io": 1, "s3": 1, "server": 1, "run": 2, "py": 4}
CRATE_FLOORS |= dict.fromkeys([*sorted(FAMILIES), "example"], 3)  # example: the template

_CRATE_USE = re.compile(r"\bstorlab_(\w+)\b")
_PROCESSOR = re.compile(r"\btarget_arch\b|\b(?:core|std)::arch\b|\b(?:global_)?asm!")
_USE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
_TESTS = re.compile(r"^#\[cfg\(test\)\]\s*(?:pub\S*\s+)?mod \w+ \{", re.MULTILINE)


def place(crate: str) -> str:
    """Return the directory of a crate."""
    if crate == "example":
        return "templates/family/crate"
    return f"crates/families/{crate}" if crate in FAMILIES else f"crates/{crate}"


def manifest_complaints(manifest: str, crate: str) -> list[str]:
    """Complain about dependencies of a crate (tests and build included) not on a lower floor."""
    tables = tomllib.loads(manifest)
    names: set[str] = set()
    for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
        names |= set(tables.get(kind, {}))
        for target in tables.get("target", {}).values():
            names |= set(target.get(kind, {}))
    crates = sorted(name.removeprefix("storlab-") for name in names if name.startswith("storlab-"))
    return _not_below(crate, [("Cargo.toml", name) for name in crates])


def use_complaints(source: str, crate: str) -> list[str]:
    """Complain about paths in a source file to a crate that is not on a lower floor."""
    code = blank(source)
    found = [(f"line {_line(code, m.start())}", m.group(1)) for m in _CRATE_USE.finditer(code)]
    return _not_below(crate, [(where, name) for where, name in found if name in CRATE_FLOORS])


def _not_below(crate: str, found: list[tuple[str, str]]) -> list[str]:
    return [
        f"{where}: {crate} must not use {name}, which is not below it"
        for where, name in found
        if name != crate and CRATE_FLOORS.get(name, 99) >= CRATE_FLOORS[crate]
    ]


def module_imports(path: str, source: str, modules: frozenset[str]) -> set[str]:
    """Return the top-level modules of its crate that a file imports; ``""`` is the crate's root.

    ``path`` is relative to ``src``. Imports of tests, and those below the file's own top-level
    module, do not count.
    """
    place = [] if path == "lib.rs" else path.removesuffix(".rs").removesuffix("/mod").split("/")
    found: set[str] = set()
    for match in _USE.finditer(_without_tests(blank(source))):
        for name in _paths(match.group(1)):
            steps = _resolve(place, [step.strip() for step in name.split("::")], modules)
            if steps is not None:
                found.add(steps[0] if steps and steps[0] in modules else "")
    return found - {place[0] if place else ""}


def _resolve(place: list[str], steps: list[str], modules: frozenset[str]) -> list[str] | None:
    """Resolve an imported path from the crate's root; None if it leaves the crate."""
    if steps[0] == "crate":
        return steps[1:]
    if steps[0] in ("self", "super"):
        at = list(place)
        while steps and steps[0] in ("self", "super"):
            at = at[:-1] if steps[0] == "super" else at
            steps = steps[1:]
        return at + steps
    return steps if not place and steps[0] in modules else None


def _paths(tree: str) -> list[str]:
    """Return every path of a ``use`` declaration, with braces expanded."""
    head, brace, rest = tree.partition("{")
    if not brace:
        return [tree.partition(" as ")[0].strip()]
    depth, start, parts = 0, 0, []
    inner = rest[: rest.rindex("}")]
    for index, character in enumerate(inner + ","):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(inner[start:index])
            start = index + 1
    return [path for part in parts if part.strip() for path in _paths(head.strip() + part.strip())]


def _without_tests(code: str) -> str:
    """Return the source before its test module, which may import anything."""
    return _TESTS.split(code)[0]


def processor_complaints(source: str) -> list[str]:
    """Complain about processor-specific code outside ``clock.rs`` and ``arch.rs`` of crates/base.

    There it has a portable alternative, which is tested too.
    """
    return _each(_PROCESSOR, blank(source), "is for one processor; use storlab_base::arch")


def _each(pattern: re.Pattern[str], code: str, complaint: str) -> list[str]:
    return [
        f"line {_line(code, match.start())}: {match.group()} {complaint}"
        for match in pattern.finditer(code)
    ]


def _line(code: str, position: int) -> int:
    return code.count("\n", 0, position) + 1
