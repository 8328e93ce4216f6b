"""House rules for all text files: no machine paths, no registries, only existing names."""

from __future__ import annotations

import re

# Split, so that this file passes its own rule.
_MACHINE_PATHS = [f"/{name}/" for name in ("root", "work", "home", "Users")]
_REGISTRIES = [
    f"{name}.{end}"
    for name, end in (
        ("pypi", "org"),
        ("files.pythonhosted", "org"),
        ("index.crates", "io"),
        ("static.crates", "io"),
        ("registry.npmjs", "org"),
        ("proxy.golang", "org"),
        ("deb.debian", "org"),
    )
]
_MACHINE = re.compile("|".join(rf"(?<![\w.$}}]){re.escape(path)}" for path in _MACHINE_PATHS))
_REGISTRY = re.compile("|".join(re.escape(name) for name in _REGISTRIES))
_LOCKED = re.compile(
    r"[A-Za-z0-9][\w.\-]*==[\w.!+\-]+(?:\s*;[^\\]+)?\s*\\?|--hash=sha256:[0-9a-f]{64}\s*\\?"
)
_EXIT_ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*`?([A-Z_]+)`?\s*\|", re.MULTILINE)
_CODE = re.compile(r"^```.*?\n(.*?)^```|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
_MAKE_COMMAND = re.compile(r"^(?:\$ )?make ([a-z][a-z0-9-]*)", re.MULTILINE)
_STORLAB_COMMAND = re.compile(r"^(?:\$ )?storlab ([a-z][a-z-]*)", re.MULTILINE)
_MAKE_TARGET = re.compile(r"^([a-z][a-z0-9-]*):(?!=)", re.MULTILINE)


def machine_complaints(text: str) -> list[str]:
    """Complain about paths of a particular machine."""
    return _each(_MACHINE, text, "is a path of one machine")


def registry_complaints(text: str) -> list[str]:
    """Complain about addresses of package registries."""
    return _each(_REGISTRY, text, "is the address of a registry")


def cargo_lock_complaints(text: str) -> list[str]:
    """Complain about sources in Cargo.lock other than cargo's default registry name."""
    default = 'source = "registry+https://github.com/rust-lang/crates.io-index"'
    lines = [line for line in text.splitlines() if line.startswith("source = ")]
    return [f"{line} is not the default registry" for line in lines if line != default]


def python_lock_complaints(text: str) -> list[str]:
    """Complain about lines other than ``name==version`` or a hash, and versions without a hash."""
    complaints = []
    hashed = True
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if _LOCKED.fullmatch(line) is None:
            complaints.append(f"line {number}: {line[:60]} is neither a pinned version nor a hash")
        if not line.startswith("--hash"):
            if not hashed:
                complaints.append(f"line {number}: the version before it has no hash")
            hashed = False
        else:
            hashed = True
    return complaints if hashed else [*complaints, "the last version has no hash"]


def exit_codes(text: str) -> dict[int, str]:
    """Return number and name from rows of a Markdown table ``| 0 | `OK` | ... |``."""
    return {int(number): name for number, name in _EXIT_ROW.findall(text)}


def make_commands(text: str) -> set[str]:
    """Return the make targets that a document mentions."""
    return set(_MAKE_COMMAND.findall(_code(text)))


def make_targets(makefile: str) -> set[str]:
    """Return the targets of a Makefile."""
    return set(_MAKE_TARGET.findall(makefile))


def storlab_commands(text: str) -> set[str]:
    """Return the storlab commands that a document mentions."""
    return set(_STORLAB_COMMAND.findall(_code(text)))


def _code(text: str) -> str:
    """Return fenced blocks and inline code, each on lines of its own."""
    return "\n".join(block or inline for block, inline in _CODE.findall(text))


def links(text: str) -> list[str]:
    """Return relative links and images of a Markdown document, without fragments."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    return sorted({target for target in targets if "://" not in target})


def _each(pattern: re.Pattern[str], text: str, complaint: str) -> list[str]:
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {match.group()} {complaint}"
        for match in pattern.finditer(text)
    ]
