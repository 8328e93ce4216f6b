"""Create a workload family from a template: ``make family NAME=kvcache``.

The template is a complete family that does a fixed amount of work with the native engine; tests
build and run it. The new name replaces ``example`` in its files and paths, and the new family is
registered in the files that list families.
"""

from __future__ import annotations

import keyword
import re
import sys
from contextlib import ExitStack
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
# File that lists families, the line to insert after, and the line to insert.
REGISTRATIONS = (
    (
        "pyproject.toml",
        '[project.entry-points."storlab.families"]\n',
        'example = "storlab.workloads.example.family:ExampleWorkload"\n',
    ),
    (
        "crates/py/Cargo.toml",
        'storlab-block = { path = "../families/block" }\n',
        'storlab-example = { path = "../families/example" }\n',
    ),
    (
        "crates/py/src/families.rs",
        "const FAMILIES: &[(&str, Start)] = &[\n",
        '    ("example", storlab_example::start),\n',
    ),
    ("mkdocs.yml", "      - gpudirect.md\n", "      - example.md\n"),
    ("mkdocs.yml", "      - method/gpudirect.md\n", "      - method/example.md\n"),
)


def renamed(text: str, name: str) -> str:
    """Replace ``example`` by a family's name in a text, in lower, title and upper case."""
    for old, new in (("example", name), ("Example", name.title()), ("EXAMPLE", name.upper())):
        text = text.replace(old, new)
    return text


def contents(root: Path, name: str) -> dict[Path, str]:
    """Return the text of each new file, and the new text of each file that lists families.

    Raises:
        ValueError: The name is not a lower-case identifier, or a file of that name exists.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*", name) or keyword.iskeyword(name):
        raise ValueError(
            f"NAME={name}: use lower-case letters and digits only, and no Python keyword"
        )
    new = {}
    for source, place in PLACES.items():
        files = (root / source).rglob("*.*") if (root / source).is_dir() else [root / source]
        for file in files:
            if file.suffix != ".pyc":
                inner = "" if file == root / source else file.relative_to(root / source)
                new[root / renamed(place, name) / inner] = renamed(file.read_text("utf-8"), name)
    places = [root / renamed(place, name) for place in PLACES.values()]
    for taken in (*places, root / "crates" / name, *new):
        if taken.exists():
            raise ValueError(f"NAME={name}: {taken.relative_to(root)} exists; choose another name")
    for file_name, before, line in REGISTRATIONS:
        file = root / file_name
        head, found, tail = new.get(file, file.read_text("utf-8")).partition(before)
        if not found:
            raise ValueError(f"{file_name}: the line {before!r} is missing, after which to insert")
        new[file] = head + found + renamed(line, name) + tail
    return new


def create(root: Path, name: str) -> list[Path]:
    """Copy the template and register the family; return the files that were written.

    Raises:
        ValueError: The name is not a lower-case identifier, or a file of that name exists.
        OSError: A file cannot be written. No file is changed in this case.
    """
    files = contents(root, name)
    with ExitStack() as undo:
        for file, text in files.items():
            for parent in reversed([p for p in file.parents if not p.exists()]):
                parent.mkdir()
                undo.callback(parent.rmdir)
            if file.exists():
                undo.callback(file.write_text, file.read_text("utf-8"), "utf-8")
            else:
                undo.callback(file.unlink, missing_ok=True)
            file.write_text(text, "utf-8")
        undo.pop_all()
    return list(files)


if __name__ == "__main__":
    try:
        print("\n".join(str(path.relative_to(ROOT)) for path in create(ROOT, *sys.argv[1:])))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
