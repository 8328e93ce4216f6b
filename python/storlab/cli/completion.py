"""Shell completion of studies, results, targets and metrics.

Each function returns completions. If there are none, the shell completes file names. Files that
cannot be read are skipped, as a shell cannot show errors. Every command imports this module, so it
must not import slow modules at module level.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import typer

# Shells evaluate completions, and names may come from files of other people. So names with quotes,
# dollar signs, backticks, brackets, control characters or a leading dash are not completed.
_PLAIN = re.compile(r"(?!-)[\w./@%+,: -]+")
_MOST_ENTRIES = 500  # of a directory; limits the time the user waits
_HEAD_BYTES = 64 * 1024  # start of a TOML file that is searched for a [study] table


def studies(incomplete: str) -> list[str]:
    """Complete paths of study files in the typed directory and its subdirectories."""
    return _offered(place for place in _near(incomplete) if _is_study(Path(place)))


def results(incomplete: str) -> list[str]:
    """Complete paths of result directories in the typed directory and its subdirectories."""
    return _offered(p for p in _near(incomplete) if Path(p, "result.json").is_file())


def result_folders(incomplete: str) -> list[str]:
    """Complete paths of result directories, and of folders that directly contain some."""
    near = list(_near(incomplete))
    directories = {place for place in near if Path(place, "result.json").is_file()}
    folders = {place.rpartition("/")[0] for place in directories}
    return _offered(place for place in near if place in directories | folders)


def baselines(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of baselines that ``gate --save`` stored, and paths of result directories."""
    given = _given(ctx).absolute()
    saved = [Path(name) for name in _entries(given.parent / "baselines")]
    near = (p for p in _near(incomplete) if Path(p, "result.json").is_file())
    others = (place for place in near if Path(place).absolute() != given)
    return _offered([*(p.stem for p in saved if p.suffix == ".json"), *others])


def targets(ctx: typer.Context) -> list[str]:
    """Complete the names of the targets in the study on the command line."""
    import tomllib

    return _offered(_names(_read(_given(ctx), tomllib.load), "target"))


def runs(ctx: typer.Context) -> list[str]:
    """Complete the run ids in the result directory on the command line."""
    return _offered(_entries(_given(ctx) / "runs"))


def metrics(ctx: typer.Context) -> list[str]:
    """Complete the names of metrics: those of the first finished run that tables can show."""
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
    """Complete names of published tables, and paths of result directories."""
    from storlab.model.published import published_names

    return [*published_names(), *results(incomplete)]


def among(place: str) -> Callable[[], list[str]]:
    """Return a function that completes names from a collection, given as ``module:name``.

    The module is imported only when the function is called.
    """

    def names() -> list[str]:
        from storlab.contracts.hook import load

        collection = load(place)
        return _offered(collection() if callable(collection) else collection)

    return names


def _offered(names: Iterable[object]) -> list[str]:
    """Return names without duplicates and unsafe ones; for bash, those with spaces are quoted."""
    plain = dict.fromkeys(n for n in names if isinstance(n, str) and _PLAIN.fullmatch(n))
    # shells other than bash add quotes themselves
    in_bash = os.environ.get("_STORLAB_COMPLETE") == "complete_bash"
    return [name.replace(" ", "\\ ") if in_bash else name for name in plain]


def _near(incomplete: str) -> Iterator[str]:
    """Yield paths that begin with the typed text; after a directory also the paths in it."""
    head, slash, begun = incomplete.rpartition("/")
    for name in _entries(Path(head + slash)):
        if name.startswith(begun) and (begun or not name.startswith(".")):
            place = f"{head}{slash}{name}"
            yield place
            yield from (f"{place}/{inner}" for inner in _entries(Path(place)))


def _entries(folder: Path) -> list[str]:
    """Return the sorted names in a directory; empty if it cannot be read."""
    try:
        return sorted(entry.name for entry in islice(folder.iterdir(), _MOST_ENTRIES))
    except OSError:
        return []


def _given(ctx: typer.Context) -> Path:
    """Return the command's first argument as a path, even if Typer has not parsed it yet."""
    first = next(p.name for p in ctx.command.params if p.param_type_name == "argument")
    value = ctx.params.get(first or "") or (ctx.args or [""])[0]
    return Path(value[0] if isinstance(value, (list, tuple)) else value)


def _is_study(path: Path) -> bool:
    if path.suffix != ".toml" or not path.is_file():  # opening a pipe would wait for its writer
        return False
    try:
        with path.open("rb") as file:
            return re.search(rb"(?m)^\s*\[study\]", file.read(_HEAD_BYTES)) is not None
    except OSError:
        return False


def _read(path: Path, load: Callable[[Any], Any]) -> Any:
    """Parse a file with ``load`` and return the result; None if that fails."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return load(file)
    except (OSError, ValueError):
        return None


def _names(document: Any, key: str) -> list[object]:
    """Return the ``name`` of each table in a list of tables; empty if ``key`` is no such list."""
    tables_of_it = document.get(key) if isinstance(document, dict) else None
    items = tables_of_it if isinstance(tables_of_it, list) else []
    return [item.get("name") for item in items if isinstance(item, dict)]
