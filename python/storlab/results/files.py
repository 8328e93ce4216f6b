"""Read the files of a result directory as plain JSON; fast, because it imports no pydantic models.

A file that cannot be used raises a ResultError that names it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError, UsageError
from storlab.base.files import (
    directory_problem,
    parse_json,
    read_advice,
    read_input,
    shell_word,
    write_advice,
)

SCHEMA_VERSION = 1
"""Format version of result.json, environment.json, plan.json and run.json."""
GIVE_RESULT = "give the directory that `storlab run` printed"
"""Fix in errors about a path that is not a result directory."""
OWN_NAMES = frozenset(
    {
        *("result.json", "study.toml", "plan.json", "environment.json", "capacity.json"),
        *("campaign.lock", "runs", "prepare", "verify", "attempts", "work"),
    }
)
"""Names of files and folders in a result directory that storlab reads later."""
_HEAD_BYTES = 4096
REPLACED = ".replaced-"
"""Prefix of a stored run's folder while a new run replaces it."""


def read_result(directory: Path) -> dict[str, Any]:
    """Read ``result.json`` of a result directory.

    Raises:
        ResultError: The directory is not a result directory, is unreadable or has another format.
    """
    path = directory / "result.json"
    try:
        problem = directory_problem(directory)
        is_result = not problem and _is_there(path)
    except OSError as error:
        raise unreadable(directory, error) from error
    if problem:
        raise ResultError(str(directory), problem, GIVE_RESULT)
    if not is_result:
        raise ResultError(
            str(directory),
            "is not a result directory: result.json is missing",
            GIVE_RESULT,
        )
    result = json_object(path, read(path))
    check_version(path, result)
    return result


def _is_there(path: Path) -> bool:
    """Return whether a path exists, without following links.

    Raises:
        OSError: It is unknown, for example because a folder cannot be searched.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def is_in_result(path: Path) -> bool:
    """Return whether a path lies in a result directory; False if this user cannot find out."""
    # Path.exists would raise for a folder that this user may not search; os.path.lexists does not.
    return any(os.path.lexists(above / "result.json") for above in path.absolute().parents)


def check_output(path: Path, content: bytes) -> None:
    """Check that writing an output would not overwrite results, a study or a user's data.

    Args:
        path: Path that the user gave for the output.
        content: The output.

    Raises:
        UsageError: The path belongs to the data of a result directory, or exists and is a TOML file
            or a binary file of another format than the output.
    """
    fix = "give the path of another file"
    try:
        real = path.resolve()
        for above in real.parents:
            own = real.relative_to(above).parts[0] in OWN_NAMES
            if own and (above / "result.json").exists():
                raise UsageError(str(path), f"belongs to the results in {above}", fix)
        if not real.is_file():
            return
        if real.suffix == ".toml":
            raise UsageError(str(path), "is a TOML file, which this output would replace", fix)
        with real.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return  # writing the output will report the error
    if b"\0" in head and head[:4] != content[:4]:
        raise UsageError(str(path), "is a binary file, which this output would replace", fix)


def unreadable(path: Path, error: OSError) -> ResultError:
    """Build the error for a result directory or file that this user cannot read."""
    what = f"cannot be read: {error.strerror or error}"
    fix = "give yourself permission to read it, or use another path"
    return ResultError(str(path), what, read_advice(error, fix))


def plan_object(directory: Path) -> dict[str, Any]:
    """Read ``plan.json`` as JSON, and check only its format version."""
    path = directory / "plan.json"
    value = json_object(path, read(path))
    check_version(path, value)
    return value


def run_id_of(run: dict[str, Any]) -> str:
    """Return the id of a run in the JSON of a plan: ``<point>-r<repeat>``."""
    return f"{run['point_id']}-r{run['repeat']}"


def run_objects(directory: Path, plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``run.json`` of each stored run, in the plan's order, after verifying its checksum.

    Raises:
        ResultError: A run is damaged.
    """
    runs = directory / "runs"
    present = {entry.name: entry for entry in runs.iterdir()} if runs.is_dir() else {}
    for run in plan["runs"]:
        run_id = run_id_of(run)
        run_dir = present.get(run_id) or present.get(f"{REPLACED}{run_id}")
        if run_dir is not None:
            value = json_object(run_dir / "run.json", read_checked(run_dir, "run.json"), run_dir)
            check_version(run_dir / "run.json", value, run_dir)
            if value.get("status") not in ("finished", "failed"):
                what = "status: it is neither finished nor failed"
                raise damaged(run_dir / "run.json", what, run_dir)
            yield value


def read_checked(run_dir: Path, name: str) -> bytes:
    """Read a file of a run, and verify its checksum in the run's SHA256SUMS.

    Raises:
        ResultError: The file or the run is missing, or the checksum differs.
    """
    try:
        content = read(run_dir / name)
        listed = read(run_dir / "SHA256SUMS")
    except ResultError:
        # The reason is examined only after an error, because a campaign has thousands of runs.
        if not run_dir.is_dir():
            fix = f"to get the missing run, {again(run_dir.parent.parent)}"
            raise ResultError(str(run_dir), "is missing", fix) from None
        for needed in (name, "SHA256SUMS"):
            if not (run_dir / needed).exists():
                raise damaged(run_dir / needed, "it is missing", run_dir) from None
        raise
    sums: dict[str, str] = {}
    for line in listed.decode(errors="replace").splitlines():
        checksum, _, of_name = line.partition("  ")
        sums[of_name] = checksum
    if sums.get(name) != hashlib.sha256(content).hexdigest():
        raise damaged(run_dir / name, "its checksum differs from SHA256SUMS", run_dir)
    return content


def is_vacant(directory: Path) -> bool:
    """Return whether a directory is missing or empty, so that a campaign may start there.

    Raises:
        ResultError: The directory cannot be read.
    """
    try:
        return not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise ResultError(str(directory), what, write_advice(directory, error)) from error


def occupied(directory: Path) -> ResultError:
    """Build the error for a new campaign's result path at which something already exists."""
    if problem := directory_problem(directory):
        return ResultError(str(directory), problem, "choose another path with --out")
    if not (directory / "result.json").exists():
        what = "already exists and is not empty"
        return ResultError(str(directory), what, "choose another directory with --out")
    fix = "choose another directory with --out"
    if not is_import(directory):
        fix = f"{fix}; to continue the campaign there, {again(directory)}"
    return ResultError(str(directory), "already contains the results of a campaign", fix)


def again(directory: Path) -> str:
    """Return advice on repeating missing, damaged or failed runs of a result directory."""
    if is_import(directory):
        return "import the original files with another --out, without those of failed runs"
    place = shell_word(directory)
    if _environment(directory).get("capacity"):
        return f"run `storlab capacity STUDY --out {place}`"
    return f"run `storlab resume {place} --retry-failed`"


def is_import(directory: Path) -> bool:
    """Return whether ``storlab import`` made a result directory, so that it cannot be resumed."""
    return "imported" in _environment(directory)


def _environment(directory: Path) -> dict[str, Any]:
    """Return the environment of a result directory; empty if it cannot be read."""
    try:
        value = parse_json(read_input(directory / "environment.json"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read(path: Path) -> bytes:
    """Read a file of a result directory.

    Raises:
        ResultError: The file cannot be read.
    """
    try:
        return read_input(path)
    except OSError as error:
        raise ResultError(
            str(path),
            f"cannot be read: {error.strerror}",
            read_advice(error, "restore it from a copy, or measure again"),
        ) from error


def read_summed(path: Path, result: dict[str, Any]) -> bytes:
    """Read a file of a result directory, and verify its checksum in ``result.json``.

    Args:
        path: Path of the file.
        result: Content of ``result.json``.

    Raises:
        ResultError: The file cannot be read, or its checksum differs.
    """
    content = read(path)
    if result.get("sha256", {}).get(path.name) != hashlib.sha256(content).hexdigest():
        raise damaged(path, "its checksum differs from result.json")
    return content


def json_object(path: Path, content: bytes, run_dir: Path | None = None) -> dict[str, Any]:
    """Parse a JSON file that must contain an object.

    Args:
        path: Path of the file, for messages.
        content: Content of the file.
        run_dir: Folder of the run to which the file belongs; None for files of the campaign.

    Raises:
        ResultError: The content is not a JSON object.
    """
    try:
        value: Any = parse_json(content)
    except ValueError as error:
        raise damaged(path, f"it is not JSON ({error})", run_dir) from error
    if not isinstance(value, dict):
        raise damaged(path, "it is not a JSON object", run_dir)
    return value


def check_version(path: Path, value: dict[str, Any], run_dir: Path | None = None) -> None:
    """Check that a JSON file of a result directory has this version's format.

    Args:
        path: Path of the file, for messages.
        value: Content of the file.
        run_dir: Folder of the run to which the file belongs; None for files of the campaign.

    Raises:
        ResultError: The file has another format version, or none.
    """
    version = value.get("schema_version")
    if not isinstance(version, int):
        raise damaged(path, "schema_version: it is missing or not a number", run_dir)
    if version != SCHEMA_VERSION:
        raise ResultError(
            str(path),
            f"has format version {version}, but this storlab only reads version {SCHEMA_VERSION}",
            "read it with the storlab version that wrote it",
        )


def damaged(path: Path, why: str, run_dir: Path | None = None) -> ResultError:
    """Build the error for a damaged file of a result directory.

    Args:
        path: Path of the file.
        why: What is wrong with the file.
        run_dir: Folder of the run to which the file belongs, and which can be measured again; None
            for files of the whole campaign.
    """
    fix = "restore it from a copy"
    if run_dir is not None:
        fix = again(run_dir.parent.parent)
        if not is_import(run_dir.parent.parent):
            fix = f"delete {run_dir}, then {fix}"
    return ResultError(str(path), f"is damaged: {why}", fix)
