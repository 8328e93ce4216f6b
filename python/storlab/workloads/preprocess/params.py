"""Parameters of preprocessing workloads: fields of a study file with defaults, descriptions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from storlab.model.params import InStudy, Params, Sweep
from storlab.model.types import Size, StudyTable

GENERATED = {"rows": 4_000_000, "files": 8, "data_seed": 1}
"""Parameters of generated data with their defaults; they are None with ``input``."""
LEAST_PART_BYTES = 4096
"""Smallest ``part_size``."""

Rows = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
Files = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Workers = Annotated[int, Field(ge=1, le=1024)]
GroupRows = Annotated[int, Field(ge=1, le=1 << 30)]
Threshold = Annotated[int, Field(ge=0, le=2**63 - 1)]
PartSize = Annotated[Size, Field(ge=LEAST_PART_BYTES)]
Memory = Annotated[Size, Field(gt=0)]
Codec = Literal["none", "snappy", "lz4", "zstd"]
Implementation = Literal["native", "pandas", "polars", "dask"]
"""Implementations of preprocessing; each value is also the name of its engine."""


def _scheme(address: str) -> str:
    """Return the address of a Dask scheduler; raise ValueError if it is not tcp:// or tls://."""
    if not address.startswith(("tcp://", "tls://")):
        raise ValueError(f'"{address}" does not begin with tcp:// or tls://')
    return address


class Scale(StudyTable):
    """Table ``[workload.scale]``: use ``workers`` workers of a cluster instead of this machine."""

    engine: Literal["dask"] = Field(description="dask (the extra storlab[scale])")
    scheduler: Annotated[str, AfterValidator(_scheme)] | None = Field(
        default=None,
        description="address of the scheduler of an existing cluster, tcp:// or tls://; by "
        "default each run starts a cluster of processes on this machine",
        examples=["tcp://10.0.0.1:8786"],
    )
    memory: Memory | None = Field(
        default=None,
        description="largest memory per worker; by default an equal share of the workload's memory",
    )


class PreprocessParams(Params):
    """Parameters of one point of a preprocessing workload."""

    rows: Sweep[Annotated[Rows | None, InStudy(Rows)]] = Field(
        default=GENERATED["rows"],
        description="rows of the generated click logs, about 245 bytes each; swept",
    )
    files: Annotated[Files | None, InStudy(Files)] = Field(
        default=GENERATED["files"], description="raw files that the rows are spread over"
    )
    input: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = Field(
        default=None,
        description="your own raw files instead, such as the day files of Criteo: paths or "
        "patterns below the target's directory, opened for reading only",
        examples=[["day_*"], ["criteo/day_0", "criteo/day_1"]],
    )
    workers: Sweep[Workers] = Field(
        default=1, description="parts that are processed at the same time; swept"
    )
    implementation: Sweep[Implementation | None] = Field(
        default=None,
        description="native is storlab's own code; pandas and polars are data frameworks (the "
        "extra storlab[preprocess]), dask a cluster (storlab[scale]). By default the "
        "engine decides; a list compares them; swept",
    )
    compression: Sweep[Codec] = Field(
        default="snappy", description="compression of the Parquet files; swept"
    )
    row_group_rows: Sweep[GroupRows] = Field(
        default=262_144, description="rows per row group of the Parquet files; swept"
    )
    part_size: Sweep[PartSize] = Field(
        default="64MiB",  # type: ignore[assignment]
        description="raw bytes per part, the unit of work of a worker; swept",
    )
    threshold: Sweep[Threshold] = Field(
        default=15,
        description="a category in fewer rows than this gets id 0, like a missing one; 0 and 1 "
        "keep every category; swept",
    )
    modulo: Sweep[Annotated[int, Field(ge=1, le=1 << 32)] | None] = Field(
        default=None,
        description="category values are taken modulo this number before they are counted; swept",
    )
    numerical: Sweep[Literal["float16", "float32"]] = Field(
        default="float16", description="type of the numerical features; swept"
    )
    malformed: Literal["refuse", "skip"] = Field(
        default="refuse",
        description="refuse: a run with malformed lines fails; skip: they are left out, counted "
        "and flagged",
    )
    memory: Sweep[Memory] = Field(
        default="4GiB",  # type: ignore[assignment]
        description="largest memory of the stages, whatever the size of the data; swept",
    )
    cold: bool = Field(
        default=True,
        description="each stage reads its input from the device, because the page cache is "
        "dropped before it; false is flagged page-cache",
    )
    resume: bool = Field(
        default=False,
        description="a run that was killed continues after its last finished part, and is flagged "
        "resumed",
    )
    scale: Scale | None = Field(default=None, description="do the work on several machines")
    data_seed: Annotated[Seed | None, InStudy(Seed)] = Field(
        default=GENERATED["data_seed"], description="seed of the generated click logs"
    )
