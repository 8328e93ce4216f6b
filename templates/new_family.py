"""Create a workload family from the template: ``make family NAME=kvcache``.

The template is a complete family of fixed work on the native engine, which tests build and run. Its
name ``example`` is replaced in files and paths, and the new family is registered.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEMPLATE = Path("templates/family")
END_TO_END = Path("tests/integration/example/test_example_end_to_end.py")
PLACES = {
    TEMPLATE / "example": "python/storlab/workloads/example",
    TEMPLATE / "crate": "crates/families/example",
    TEMPLATE / "study.toml": "studies/example.toml",
    TEMPLATE / "page.markdown": "docs/example.md",
    TEMPLATE / "method.markdown": "docs/method/example.md",
    END_TO_END: str(END_TO_END),
}
REGISTRATIONS = {
    "pyproject.toml": (
        '[project.entry-points."storlab.families"]\n',
        'example = "storlab.workloads.example.family:ExampleWorkload"\n',
    ),
    "crates/py/Cargo.toml": (
        "[dependencies]\n",
        'storlab-example = { path = "../families/example" }\n',
    ),
    "crates/py/src/families.rs": (
        "const FAMILIES: &[(&str, Start)] = &[\n",
        '    ("example", storlab_example::start),\n',
    ),
    "mkdocs.yml": ("  - Kinds of work:\n", "      - example.md\n"),
}


def renamed(text: str, name: str) -> str:
    """Replace the template's name in all of its spellings."""
    for old, new in (("example", name), ("Example", name.title()), ("EXAMPLE", name.upper())):
        text = text.replace(old, new)
    return text


def create(root: Path, name: str) -> list[Path]:
    """Copy the template and register the family; return the files that were written.

    Raises:
        ValueError: The name is not lower-case letters and digits, or is taken.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*", name):
        raise ValueError(f"NAME={name}: a family's name is lower-case letters and digits")
    if (root / "python/storlab/workloads" / name).exists():
        raise ValueError(f"NAME={name}: there is a family of that name")
    written = []
    for source, place in PLACES.items():
        files = (root / source).rglob("*.*") if (root / source).is_dir() else [root / source]
        for file in files:
            if file.suffix == ".pyc":
                continue
            inner = "" if file == root / source else file.relative_to(root / source)
            target = root / renamed(place, name) / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(renamed(file.read_text("utf-8"), name), "utf-8")
            written.append(target)
    for file_name, (before, line) in REGISTRATIONS.items():
        file = root / file_name
        head, found, tail = file.read_text("utf-8").partition(before)
        if not found:
            raise ValueError(f"{file_name} has no line {before!r} to register the family after")
        file.write_text(head + found + renamed(line, name) + tail, "utf-8")
        written.append(file)
    return written


if __name__ == "__main__":
    try:
        print("\n".join(str(path.relative_to(ROOT)) for path in create(ROOT, *sys.argv[1:])))
    except ValueError as error:
        sys.exit(str(error))
