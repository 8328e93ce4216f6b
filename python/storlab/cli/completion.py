"""What a shell completes: names of studies, results, targets and metrics near what was typed.

Each function takes what was typed so far. Nothing is offered where nothing fits, so that the shell
goes on to file names; files that cannot be read are passed over, since a shell has no place for
errors. Only what costs nothing to import is imported here: every verb imports this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import typer

# Names come from files of others, and shells evaluate what they are offered: no quotes, dollars,
# backticks, brackets or control characters, and nothing that reads as an option.
_PLAIN = re.compile(r"(?!-)[\w./@%+,: -]+")
_MOST_ENTRIES = 500  # of a directory: somebody waits for the answer
_HEAD_BYTES = 64 * 1024  # of a TOML file, in which the head of a study stands


def studies(incomplete: str) -> list[str]:
    """Study files in the directory that is being typed, and in the directories in it."""
    return _offered(place for place in _near(incomplete) if _is_study(Path(place)))


def results(incomplete: str) -> list[str]:
    """Result directories there."""
    return _offered(p for p in _near(incomplete) if Path(p, "result.json").is_file())


def result_folders(incomplete: str) -> list[str]:
    """Result directories there, and folders that hold some directly."""
    near = list(_near(incomplete))
    directories = {place for place in near if Path(place, "result.json").is_file()}
    folders = {place.rpartition("/")[0] for place in directories}
    return _offered(place for place in near if place in directories | folders)


def baselines(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names that ``gate --save`` gave beside the results, and other result directories."""
    given = _given(ctx).absolute()
    saved = [Path(name) for name in _entries(given.parent / "baselines")]
    near = (p for p in _near(incomplete) if Path(p, "result.json").is_file())
    others = (place for place in near if Path(place).absolute() != given)
    return _offered([*(p.stem for p in saved if p.suffix == ".json"), *others])


def targets(ctx: typer.Context) -> list[str]:
    """Names of the targets of the study that was given."""
    import tomllib

    return _offered(_names(_read(_given(ctx), tomllib.load), "target"))


def runs(ctx: typer.Context) -> list[str]:
    """Ids of the runs of the result directory that was given."""
    return _offered(_entries(_given(ctx) / "runs"))


def metrics(ctx: typer.Context) -> list[str]:
    """What the first finished run of the given result directory has, of what tables show."""
    import json

    from storlab.analysis.columns import columns_of
    from storlab.contracts.registry import FAMILIES

    places = _given(ctx) / "runs"
    for run in (_read(places / name / "run.json", json.load) for name in _entries(places)):
        measured = _names(run, "metrics")
        if measured and run.get("kind") in FAMILIES:
            shown = {column.name for column in columns_of(FAMILIES[run["kind"]].page)}
            return _offered(name for name in measured if name in shown)
    return []


def tables(incomplete: str) -> list[str]:
    """Published tables, and result directories."""
    from storlab.model.published import published_names

    return [*published_names(), *results(incomplete)]


def among(place: str) -> Callable[[], list[str]]:
    """What gives the names in a collection, ``module:name``, which is imported only then."""

    def names() -> list[str]:
        from storlab.contracts.hook import load

        collection = load(place)
        return _offered(collection() if callable(collection) else collection)

    return names


def _offered(names: Iterable[object]) -> list[str]:
    """Each once, in order, as the shell that asks takes it."""
    plain = dict.fromkeys(n for n in names if isinstance(n, str) and _PLAIN.fullmatch(n))
    in_bash = os.environ.get("_STORLAB_COMPLETE") == "complete_bash"  # others quote by themselves
    return [name.replace(" ", "\\ ") if in_bash else name for name in plain]


def _near(incomplete: str) -> Iterator[str]:
    """Paths that go on with what was typed, and what lies in those that are directories."""
    head, slash, begun = incomplete.rpartition("/")
    for name in _entries(Path(head + slash)):
        if name.startswith(begun) and (begun or not name.startswith(".")):
            place = f"{head}{slash}{name}"
            yield place
            yield from (f"{place}/{inner}" for inner in _entries(Path(place)))


def _entries(folder: Path) -> list[str]:
    """Names in a directory, sorted; none where there is no directory that may be read."""
    try:
        return sorted(entry.name for entry in islice(folder.iterdir(), _MOST_ENTRIES))
    except OSError:
        return []


def _given(ctx: typer.Context) -> Path:
    """The first argument of the verb. Before an option without its value none is parsed yet."""
    first = next(p.name for p in ctx.command.params if p.param_type_name == "argument")
    value = ctx.params.get(first or "") or (ctx.args or [""])[0]
    return Path(value[0] if isinstance(value, (list, tuple)) else value)


def _is_study(path: Path) -> bool:
    if path.suffix != ".toml" or not path.is_file():  # a pipe would wait for its writer
        return False
    try:
        with path.open("rb") as file:
            return re.search(rb"(?m)^\s*\[study\]", file.read(_HEAD_BYTES)) is not None
    except OSError:
        return False


def _read(path: Path, load: Callable[[Any], Any]) -> Any:
    """What a file holds; None for one that is none."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return load(file)
    except (OSError, ValueError):
        return None


def _names(document: Any, key: str) -> list[object]:
    """Of the tables below that key, if it is what it should be."""
    tables_of_it = document.get(key) if isinstance(document, dict) else None
    items = tables_of_it if isinstance(tables_of_it, list) else []
    return [item.get("name") for item in items if isinstance(item, dict)]
