"""Directory trees of DLIO's results: locations of runs, and meanings of directory names.

- DLIO: ``hydra_log/<model>/<time>/``
- MLPerf Storage v0.5: ``<division>/<submitter>/results/<system>/<model>/run<n>/<host>/``, in which
  each host ran its own DLIO
- v1.0: ``<division>/<submitter>/results/<system>/<model>-<accelerator>/run<n>/``, with variations
- since v2.0: ``<division>/<submitter>/results/<system>/training/<model>/run/<time>/`` and
  ``.../checkpointing/<model>/<time>/``; ``datagen`` and ``datasize`` beside ``run`` contain no
  measurements
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

SUMMARY = "summary.json"
UNNAMED = "imported"
_DIVISIONS = ("closed", "open")
_BENCHMARKS = ("training", "checkpointing")
_UNMEASURED = {"datagen", "datasize"}
_STAMP = re.compile(r"\d{8}_\d{6}|\d{4}-\d\d-\d\d[-_T]\d\d-\d\d-\d\d")
_NUMBERED = re.compile(r"(?:.*[-_.])?run[-_.]?\d+", re.IGNORECASE)
_GENERIC_NAMES = {"run", "runs", "results", "result", "output", "hydra_log"}


def run_directories(place: Path) -> list[Path]:
    """Return the run directories at or below a path, sorted by path.

    A run of MLPerf Storage v0.5 is the directory that contains those of its hosts.
    """
    found = sorted(
        path.parent
        for path in place.rglob(SUMMARY)
        if not _UNMEASURED.intersection(path.relative_to(place).parts)
    )
    beside: dict[Path, list[Path]] = {}
    for directory in found:
        beside.setdefault(directory.parent, []).append(directory)
    runs: list[Path] = []
    for parent, children in beside.items():
        runs += [parent] if _is_of_hosts(parent, children) and parent != place.parent else children
    return runs


def host_directories(directory: Path) -> list[Path]:
    """Return the directories of a run's hosts; empty if the run directory has its own results."""
    if (directory / SUMMARY).is_file():
        return []
    return sorted(path.parent for path in directory.glob(f"*/{SUMMARY}"))


def _is_of_hosts(parent: Path, children: Sequence[Path]) -> bool:
    return (
        len(children) > 1
        and bool(_NUMBERED.fullmatch(parent.name))
        and not any(_is_run(child.name) for child in children)
    )


def _is_run(name: str) -> bool:
    return bool(_STAMP.fullmatch(name) or _NUMBERED.fullmatch(name))


def is_warm_up(directory: Path) -> bool:
    """Return whether a run is the first of six, which MLPerf Storage v3.0 counts as a warm-up."""
    place = directory.absolute()
    if place.parent.name != "run" or not _STAMP.fullmatch(place.name):
        return False
    runs = sorted(path.parent.name for path in place.parent.glob(f"*/{SUMMARY}"))
    return len(runs) == 6 and runs[0] == place.name


def target_name(directory: Path, model: str | None) -> str:
    """Return the name of the measured system; all runs of a system have the same name.

    In a submission to MLPerf, the name consists of submitter and system. Otherwise it is the name
    of the run directory or, if that is only a number or a date, of the closest parent directory
    whose name is neither a number, nor a date, nor the model.
    """
    parts = directory.absolute().parts
    for index, part in enumerate(parts[:-2]):
        around = [name for name in parts[max(0, index - 2) : index] if name]
        owners = [name for name in around if name.lower() not in _DIVISIONS]
        if part == "results" and len(owners) == 1 and len(around) == 2:
            return f"{owners[0]} {parts[index + 1]}"
    if _STAMP.fullmatch(parts[-1]):
        for index in range(len(parts) - 2, 0, -1):
            if parts[index] in _BENCHMARKS:
                above = parts[index - 1]
                return UNNAMED if above.lower() in _GENERIC_NAMES else above
    if not _is_run(parts[-1]):
        return parts[-1] or UNNAMED
    stem = re.match(r"[a-z]+", (model or "").lower())
    passed = tuple([stem[0]] if stem else [])
    for part in reversed(parts[1:-1]):
        if not (_is_run(part) or part.lower() in _GENERIC_NAMES or part.lower().startswith(passed)):
            return part
    return UNNAMED


def model_name(directory: Path) -> str | None:
    """Return the model named by a directory of ``mlpstorage``'s result tree; None elsewhere."""
    parts = directory.absolute().parts
    if not _STAMP.fullmatch(parts[-1]):
        return None
    for index in range(len(parts) - 2, 0, -1):
        if parts[index] in _BENCHMARKS:
            return parts[index + 1]
    return None
