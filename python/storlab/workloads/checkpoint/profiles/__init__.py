"""Checkpoint profiles: names and sizes of the files that the ranks of a training job write.

A profile is a ``.toml`` file in this folder, or a user's file in the same format. It either lists
the files, or gives shape and sharding of a model, from which the files are derived.

Shapes, sharding and sizes are those of MLPerf Storage v2. File names are those of
Megatron-DeepSpeed: a model file for each layer and tensor-parallel rank, and an optimizer file for
each rank.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from storlab.base.errors import FieldProblems, Problem, StudyError
from storlab.base.files import read_input
from storlab.base.nearest import suggest
from storlab.model.bounds import bound_text, schema_of
from storlab.model.types import Size, StudyTable
from storlab.workloads.checkpoint.job import CheckpointFile

MODEL_BYTES = 2  # per parameter: 16-bit weights
OPTIMIZER_BYTES = 12  # per parameter: weights, momentum and variance in 32 bits
SAFETENSORS_HEADER = 4096  # of each safetensors file, as the engine writes it
MANIFESTS = ("storlab-checkpoint.json", "storlab-checkpoint.json.partial")
"""File names in a checkpoint's directory that crates/families/checkpoint/src/publish.rs uses."""
SUFFIX = ".toml"

Count = Annotated[int, Field(ge=1, le=1_000_000)]


class FileGroup(StudyTable):
    """Table ``[[file]]`` of a profile: ``count`` files for each of ``ranks``."""

    name: str = Field(min_length=1, description="with {rank} and {number}, which counts from 0")
    bytes: Size = Field(description="of each")
    ranks: list[Annotated[int, Field(ge=0)]] | None = Field(
        default=None, min_length=1, description="which ranks have them; all by default"
    )
    count: Count = Field(default=1, description="files of one rank")


class Shape(StudyTable):
    """Table ``[model]`` of a profile: a decoder-only transformer with grouped-query attention."""

    layers: Count
    hidden: Count
    ffn: Count
    heads: Count
    kv_heads: Count
    vocabulary: Count

    @property
    def layer(self) -> int:
        """Number of parameters of one layer: attention, gated MLP and two norms."""
        kv = self.hidden // self.heads * self.kv_heads
        attention = 2 * self.hidden * (self.hidden + kv)
        return attention + 3 * self.hidden * self.ffn + 2 * self.hidden

    @property
    def embedding(self) -> int:
        """Number of parameters of the embedding, which is also that of the output head."""
        return self.vocabulary * self.hidden

    @property
    def pieces(self) -> list[int]:
        """Numbers of parameters of embedding, layers, output head and last norm, in this order."""
        return [self.embedding, *[self.layer] * self.layers, self.embedding, self.hidden]


class Sharding(StudyTable):
    """Table ``[sharding]`` of a profile: degrees of parallelism and the ZeRO stage."""

    tensor: Count = 1
    pipeline: Count = 1
    data: Count = 1
    zero: Annotated[int, Field(ge=0, le=3)] = 0

    @property
    def ranks(self) -> int:
        """Number of ranks of the training job."""
        return self.tensor * self.pipeline * self.data


class ProfileTable(StudyTable):
    """Content of a profile file: ``ranks`` and ``[[file]]``, or ``[model]`` and ``[sharding]``."""

    title: str = Field(min_length=1)
    source: str = ""
    ranks: Count | None = None
    file: list[FileGroup] | None = Field(default=None, min_length=1)
    model: Shape | None = None
    sharding: Sharding | None = None

    @model_validator(mode="after")
    def _one_form(self) -> ProfileTable:
        listed = (self.ranks is not None, self.file is not None)
        derived = (self.model is not None, self.sharding is not None)
        problems = []
        if listed not in ((True, True), (False, False)) or derived != (not listed[0],) * 2:
            fix = "give ranks and [[file]] tables, or [model] and [sharding]"
            problems.append(Problem((), "must define its files in exactly one of two ways", fix))
        for index, group in enumerate(self.file or ()):
            beyond = [rank for rank in group.ranks or () if rank >= (self.ranks or 1)]
            if beyond:
                fix = f"ranks are numbered from 0 to {(self.ranks or 1) - 1}"
                problems.append(
                    Problem(("file", index, "ranks"), f"there is no rank {beyond[0]}", fix)
                )
        zero = self.sharding.zero if self.sharding else 0
        if self.sharding is not None and zero == 3 and self.sharding.pipeline > 1:
            fix = "use zero = 1 with a pipeline"
            problems.append(
                Problem(("sharding", "zero"), "3 shards whole models, not pipeline stages", fix)
            )
        layers = self.model.layers if self.model else 0
        if self.sharding is not None and layers and self.sharding.pipeline > layers:
            what = f"{self.sharding.pipeline:,} stages are more than the {layers:,} layers"
            fix = "use at most as many stages as layers"
            problems.append(Problem(("sharding", "pipeline"), what, fix))
        if problems:
            raise FieldProblems(problems)
        return self


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile: the files of one checkpoint in the order of ranks; sizes in bytes."""

    name: str
    title: str
    source: str
    ranks: int
    files: tuple[CheckpointFile, ...]

    @property
    def total_bytes(self) -> int:
        """Size of the whole checkpoint in bytes."""
        return sum(file.bytes for file in self.files)


def profile_names() -> list[str]:
    """Return the names of the built-in checkpoint profiles."""
    names = [entry.name for entry in _shelf().iterdir() if entry.name.endswith(SUFFIX)]
    return sorted(name.removesuffix(SUFFIX) for name in names)


def load_profile(name: str) -> Profile:
    """Load a checkpoint profile.

    Args:
        name: Name of a built-in profile, or path of a file if it contains a slash or ends with
            ``.toml``. The path may be relative to the working directory.

    Raises:
        StudyError: The profile does not exist or is invalid.
    """
    if is_path(name):
        return make_profile(read_tables(name), name)
    if name not in profile_names():
        fix = f"{suggest(name, profile_names())} (a file of your own ends with {SUFFIX})"
        raise StudyError("profile", f'"{name}" is not a checkpoint profile', fix)
    return make_profile(_tables(name, _shelf().joinpath(name + SUFFIX).read_text("utf-8")), name)


def is_path(name: str) -> bool:
    """Return whether the name of a profile is the path of a file."""
    return "/" in name or name.endswith(SUFFIX)


def read_tables(name: str) -> dict[str, Any]:
    """Read the tables of a profile file; raise StudyError if it cannot be read or is not TOML."""
    try:
        return _tables(name, read_input(name).decode())
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StudyError(
            name, f"the profile cannot be read: {what}", "correct the file or its path"
        ) from error


def make_profile(tables: dict[str, Any], name: str) -> Profile:
    """Make a checkpoint profile from the content of its file.

    Args:
        tables: Content of the file.
        name: Name of the profile for error messages.

    Raises:
        StudyError: The tables are invalid.
    """
    return _made(name, json.dumps(tables, default=str))


def files_of(
    profile: Profile, layout: str, scale: float, subset: int | None
) -> list[CheckpointFile]:
    """Return the files of one checkpoint as a job writes them.

    Args:
        profile: Profile with all files.
        layout: ``profile``, ``file_per_rank``, or ``safetensors``, which adds a header per file.
        scale: Fraction of its size that each file keeps.
        subset: Number of ranks that write, starting with the first; None for all.
    """
    files = [
        file.model_copy(update={"bytes": scaled(file.bytes, scale)})
        for file in profile.files
        if subset is None or file.rank < subset
    ]
    if layout == "file_per_rank":
        sums: dict[int, int] = {}
        for file in files:
            sums[file.rank] = sums.get(file.rank, 0) + file.bytes
        return [
            CheckpointFile(name=f"rank{rank:04}.bin", rank=rank, bytes=size)
            for rank, size in sorted(sums.items())
        ]
    if layout == "safetensors":
        return [
            CheckpointFile(
                name=f"{file.name.removesuffix('.pt')}.safetensors",
                rank=file.rank,
                bytes=file.bytes + SAFETENSORS_HEADER,
            )
            for file in files
        ]
    return files


def scaled(size: int, scale: float) -> int:
    """Multiply a size by ``scale``; the result is at least 1 unless the size is 0."""
    return size if scale == 1 else max(min(size, 1), round(size * scale))


def _shelf() -> Any:
    return resources.files(__name__)


def _tables(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(name, f"is not TOML: {error}", "correct the file") from error


@lru_cache(maxsize=64)
def _made(name: str, tables: str) -> Profile:
    try:
        table = ProfileTable.model_validate(json.loads(tables))
    except ValidationError as error:
        raise _explained(name, error) from error
    ranks, files = table.ranks or 1, _listed(table)
    if table.model is not None and table.sharding is not None:
        ranks, files = table.sharding.ranks, derived_files(table.model, table.sharding)
    profile_files = tuple(files)
    _check_names(name, [file.name for file in profile_files])
    if not sum(file.bytes for file in profile_files):
        raise StudyError(name, "all its files are empty", "set the size of a file above 0")
    return Profile(name, table.title, table.source, ranks, profile_files)


def _check_names(profile: str, names: list[str]) -> None:
    """Raise StudyError if files of a profile have invalid names or cannot exist side by side."""
    known, bare = set(names), [path.removesuffix(".pt") for path in names]
    if len(set(bare)) < len(bare):  # names must differ without .pt: safetensors replaces it
        twice = next(path for path in bare if bare.count(path) > 1)
        fix = "make names unique by {rank} and {number}; a suffix .pt is not enough"
        raise StudyError(profile, f'two files are named "{twice}"', fix)
    for path in names:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts):
            what = f'"{path}" is not a relative path'
            raise StudyError(profile, what, "use a path inside of the checkpoint's directory")
        if parts[0] in MANIFESTS:
            what = f'"{path}" is the name under which storlab stores its list of files'
            raise StudyError(profile, what, "use another name")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        if clash := next((folder for folder in above if folder in known), None):
            what = f'"{clash}" is both a file and the directory of "{path}"'
            raise StudyError(profile, what, "use another name for one of the two")


def _explained(name: str, error: ValidationError) -> StudyError:
    first = error.errors()[0]
    inner = first.get("ctx", {}).get("error")
    place: tuple[str | int, ...] = first["loc"]
    broken = bound_text(first, lambda: schema_of(ProfileTable, first["loc"]))
    what, fix = broken or first["msg"], "see docs/checkpoint.md"
    if isinstance(inner, FieldProblems):
        problem = inner.problems[0]
        place, what, fix = (*place, *problem.field), problem.what, problem.fix
    field = ".".join(str(part) for part in place)
    return StudyError(f"{name}: {field}" if field else name, what, fix)


def _listed(table: ProfileTable) -> Iterator[CheckpointFile]:
    for group in table.file or ():
        for rank in group.ranks or range(table.ranks or 1):
            for number in range(group.count):
                text = group.name.replace("{rank}", str(rank)).replace("{number}", str(number))
                yield CheckpointFile(name=text, rank=rank, bytes=group.bytes)


def derived_files(model: Shape, sharding: Sharding) -> Iterator[CheckpointFile]:
    """Derive the files of a model's checkpoint from shape and sharding; yield them by rank."""
    parallel = sharding.tensor * sharding.pipeline
    parameters = sum(model.pieces)
    for rank in range(sharding.ranks):
        replica, place = divmod(rank, parallel)
        stage, part = divmod(place, sharding.tensor)
        prefix = f"zero_pp_rank_{replica}_mp_rank_{place}"
        if sharding.zero == 3:
            size = _share(MODEL_BYTES * parameters, rank, sharding.ranks)
            yield CheckpointFile(name=f"{prefix}_model_states.pt", rank=rank, bytes=size)
        elif replica == 0:
            for layer in _stage(model.layers, stage, sharding.pipeline):
                yield CheckpointFile(
                    name=f"layer_{layer}-model_{place}_model_states.pt",
                    rank=rank,
                    bytes=_share(MODEL_BYTES * model.pieces[layer], part, sharding.tensor),
                )
        writers = sharding.ranks if sharding.zero else parallel
        if rank < writers:
            size = _share(OPTIMIZER_BYTES * parameters, rank, writers)
            yield CheckpointFile(name=f"{prefix}_optim_states.pt", rank=rank, bytes=size)


def _stage(layers: int, stage: int, stages: int) -> Iterable[int]:
    """Return the indices in ``Shape.pieces`` of those parts of a model that a pipeline stage holds.

    Layers are divided evenly; the first stages take one more if needed. The first stage also has
    the embedding, and the last one the output head and the last norm.
    """
    share, more = divmod(layers, stages)
    first = 1 + stage * share + min(stage, more)
    last = first + share + (1 if stage < more else 0)
    return range(0 if stage == 0 else first, layers + 3 if stage == stages - 1 else last)


def _share(whole: int, part: int, parts: int) -> int:
    """Return the size of part number ``part`` if ``whole`` is divided into nearly equal parts."""
    return whole * (part + 1) // parts - whole * part // parts
