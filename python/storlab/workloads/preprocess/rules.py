"""Checks of a preprocessing workload's parameters and raw files, and estimates of resources."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storlab.base.errors import Problem
from storlab.base.units import format_bytes_si, format_size
from storlab.contracts.registry import ENGINES
from storlab.model.study import Target
from storlab.process.host_memory import host_memory_bytes, host_memory_text
from storlab.workloads.preprocess.job import Clicks, EngineCosts
from storlab.workloads.preprocess.params import (
    GENERATED,
    LEAST_PART_BYTES,
    PreprocessParams,
    Scale,
)

ROW_BYTES = 245
"""Mean size of a raw row from the generator; real Criteo files are similar."""
PARQUET_ROW_BYTES = 170
"""Upper bound for a row in Parquet: a byte, 39 values of four, and null bitmaps."""
GROUP_BYTES = 8 << 10
"""Upper bound for the overhead of a row group: headers and statistics of 40 columns, about 6 KB."""
PART_BYTES = 8 << 10
"""Unused space in the last blocks of the two files of a part."""
NUMERICAL_BYTES = {"float16": 13 * 2, "float32": 13 * 4}
CATEGORIES = 26
CATEGORICAL_BYTES = CATEGORIES * 4
"""Upper bound for a row's ids in split binary, if all are int32."""
VOCABULARY_BYTES = CATEGORIES * 12
"""Size of one category per column: value and count."""
ROW_MEMORY_BYTES = 240
"""Memory of a row in a row group that is being written, for any implementation."""
WORKER_MEMORY_BYTES = 16 << 20
"""Memory of a worker without its row group."""
GROUP_MEMORY_BYTES = 40 << 10
"""Memory per row group of the current part beyond ``FREE_GROUPS``: places of its columns."""
FREE_GROUPS = 128
LEAST_ROW_BYTES = 40
"""Shortest row of text: a label and 39 tabs."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
"""First bytes of files with these suffixes; click logs begin with a digit."""
_HOME = "storlab-data"  # as in storlab.stores.home; removed after a study
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class RawData:
    """Size of a run's raw data; for generated data, rows and bytes are estimates."""

    rows: int
    bytes: int
    files: int
    parts: int
    own: tuple[Path, ...] = ()  # the user's own files


def needless_fields(params: PreprocessParams) -> list[str]:
    """Return the fields without effect: those of generated data, if users give input files."""
    return list(GENERATED) if params.input is not None else []


def clicks_of(params: PreprocessParams) -> Clicks | None:
    """Return the click logs to generate for a point; None if it reads the user's own files."""
    rows, files, seed = params.rows, params.files, params.data_seed
    if params.input is not None or rows is None or files is None or seed is None:
        return None
    return Clicks(rows=rows, files=files, seed=seed)


def combination_problems(
    values: list[PreprocessParams], given: set[str], engine: str | None
) -> Iterable[Problem]:
    """Check whether the parameters of a workload fit together; yield the problems.

    Args:
        values: Parameters of each point of the workload.
        given: Names of the fields that the study sets.
        engine: Engine that the study sets; None if it sets none.
    """
    if "implementation" in given and engine is not None:
        what = "selects the engine, but the study also sets engine"
        yield Problem(("implementation",), what, "remove one of the two")
    if values[0].input is not None:
        for field in GENERATED:
            if field in given:
                what = "applies to generated data, but input names files"
                yield Problem((field,), what, f"remove {field}, or remove input")
    else:
        made = [clicks for params in values if (clicks := clicks_of(params)) is not None]
        least = min(clicks.rows for clicks in made)
        if made[0].files > least:
            what = f"{made[0].files:,} files are more than the {least:,} rows"
            yield Problem(("files",), what, "increase rows, or reduce files")
    points = (
        params.model_copy(update={"implementation": implementation_of(params, engine)})
        for params in values
    )
    problem = next((reason for params in points if (reason := _memory_problem(params))), None)
    if problem is not None:
        yield problem


def scale_problems(
    values: list[PreprocessParams], given: set[str], scale: Scale, engine: str | None
) -> Iterable[Problem]:
    """Yield a problem for each field that contradicts the table ``[workload.scale]``."""
    cluster = scale.engine
    named = [params.implementation for params in values]
    if "implementation" in given and cluster not in named:
        what = f'does not include "{cluster}", to which the cluster of [workload.scale] belongs'
        yield Problem(("implementation",), what, f'add "{cluster}", or remove [workload.scale]')
    if engine not in (None, cluster):
        what = f'is "{engine}", but the cluster of [workload.scale] is for "{cluster}"'
        yield Problem(("engine",), what, "remove one of the two")
    if scale.memory is not None and "memory" in given:
        what = "conflicts with the memory per worker in [workload.scale]"
        yield Problem(("memory",), what, "remove one of the two")


def with_scale(params: PreprocessParams, scale: Scale) -> PreprocessParams:
    """Add the cluster to a point's parameters, and set ``memory`` to the total of all workers."""
    memory = params.memory
    if scale.memory is not None:
        memory = engine_costs(scale.engine).base_bytes + scale.memory * params.workers
    return params.model_copy(update={"scale": scale, "memory": memory})


def implementation_of(params: PreprocessParams, engine: str | None) -> str | None:
    """Return the implementation that does the work of a point; None if the study sets none."""
    scale = params.scale
    return params.implementation or engine or (None if scale is None else scale.engine)


def scheduler_of(params: PreprocessParams, engine: str) -> str | None:
    """Return the address of the scheduler of a point's cluster; None for this machine."""
    scale = params.scale
    return None if scale is None or scale.engine != engine else scale.scheduler


def needed_memory(params: PreprocessParams) -> int:
    """Return the least memory in bytes that all workers need.

    The native engine needs it for row groups, a data frame library for whole parts.
    """
    return max(_row_group_memory(params), _library_memory(params))


def _library_memory(params: PreprocessParams) -> int:
    """Return the memory that a data frame library needs for a part per worker; 0 without one."""
    costs = engine_costs(params.implementation)
    if not costs.base_bytes:
        return 0
    workers, part = int(params.workers), int(params.part_size)
    return costs.base_bytes + workers * (costs.worker_bytes + WORKER_MEMORY_BYTES + part)


def engine_costs(engine: str | None) -> EngineCosts:
    """Return the CPU time and memory that an engine declares; by default those of native."""
    costs = getattr(ENGINES.get(engine or ""), "costs", None)
    return costs if isinstance(costs, EngineCosts) else EngineCosts()


def _row_group_memory(params: PreprocessParams) -> int:
    rows: int = params.row_group_rows
    groups = max(0, (params.part_size // LEAST_ROW_BYTES + 1) // rows - FREE_GROUPS)
    worker_bytes: int = ROW_MEMORY_BYTES * rows + WORKER_MEMORY_BYTES + GROUP_MEMORY_BYTES * groups
    return worker_bytes * int(params.workers)


def _memory_problem(params: PreprocessParams) -> Problem | None:
    needed, memory = _row_group_memory(params), params.memory
    if needed <= memory:
        return _library_problem(params)
    what = (
        f"{format_size(memory)} is too small for a row group of {params.row_group_rows:,} rows "
        f"for {_whose(params)} {format_bytes_si(needed)}"
    )
    fix = "increase memory, or reduce row_group_rows or workers"
    if _row_group_memory(params.model_copy(update={"part_size": LEAST_ROW_BYTES})) <= memory:
        what = f"{what} with all row groups of a part of {format_size(params.part_size)}"
        fix = "make row_group_rows or memory larger, or part_size or workers smaller"
    return Problem(("memory",), what, fix)


def _library_problem(params: PreprocessParams) -> Problem | None:
    needed, memory = _library_memory(params), params.memory
    if needed <= memory:
        return None
    what = (
        f"{format_size(memory)} is too small for {params.implementation} and a part of "
        f"{format_size(params.part_size)} for {_whose(params)} {format_bytes_si(needed)}"
    )
    scale = params.scale
    field = ("memory",) if scale is None or scale.memory is None else ("scale", "memory")
    return Problem(field, what, "increase memory, or reduce part_size or workers")


def _whose(params: PreprocessParams) -> str:
    workers = params.workers
    if workers == 1:
        return "the worker, which needs"
    return f"each of {workers:,} workers, which need"


def target_problem(params: PreprocessParams, target: Target) -> Problem | None:
    """Return the problem that prevents a point from running on a target, such as missing files."""
    if params.input is None:
        return None
    try:
        input_files(params.input, Path(target.directory or "."))
    except InputError as error:
        return Problem(("input",), error.what, error.fix)
    except ValueError as error:  # invalid pattern for this version of Python
        return Problem(("input",), str(error))
    return None


class InputError(ValueError):
    """Error for raw files that cannot be used, with a fix."""

    def __init__(self, what: str, fix: str) -> None:
        self.what = what
        self.fix = fix
        super().__init__(f"{what}; {fix}")


def input_files(patterns: list[str], directory: Path) -> list[Path]:
    """Return the absolute paths of the raw files that match patterns, without duplicates.

    They are in the order of patterns. Files of one pattern are sorted by name, with ``day_2``
    before ``day_10``.

    Raises:
        InputError: A pattern matches no file, or a file cannot be used.
    """
    root = Path(os.path.realpath(directory))
    files: dict[Path, None] = {}
    for pattern in patterns:
        for file in _matches(pattern, root):
            files.setdefault(_checked(file, root), None)
    if not files:
        raise InputError("is an empty list", "list the day files, or remove it to generate data")
    return list(files)


def _matches(pattern: str, root: Path) -> list[Path]:
    inside = Path(pattern)
    if inside.is_absolute() or ".." in inside.parts:
        what = f'"{pattern}" is not a path inside of the target\'s directory'
        raise InputError(what, f"make it relative to {root}, without ..")
    if not inside.parts:
        raise InputError(f'"{pattern}" names no file', 'write for example "day_*"')
    if not any(character in pattern for character in "*?["):
        matches = [root / inside] if os.path.lexists(root / inside) else []
    else:
        paths = [path for path in root.glob(pattern) if path.name != _HOME]
        home = root / _HOME  # ``**`` matches its files too
        matches = [path for path in paths if not path.is_relative_to(home)] or paths
    if not matches:
        what = f'"{pattern}" matches no file in {root}'
        raise InputError(what, "correct the pattern, or put the files there")
    return sorted(matches, key=natural_key)


def _checked(file: Path, root: Path) -> Path:
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(root):
        what = f"{file} is a link to a file outside of {root}"
        raise InputError(what, "copy the file into that directory, or name another one")
    if not real.is_file():
        raise InputError(f"{file} is not a regular file", "list regular files only")
    if real.is_relative_to(root / _HOME):
        what = f"{file} is in {_HOME}, where storlab deletes files after a study"
        raise InputError(what, "move it to another directory")
    if real.suffix in COMPRESSED:
        raise InputError(f"{file} is compressed", "decompress it first")
    return real


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed, by suffix or first bytes.

    Raises:
        OSError: The file cannot be read.
    """
    if path.suffix in COMPRESSED:
        return True
    with path.open("rb") as file:
        return file.read(max(map(len, _PACKED))).startswith(_PACKED)


def natural_key(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Return a sort key that puts ``day_2`` before ``day_10``."""
    texts_and_numbers = enumerate(_DIGITS.split(str(path)))  # alternating, texts first
    pieces = [(int(piece), "") if at % 2 else (0, piece) for at, piece in texts_and_numbers]
    return pieces, str(path)


def raw_data(params: PreprocessParams, target: Target) -> RawData:
    """Return the size of a point's raw data; raise ValueError if its files do not exist."""
    part: int = params.part_size
    files: list[Path] = []
    if (clicks := clicks_of(params)) is not None:
        share, more = divmod(clicks.rows, clicks.files)
        sizes = [ROW_BYTES * (share + (n < more)) for n in range(clicks.files)]
    else:
        files = input_files(params.input or [], Path(target.directory or "."))
        sizes = [file.stat().st_size for file in files]
    size = sum(sizes)
    rows = params.rows or max(1, size // ROW_BYTES)
    parts = sum(-(-rows // part) for rows in sizes)
    return RawData(rows, size, len(sizes), parts, tuple(files))


def written_bytes(params: PreprocessParams, data: RawData) -> int:
    """Return an upper limit for the bytes that a run writes, in all three formats."""
    # one more row group per part, as the last one of a part is not full
    groups = data.parts + data.rows // params.row_group_rows
    binary = 1 + NUMERICAL_BYTES[params.numerical] + CATEGORICAL_BYTES
    vocabulary: int = VOCABULARY_BYTES // max(1, params.threshold)
    by_row = PARQUET_ROW_BYTES + vocabulary + binary
    return data.rows * by_row + data.parts * PART_BYTES + groups * GROUP_BYTES


def least_binary_bytes(params: PreprocessParams, rows: int) -> int:
    """Return a lower limit for the size of split binary in bytes: one byte per id."""
    return rows * (1 + NUMERICAL_BYTES[params.numerical] + CATEGORIES)


def duration_ns(params: PreprocessParams, size: int, engine: str) -> int:
    """Estimate the duration of a run that is limited by CPU, at an assumed rate per core."""
    at_once: int = params.workers
    if scheduler_of(params, engine) is None:
        at_once = min(at_once, usable_cores())
    costs = engine_costs(engine)
    return round(size * costs.cpu_ns_per_byte / at_once) + costs.start_ns


def usable_cores() -> int:
    """Return the number of cores of this machine that this process may use."""
    return len(os.sched_getaffinity(0))


def cautions(params: PreprocessParams, data: RawData, engine: str) -> tuple[str, ...]:
    """Return warnings before a run, such as more workers than cores, or too much memory."""
    texts, workers = [], params.workers
    if not data.bytes:
        texts.append("input: the raw files are empty, so runs would fail; name other files")
    elif data.parts < workers:
        helps = data.bytes > data.parts * LEAST_PART_BYTES
        texts.append(
            f"{'part_size' if helps else 'workers'}: {format_bytes_si(data.bytes)} in parts of "
            f"{format_size(params.part_size)} give {data.parts:,} of {workers:,} workers "
            f"something to ingest; {'make it smaller' if helps else 'use fewer'}"
        )
    if scheduler_of(params, engine) is not None:
        return tuple(texts)
    if workers > usable_cores():
        texts.append(
            f"workers: {workers:,} workers share the {usable_cores():,} cores that storlab may "
            "use on this machine"
        )
    if params.memory > host_memory_bytes():
        texts.append(f"memory: {format_size(params.memory)} is more than the {host_memory_text()}")
    return tuple(texts)
