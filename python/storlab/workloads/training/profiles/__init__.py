"""Training profiles: which files the training of a model reads, and how long its steps compute.

A profile is a TOML file with fields named as in the DLIO benchmark. Built-in profiles are in this
folder; a study names them without suffix. It names other profiles by their path, which ends with
``.toml``.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from storlab.base.errors import FieldProblems, Problem, StudyError
from storlab.base.files import read_input
from storlab.base.nearest import suggest
from storlab.base.units import NS_PER_S, format_bytes_si, significant
from storlab.model.bounds import bound_text, schema_of
from storlab.model.types import Duration, Size, StudyTable

SHIPPED = Path(__file__).resolve().parent
SUFFIX = ".toml"
MOST_NPZ_BYTES = (1 << 32) - 4096  # limit of a zip member without extensions
MOST_STDEVS = 3.0  # as in crates/families/training/src/format.rs
FILE_OVERHEAD = {"npz": 768, "tfrecord": 0, "jpeg": 0}
SAMPLE_OVERHEAD = {"npz": 8, "tfrecord": 64, "jpeg": 0}
"""Approximate bytes of headers, for estimates."""


class Dataset(StudyTable):
    """Table ``[dataset]`` of a profile: number, format and sizes of files."""

    format: Literal["npz", "tfrecord", "jpeg"] = Field(description="format of the files")
    num_files_train: int = Field(ge=1, le=10**9, description="number of files of the data set")
    num_samples_per_file: int = Field(default=1, ge=1, description="samples in each file")
    record_length_bytes: Size = Field(gt=0, description="mean size of a sample")
    record_length_bytes_stdev: Size = Field(
        default=0, description="standard deviation of the size of a sample"
    )
    record_length_bytes_resize: Size = Field(
        default=0, description="size to which a loader cuts a sample after reading; 0: no cut"
    )
    data_folder: str = Field(
        default="data",
        description="directory in which DLIO stores the data set; storlab uses its own",
    )
    file_prefix: str = Field(
        default="img", pattern=r"^[A-Za-z0-9._-]*[A-Za-z0-9_-]$", description="prefix of file names"
    )


class Reader(StudyTable):
    """Table ``[reader]`` of a profile: batches and readers of an accelerator."""

    batch_size: int = Field(ge=1, le=10**6, description="samples that a step consumes")
    read_threads: int = Field(
        default=1, ge=1, le=1024, description="number of readers of an accelerator"
    )
    prefetch_size: int = Field(
        default=2,
        ge=1,
        le=10**4,
        description="batches loaded ahead, over all readers of an accelerator",
    )
    file_shuffle: Literal["off", "seed", "random"] = Field(
        default="seed", description="off: files are read in the order of their numbers"
    )


class Train(StudyTable):
    """Table ``[train]`` of a profile: epochs, and compute time per step."""

    epochs: int = Field(default=1, ge=1, le=10**6, description="passes over the data set")
    computation_time: Duration = Field(
        description="compute time of a step; a number without a unit is in seconds"
    )


class Goal(StudyTable):
    """Table ``[metric]`` of a profile: required utilisation."""

    au: float = Field(
        default=0.9, gt=0, le=1, description="required accelerator utilisation, as a fraction"
    )


class Profile(StudyTable):
    """Training profile: all tables of its file."""

    description: str = Field(default="", description="the model, and a description of its data")
    source: str = Field(min_length=1, description="source of the numbers")
    published: bool = Field(default=True, description="whether the profile has been published")
    dataset: Dataset
    reader: Reader
    train: Train
    metric: Goal = Goal()

    @model_validator(mode="after")
    def _fits_its_format(self) -> Profile:
        data = self.dataset
        problems = []
        if data.format == "jpeg" and data.num_samples_per_file != 1:
            problems.append(
                Problem(
                    ("dataset", "num_samples_per_file"),
                    "a JPEG file has only one sample",
                    "use 1, or format tfrecord",
                )
            )
        longest = data.record_length_bytes + MOST_STDEVS * data.record_length_bytes_stdev
        if data.format == "npz" and longest * data.num_samples_per_file > MOST_NPZ_BYTES:
            problems.append(
                Problem(
                    ("dataset", "num_samples_per_file"),
                    "an NPZ file of storlab must be smaller than 4 GiB",
                    "use fewer or smaller samples per file",
                )
            )
        if problems:
            raise FieldProblems(problems)
        return self

    @property
    def demand_bytes_s(self) -> float | None:
        """Bytes/s that keep one accelerator busy; None if a step takes no compute time."""
        if not self.train.computation_time:
            return None
        step_bytes = self.reader.batch_size * self.dataset.record_length_bytes
        return step_bytes * NS_PER_S / self.train.computation_time

    @property
    def text(self) -> str:
        """Summary: ``NPZ, 168 files, 147 MB a sample, 7 of them in 323 ms``."""
        data = self.dataset
        several = data.num_samples_per_file
        samples = f" of {several:,} samples" if several > 1 else ""
        step_ms = self.train.computation_time / 1e6
        return (
            f"{data.format.upper()}, {data.num_files_train:,} files{samples}, "
            f"{format_bytes_si(data.record_length_bytes)} a sample, "
            f"{self.reader.batch_size} of them in {significant(step_ms, 4)} ms"
        )


def profile_names() -> list[str]:
    """Return the names of the built-in training profiles."""
    return sorted(path.stem for path in SHIPPED.glob(f"*{SUFFIX}"))


def is_path(name: str) -> bool:
    """Return whether the name of a profile is the path of a file."""
    return name.endswith(SUFFIX)


def load_profile(name: str) -> Profile:
    """Load a training profile by name or path.

    Raises:
        StudyError: The profile does not exist or is invalid.
    """
    return read_profile(Path(name)) if is_path(name) else _shipped(name)


@cache
def _shipped(name: str) -> Profile:
    if name not in profile_names():
        what = f'"{name}" is not a training profile'
        raise StudyError("profile", what, suggest(name, profile_names()))
    return read_profile(SHIPPED / f"{name}{SUFFIX}")


def read_profile(path: Path) -> Profile:
    """Load a training profile from a file; raise StudyError if it is invalid."""
    return make_profile(read_tables(path), str(path))


def read_tables(path: Path) -> dict[str, Any]:
    """Read the tables of a profile file; raise StudyError if it cannot be read or is not TOML."""
    try:
        return tomllib.loads(read_input(path).decode())
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise StudyError(str(path), what, "give the path of a profile") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(str(path), f"is not TOML ({error})", "correct the file") from error


def make_profile(data: dict[str, Any], name: str) -> Profile:
    """Make a training profile from the content of its file.

    Args:
        data: Content of the file.
        name: Name of the profile for error messages.

    Raises:
        StudyError: The tables are invalid.
    """
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        problems = [_problem(detail) for detail in error.errors(include_url=False)]
        fix = "correct the file; docs/training.md explains each field"
        raise StudyError(name, "; ".join(problems), fix) from error


def _problem(error: Any) -> str:
    inner = error.get("ctx", {}).get("error")
    if isinstance(inner, FieldProblems):
        return "; ".join(f"{'.'.join(map(str, p.field))} {p.what}" for p in inner.problems)
    where = ".".join(map(str, error["loc"]))
    unknown = "is not a field" if error["type"] == "extra_forbidden" else None
    broken = bound_text(error, lambda: schema_of(Profile, error["loc"]))
    what = unknown or broken or error["msg"]
    return f"{where} {what[:1].lower()}{what[1:]}"


def most_file_bytes(profile: Profile) -> int:
    """Return an upper limit for the size of a file of the data set in bytes, without headers."""
    data = profile.dataset
    longest = data.record_length_bytes + MOST_STDEVS * data.record_length_bytes_stdev
    return math.ceil(longest) * data.num_samples_per_file


def data_set_bytes(profile: Profile, files: int) -> int:
    """Return the expected size of a data set of ``files`` files in bytes."""
    data = profile.dataset
    # Sizes far from the mean are drawn again on both sides, so the mean does not change.
    per_file = data.num_samples_per_file * (data.record_length_bytes + SAMPLE_OVERHEAD[data.format])
    return math.ceil(files * (per_file + FILE_OVERHEAD[data.format]))
