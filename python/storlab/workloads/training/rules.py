"""Combine the settings of a training point from profile, edition and study, and check them.

An edition is the behaviour of a version of the reference implementation DLIO: how it shuffles, how
it checks data, and whether it uses the page cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from storlab.base.errors import Problem, StudyError
from storlab.base.units import NS_PER_MS, exact_number, format_bytes_si
from storlab.model.s3 import LARGEST_PART
from storlab.model.study import Target
from storlab.process.host_memory import host_memory_bytes
from storlab.workloads.training.job import Records
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.profiles import (
    Profile,
    data_set_bytes,
    load_profile,
    make_profile,
    most_file_bytes,
)

Shuffle = Literal["none", "same", "epoch"]
Check = Literal["bytes", "header", "crc"]
FOLDER = "train"  # below the data folder, as in DLIO
OWN = "storlab"
FEW_STEPS = 50  # in an epoch; with fewer, utilisation is not reliable
# Least steps of each accelerator in an epoch, a rule of MLPerf Storage for the data set's size.
LEAST_STEPS = 500
# Least size of a data set relative to the memory of all hosts, a rule of MLPerf Storage.
MEMORY_TIMES = 5
# Buffers of each reader in addition to those in flight, as in
# crates/families/training/src/reader.rs.
SPARE_BUFFERS = 2
BUFFER_FIELDS = ("accelerators", "reader_threads", "io_depth", "read_size")
EDITION_FIELDS = ("shuffle", "check", "barrier")


@dataclass(frozen=True, slots=True)
class Edition:
    """How one version of the reference implementation (DLIO) reads."""

    shuffle: Shuffle | None  # None: set by the profile
    check: Check
    direct: bool | None  # None: set by the target
    reshard: bool  # whether accelerators read other files in each epoch
    drop_caches: bool


EDITIONS: dict[str, Edition] = {
    OWN: Edition(None, "header", direct=None, reshard=True, drop_caches=False),
    "dlio-2.0": Edition("none", "crc", direct=False, reshard=False, drop_caches=False),
    "dlio-2.0-odirect": Edition("none", "header", direct=True, reshard=False, drop_caches=False),
    "dlio-3.0": Edition("epoch", "bytes", direct=False, reshard=True, drop_caches=True),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a training point, from study, profile and edition."""

    profile: Profile
    accelerators: int
    files: int
    batch: int
    computation_ns: int
    reader_threads: int
    epochs: int
    max_steps: int | None
    shuffle: Shuffle
    check: Check
    barrier: bool
    edition: Edition
    data_seed: int

    @property
    def threads(self) -> int:
        """Number of threads of the client: one for each accelerator and reader."""
        return self.accelerators * (self.reader_threads + 1)

    @property
    def samples(self) -> int:
        """Number of samples in the data set."""
        return self.files * self.profile.dataset.num_samples_per_file

    @property
    def steps(self) -> int:
        """Number of steps of an accelerator in an epoch, without an incomplete last step."""
        steps = self.samples // self.accelerators // self.batch
        return steps if self.max_steps is None else min(steps, self.max_steps)

    @property
    def nominal_bytes(self) -> int:
        """Mean size of a sample in bytes, according to the profile."""
        return self.profile.dataset.record_length_bytes

    @property
    def threshold_percent(self) -> float:
        """Accelerator utilisation in percent that the profile requires."""
        return 100 * self.profile.metric.au

    @property
    def data_bytes(self) -> int:
        """Expected size of the data set in bytes."""
        return data_set_bytes(self.profile, self.files)

    @property
    def epoch_bytes(self) -> int:
        """Bytes that all accelerators are expected to read in an epoch."""
        return self.data_bytes * self.steps * self.batch * self.accelerators // self.samples

    def direct(self, target: Target) -> bool:
        """Return whether files are read with O_DIRECT, past the page cache."""
        return target.direct if self.edition.direct is None else self.edition.direct

    def records(self) -> Records:
        """Return the files of the data set, as a job describes them."""
        data = self.profile.dataset
        return Records(
            format=data.format,
            files=self.files,
            samples_per_file=data.num_samples_per_file,
            record_bytes=data.record_length_bytes,
            record_stdev_bytes=data.record_length_bytes_stdev,
            resize_bytes=data.record_length_bytes_resize,
            folder=FOLDER,
            prefix=data.file_prefix,
            seed=self.data_seed,
        )


def profile_of(params: TrainingParams) -> Profile:
    """Return the training profile of a point; raise StudyError if it does not exist.

    The content of a user's profile file is stored in the parameters, so that results can be read
    without the file.
    """
    data = params.profile_data
    if data is not None:
        return make_profile(data, params.profile)
    return load_profile(params.profile)


def settings_of(params: TrainingParams) -> Settings:
    """Combine the settings of a point; raise StudyError if its profile cannot be read."""
    profile = profile_of(params)
    edition = EDITIONS[params.edition]
    files = params.files
    if files is None:
        files = max(1, round(profile.dataset.num_files_train * params.scale))
    unshuffled = profile.reader.file_shuffle == "off"
    return Settings(
        profile=profile,
        accelerators=params.accelerators,
        files=files,
        batch=_or(params.batch_size, profile.reader.batch_size),
        computation_ns=_or(params.computation_time, profile.train.computation_time),
        reader_threads=_or(params.reader_threads, profile.reader.read_threads),
        epochs=_or(params.epochs, profile.train.epochs),
        max_steps=params.max_steps,
        shuffle=params.shuffle or edition.shuffle or ("none" if unshuffled else "epoch"),
        check=params.check or edition.check,
        barrier=params.barrier is not False,
        edition=edition,
        data_seed=params.data_seed,
    )


def _or(given: int | None, otherwise: int) -> int:
    return otherwise if given is None else given


def needless_fields(params: TrainingParams) -> list[str]:
    """Return the fields that have no effect, as a point's edition (DLIO version) sets them."""
    return [] if params.edition == OWN else list(EDITION_FIELDS)


def combination_problems(
    values: list[TrainingParams], given: set[str], engine: str | None
) -> Iterable[Problem]:
    """Check whether the parameters of a workload fit together; yield the problems.

    Args:
        values: Parameters of each point of the workload.
        given: Names of the fields that the study sets.
        engine: Engine that the study sets; None if it sets none.
    """
    if {"files", "scale"} <= given:
        yield Problem(
            ("scale",),
            "multiplies the number of files of the profile, but files sets it, too",
            "remove one of the two",
        )
    editions = {v.edition for v in values}
    for field in EDITION_FIELDS:
        if field in given and OWN not in editions:
            yield Problem(
                (field,),
                "has no effect, as editions of DLIO determine it",
                f'remove it, or add edition = "{OWN}"',
            )
    if "loader" in given and engine is not None:
        yield Problem(
            ("loader",),
            "selects the engine, but the study also sets engine",
            "remove one of the two",
        )


def target_problem(params: TrainingParams, target: Target) -> Problem | None:
    """Return the problem that prevents a point from running on a target; None if it can run."""
    try:
        settings = settings_of(params)
    except StudyError as error:
        where = "" if error.where == "profile" else f"{error.where} "
        return Problem(("profile",), f"{where}{error.what}", error.fix)
    problem = _batch_problem(params, settings.profile)
    if problem is not None:
        return problem
    if target.s3 is not None:
        problem = _bucket_problem(params, settings)
        if problem is not None:
            return problem
    if settings.edition.direct and not target.direct:
        return Problem(
            ("edition",),
            f"{params.edition} reads with O_DIRECT, but the target has direct = false",
            "remove direct = false, or choose another edition",
        )
    if settings.steps == 0:
        return Problem(
            (_size_field(params),),
            f"{settings.samples:,} samples are too few for {settings.accelerators:,} accelerators "
            f"with a batch of {settings.batch:,} each",
            "make the data set larger, or use fewer accelerators",
        )
    return None


def _batch_problem(params: TrainingParams, profile: Profile) -> Problem | None:
    """Return a problem if the study changes the batch size but not the compute time.

    Computing takes longer for a larger batch. If only the batch size changed, accelerators would
    demand more data per second without notice.
    """
    usual = profile.reader.batch_size
    if params.batch_size in (None, usual) or params.computation_time is not None:
        return None
    compute_ns = round(profile.train.computation_time * params.batch_size / usual)
    return Problem(
        ("batch_size",),
        f"is {params.batch_size:,}, but the compute time of {params.profile} is that of a step of "
        f"{usual:,} samples: accelerators would demand {params.batch_size / usual:.3g} times the "
        "data per second",
        f'add computation_time = "{exact_number(compute_ns / NS_PER_MS)}ms", in proportion to the '
        "batch size, or a time that was measured at this batch size",
    )


def _bucket_problem(params: TrainingParams, settings: Settings) -> Problem | None:
    if settings.edition.direct:
        return Problem(
            ("edition",),
            f"{params.edition} reads files with O_DIRECT, which a bucket does not support",
            "choose another edition",
        )
    largest = data_set_bytes(settings.profile, 1)
    if largest > LARGEST_PART:
        return Problem(
            ("profile",),
            f"a file of {format_bytes_si(largest)} is more than S3 accepts in one request",
            "use a directory, or fewer samples in a file",
        )
    return None


def _size_field(params: TrainingParams) -> str:
    if params.files is not None:
        return "files"
    return "profile" if params.scale == 1 else "scale"


def least_samples(settings: Settings, memory_bytes: int) -> int:
    """Return the smallest number of samples that MLPerf Storage allows in a data set.

    They must be enough for 500 steps, and take five times the memory of all hosts. Source: MLPerf
    Storage, submission rules, "minimum size of the data set" (3.1.2 of version 3).
    """
    by_steps = LEAST_STEPS * settings.batch * settings.accelerators
    by_memory = math.ceil(MEMORY_TIMES * memory_bytes / settings.nominal_bytes)
    return max(by_steps, by_memory)


def size_rule_text(settings: Settings, memory_bytes: int) -> str | None:
    """Say how far a data set is smaller than MLPerf Storage requires; None if it is not."""
    needed = least_samples(settings, memory_bytes)
    if settings.samples >= needed:
        return None
    return (
        f"the data set has {settings.samples:,} samples "
        f"({format_bytes_si(settings.data_bytes)}), but a rule of MLPerf Storage requires "
        f"{needed:,}: {LEAST_STEPS} steps of {settings.batch:,} for each of "
        f"{settings.accelerators:,} accelerators, and {MEMORY_TIMES} times the "
        f"{format_bytes_si(memory_bytes)} of memory"
    )


def buffer_bytes(params: TrainingParams, settings: Settings) -> int:
    """Return the bytes of all readers' buffers; a buffer is at most as large as a file."""
    largest = most_file_bytes(settings.profile)
    read = min(params.read_size, largest)
    buffers = min(-(-largest // read), params.io_depth + SPARE_BUFFERS)
    return settings.accelerators * settings.reader_threads * buffers * read


def cautions(settings: Settings) -> tuple[str, ...]:
    """Return warnings before a run, such as a small data set or few steps."""
    text = size_rule_text(settings, host_memory_bytes())
    small = () if text is None else (text,)
    if settings.steps >= FEW_STEPS:
        return small
    few = (
        f"an epoch has only {settings.steps:,} steps of each accelerator, of which utilisation "
        f"leaves out the first: with fewer than {FEW_STEPS} steps it is not reliable"
    )
    return (*small, few)
