"""Files of this repository: tracked by git, or untracked but not ignored."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BUILT = {".git", ".venv", ".demo", "target", "results", "__pycache__", ".hypothesis"}
_TEXT = {
    "", ".c", ".cfg", ".css", ".html", ".j2", ".js", ".json", ".lock", ".md", ".py", ".pyi", ".rs",
    ".sh", ".svg", ".toml", ".txt", ".typ", ".yaml", ".yml",
}  # fmt: skip


@cache
def files() -> tuple[Path, ...]:
    """Return every file relative to the root; walks the tree if there is no git."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        names = [Path(name) for name in done.stdout.splitlines()]
    else:
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
        names = [name for name in names if not _BUILT & set(name.parts)]
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def source(suffix: str, *under: str) -> list[Path]:
    """Return files that end in ``suffix`` in the given directories, or anywhere."""
    return [
        name
        for name in files()
        if name.suffix == suffix and (not under or any(name.is_relative_to(u) for u in under))
    ]


def text_files() -> list[Path]:
    """Return the files that people read."""
    return [name for name in files() if name.suffix in _TEXT]


def read(name: Path | str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def module(name: Path) -> str:
    """Return the dotted name of a file under ``python/``; a package's file ends in ``__init__``."""
    return ".".join(name.relative_to("python").with_suffix("").parts)
