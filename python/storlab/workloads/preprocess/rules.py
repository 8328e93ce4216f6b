"""Which values of preprocessing go together, which raw files a point reads, and what it costs."""

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
"""Of a raw row, mean of the generator's; real Criteo files have about as many."""
PARQUET_ROW_BYTES = 170
"""Most of a row in Parquet: a byte, 39 values of four, and what says which are missing."""
GROUP_BYTES = 8 << 10
"""Most that a row group has beside its rows: headers and statistics of 40 columns, about 6 KB."""
PART_BYTES = 8 << 10
"""Of the two files of a part, the rest of their last blocks."""
NUMERICAL_BYTES = {"float16": 13 * 2, "float32": 13 * 4}
CATEGORIES = 26
CATEGORICAL_BYTES = CATEGORIES * 4
"""Most of a row's ids in split binary: all int32."""
VOCABULARY_BYTES = CATEGORIES * 12
"""Of a category of every column: its value and its count."""
ROW_MEMORY_BYTES = 240
"""Of a row in a row group that is being written, whatever the implementation."""
WORKER_MEMORY_BYTES = 16 << 20
"""What a worker takes beside its row group."""
GROUP_MEMORY_BYTES = 40 << 10
"""Of a row group of the part that it is at: where its columns lie, beyond the first ones."""
FREE_GROUPS = 128
LEAST_ROW_BYTES = 40
"""Of text: a label and 39 tabs."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
"""What files begin with that have these suffixes. Click logs begin with a digit."""
_HOME = "storlab-data"  # below a directory, as storlab.stores.home says: cleaned up after a study
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class RawData:
    """What a run reads: rows and bytes (about, where it is not made yet), in so many parts."""

    rows: int
    bytes: int
    files: int
    parts: int
    own: tuple[Path, ...] = ()  # the user's files; none of what is made


def needless_fields(params: PreprocessParams) -> list[str]:
    """What one point has no use for: real files have as many rows as they have."""
    return list(GENERATED) if params.input is not None else []


def clicks_of(params: PreprocessParams) -> Clicks | None:
    """The data set that is made for a point; None where it reads real files."""
    rows, files, seed = params.rows, params.files, params.data_seed
    if params.input is not None or rows is None or files is None or seed is None:
        return None
    return Clicks(rows=rows, files=files, seed=seed)


def combination_problems(
    values: list[PreprocessParams], given: set[str], engine: str | None
) -> Iterable[Problem]:
    """Problems of one workload's points; ``given`` are the fields that the study writes."""
    if "implementation" in given and engine is not None:
        what = "says which engine does the work, and so does engine"
        yield Problem(("implementation",), what, "remove one of the two")
    if values[0].input is not None:
        for field in GENERATED:
            if field in given:
                what = "is of generated data, and input names files"
                yield Problem((field,), what, "remove one of the two")
    else:
        made = [clicks for params in values if (clicks := clicks_of(params)) is not None]
        least = min(clicks.rows for clicks in made)
        if made[0].files > least:
            what = f"{made[0].files:,} files are more than the {least:,} rows"
            yield Problem(("files",), what, "make rows larger, or files fewer")
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
    """Where ``[workload.scale]`` contradicts the other fields."""
    cluster = scale.engine
    named = [params.implementation for params in values]
    if "implementation" in given and cluster not in named:
        what = f'no implementation is "{cluster}", whose cluster this is'
        yield Problem(("implementation",), what, f'add "{cluster}", or remove [workload.scale]')
    if engine not in (None, cluster):
        what = f'is "{engine}", and the cluster of [workload.scale] is that of "{cluster}"'
        yield Problem(("engine",), what, "remove one of the two")
    if scale.memory is not None and "memory" in given:
        what = "[workload.scale] says how much memory each worker may take"
        yield Problem(("memory",), what, "remove one of the two")


def with_scale(params: PreprocessParams, scale: Scale) -> PreprocessParams:
    """A point on a cluster, whoever does it: they are compared with as much memory in all."""
    memory = params.memory
    if scale.memory is not None:
        memory = engine_costs(scale.engine).base_bytes + scale.memory * params.workers
    return params.model_copy(update={"scale": scale, "memory": memory})


def implementation_of(params: PreprocessParams, engine: str | None) -> str | None:
    """Whose code does a point; None: the study's engine decides."""
    scale = params.scale
    return params.implementation or engine or (None if scale is None else scale.engine)


def scheduler_of(params: PreprocessParams, engine: str) -> str | None:
    """Address of the cluster that a point is done on; None: it is done on this machine."""
    scale = params.scale
    return None if scale is None or scale.engine != engine else scale.scheduler


def needed_memory(params: PreprocessParams) -> int:
    """What all workers take at least: for their row groups or, with a library, parts. In bytes."""
    return max(_row_group_memory(params), _library_memory(params))


def _library_memory(params: PreprocessParams) -> int:
    """What a data frame library takes, with a part in the hands of each worker; 0 without one."""
    costs = engine_costs(params.implementation)
    if not costs.base_bytes:
        return 0
    workers, part = int(params.workers), int(params.part_size)
    return costs.base_bytes + workers * (costs.worker_bytes + WORKER_MEMORY_BYTES + part)


def engine_costs(engine: str | None) -> EngineCosts:
    """What an engine says that it takes; of one that says nothing, what the native one takes."""
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
        f"{format_size(memory)} do not hold a row group of {params.row_group_rows:,} rows for "
        f"{_whose(params)} {format_bytes_si(needed)}"
    )
    fix = "make memory larger, or row_group_rows or workers smaller"
    if _row_group_memory(params.model_copy(update={"part_size": LEAST_ROW_BYTES})) <= memory:
        what = f"{what} with all row groups of a part of {format_size(params.part_size)}"
        fix = "make row_group_rows or memory larger, or part_size or workers smaller"
    return Problem(("memory",), what, fix)


def _library_problem(params: PreprocessParams) -> Problem | None:
    needed, memory = _library_memory(params), params.memory
    if needed <= memory:
        return None
    what = (
        f"{format_size(memory)} do not hold {params.implementation} and a part of "
        f"{format_size(params.part_size)} for {_whose(params)} {format_bytes_si(needed)}"
    )
    scale = params.scale
    field = ("memory",) if scale is None or scale.memory is None else ("scale", "memory")
    return Problem(field, what, "make memory larger, or part_size or workers smaller")


def _whose(params: PreprocessParams) -> str:
    workers = params.workers
    if workers == 1:
        return "the one worker, which takes"
    return f"each of {workers:,} workers, which take"


def target_problem(params: PreprocessParams, target: Target) -> Problem | None:
    """Why this point cannot run on this target, or None. Looks for its raw files."""
    if params.input is None:
        return None
    try:
        input_files(params.input, Path(target.directory or "."))
    except InputError as error:
        return Problem(("input",), error.what, error.fix)
    except ValueError as error:  # of a pattern that this Python does not take
        return Problem(("input",), str(error))
    return None


class InputError(ValueError):
    """Raw files that cannot be read, and the cure."""

    def __init__(self, what: str, fix: str) -> None:
        self.what = what
        self.fix = fix
        super().__init__(f"{what}; {fix}")


def input_files(patterns: list[str], directory: Path) -> list[Path]:
    """The raw files of a study, absolute and in order, each once; they are only ever read.

    Patterns keep their order, the matches of one are sorted with ``day_2`` before ``day_10``.
    Raises InputError naming the pattern or file, and the cure.
    """
    root = Path(os.path.realpath(directory))
    files: dict[Path, None] = {}
    for pattern in patterns:
        for file in _matches(pattern, root):
            files.setdefault(_checked(file, root), None)
    if not files:
        raise InputError("names no files", "list the day files, or remove it to have data made")
    return list(files)


def _matches(pattern: str, root: Path) -> list[Path]:
    inside = Path(pattern)
    if inside.is_absolute() or ".." in inside.parts:
        what = f'"{pattern}" leads out of the target\'s directory'
        raise InputError(what, f"write it below {root}")
    if not inside.parts:
        raise InputError(f'"{pattern}" names no file', 'write for example "day_*"')
    if not any(character in pattern for character in "*?["):
        matches = [root / inside] if os.path.lexists(root / inside) else []
    else:
        paths = [path for path in root.glob(pattern) if path.name != _HOME]
        home = root / _HOME  # ``**`` goes there too, and is not meant
        matches = [path for path in paths if not path.is_relative_to(home)] or paths
    if not matches:
        what = f'"{pattern}" matches no file in {root}'
        raise InputError(what, "correct it, or put the files there")
    return sorted(matches, key=natural_key)


def _checked(file: Path, root: Path) -> Path:
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(root):
        what = f"{file} leads out of {root}"
        raise InputError(what, "copy it there, or name another directory")
    if not real.is_file():
        raise InputError(f"{file} is no regular file", "name files only")
    if real.is_relative_to(root / _HOME):
        what = f"{file} lies in {_HOME}, which is emptied after a study"
        raise InputError(what, "move it out of there")
    if real.suffix in COMPRESSED:
        raise InputError(f"{file} is compressed", "unpack it first")
    return real


def is_compressed(path: Path) -> bool:
    """By its suffix, or by what it begins with, whatever it is called. Raises OSError."""
    if path.suffix in COMPRESSED:
        return True
    with path.open("rb") as file:
        return file.read(max(map(len, _PACKED))).startswith(_PACKED)


def natural_key(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Orders names with numbers in them as people do: ``day_2`` before ``day_10``."""
    texts_and_numbers = enumerate(_DIGITS.split(str(path)))  # these in turn, texts first
    pieces = [(int(piece), "") if at % 2 else (0, piece) for at, piece in texts_and_numbers]
    return pieces, str(path)


def raw_data(params: PreprocessParams, target: Target) -> RawData:
    """What a point reads. Raises ValueError where its files are not there."""
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
    """Most that a run writes: Parquet, vocabularies and split binary."""
    groups = data.parts + data.rows // params.row_group_rows  # the last one of a part is not full
    binary = 1 + NUMERICAL_BYTES[params.numerical] + CATEGORICAL_BYTES
    vocabulary: int = VOCABULARY_BYTES // max(1, params.threshold)
    by_row = PARQUET_ROW_BYTES + vocabulary + binary
    return data.rows * by_row + data.parts * PART_BYTES + groups * GROUP_BYTES


def least_binary_bytes(params: PreprocessParams, rows: int) -> int:
    """Least that split binary takes: every id in one byte."""
    return rows * (1 + NUMERICAL_BYTES[params.numerical] + CATEGORIES)


def duration_ns(params: PreprocessParams, size: int, engine: str) -> int:
    """Time of a run, if it is bound by CPU: at an assumed rate, with no more workers than cores."""
    at_once: int = params.workers
    if scheduler_of(params, engine) is None:
        at_once = min(at_once, usable_cores())
    costs = engine_costs(engine)
    return round(size * costs.cpu_ns_per_byte / at_once) + costs.start_ns


def usable_cores() -> int:
    """Of this machine."""
    return len(os.sched_getaffinity(0))


def cautions(params: PreprocessParams, data: RawData, engine: str) -> tuple[str, ...]:
    """What will bend the numbers of a run: workers without a part or a core, too much memory."""
    texts, workers = [], params.workers
    if not data.bytes:
        texts.append("input: the raw files are empty, and a run without a row fails; name others")
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
            f"workers: {workers:,} share the {usable_cores():,} cores that this machine lets "
            "storlab use"
        )
    if params.memory > host_memory_bytes():
        texts.append(f"memory: {format_size(params.memory)} are more than the {host_memory_text()}")
    return tuple(texts)
