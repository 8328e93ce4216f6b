"""Save and open named baselines: earlier results with which new ones are compared.

A baseline is a small file beside a result directory that refers to it and is not a copy. So the
result directory must stay in its place, unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from storlab.base.clock import utc_now_iso
from storlab.base.errors import ResultError, UsageError
from storlab.base.files import parse_json, read_input, write_output
from storlab.results.files import again
from storlab.results.store import ResultStore

FOLDER = "baselines"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def saved_before(beside: Path, name: str) -> Path | None:
    """Return the file of the baseline that ``save_baseline`` would replace; None if there is none.

    Args:
        beside: Result directory beside which baselines are saved.
        name: Name of the baseline.
    """
    path = _file_of(beside, name)
    return path if path.exists() else None


def _file_of(beside: Path, name: str) -> Path:
    return beside.absolute().parent / FOLDER / f"{name}.json"


def save_baseline(store: ResultStore, name: str) -> Path:
    """Save a result directory as a named baseline, replacing an earlier one with the same name.

    Args:
        store: Results to use as the baseline.
        name: Name of the baseline.

    Raises:
        UsageError: The name is invalid, a run of the results failed, or the file cannot be written.
    """
    check_name(name)
    records = store.records()
    failed = [record.run_id for record in records if record.status == "failed"]
    if failed:
        what = f"{len(failed)} of {len(records)} runs failed, the first of them {failed[0]}"
        fix = f"to repeat them, {again(store.directory)}"
        raise UsageError("--save", what, fix)
    folder = store.directory.parent / FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        what = f"cannot be created: {error.strerror}"
        fix = "make the parent folder of the results writable, because baselines are stored there"
        raise UsageError(str(folder), what, fix) from None
    told = {
        "schema_version": 1,
        "directory": os.path.relpath(store.directory, folder),
        "study": store.study.study.name,
        "saved_at": utc_now_iso(),
        "runs_sha256": _digest(store.directory),
    }
    path = folder / f"{name}.json"
    write_output(path, (json.dumps(told, indent=2) + "\n").encode())
    return path


def check_name(name: str) -> None:
    """Check that a text is a valid name of a baseline.

    Raises:
        UsageError: It is not.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            "--save",
            f'"{name}" is not a valid name of a baseline',
            "use letters, digits, dots, dashes and underscores",
        )


def open_baseline(name: str, beside: Path) -> ResultStore:
    """Open the results of a baseline.

    Args:
        name: Name of a saved baseline, or path of a result directory.
        beside: Result directory beside which baselines are saved.

    Raises:
        ResultError: The baseline does not exist, or its results changed since it was saved.
    """
    if Path(name).is_dir():
        return ResultStore.open(Path(name))
    path = _file_of(beside, name)
    try:
        told = parse_json(read_input(path))
        directory = (path.parent / told["directory"]).resolve()
        digest = told["runs_sha256"]
    except FileNotFoundError:
        saved = sorted(file.stem for file in path.parent.glob("*.json"))
        fixes = [f"use one of {', '.join(saved)}"] if saved else []
        if _NAME.fullmatch(name) is not None:
            fixes.append(f"save it with `storlab gate RESULTS --save {name}`")
        raise ResultError(
            name,
            "is neither a result directory nor a saved baseline",
            ", or ".join(fixes) or "give a result directory, or a name stored with --save",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(
            str(path), f"cannot be read: {error}", "save the baseline again"
        ) from None
    store = ResultStore.open(directory)
    if _digest(directory) != digest:
        what = f"its runs have changed since it was saved as baseline {name}"
        fix = f"save these or other results with `storlab gate RESULTS --save {name}`"
        raise ResultError(str(directory), what, fix)
    return store


def _digest(directory: Path) -> str:
    """Return a hash of all runs' records, which contain the checksums of the samples."""
    whole = hashlib.sha256()
    for path in sorted((directory / "runs").glob("*/run.json")):
        whole.update(path.parent.name.encode() + b"\0" + read_input(path))
    return whole.hexdigest()
