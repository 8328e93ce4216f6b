"""The study table of ``kind = "preprocess"``, and what its values come to."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec
from storlab.model.types import Size, Swept
from storlab.workloads.preprocess.rules import (
    GENERATED,
    LEAST_PART_BYTES,
    combination_problems,
    needless_fields,
)

Rows = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
Workers = Annotated[int, Field(ge=1, le=1024)]
GroupRows = Annotated[int, Field(ge=1, le=1 << 30)]
Threshold = Annotated[int, Field(ge=0, le=2**63 - 1)]
PartSize = Annotated[Size, Field(ge=LEAST_PART_BYTES)]
Memory = Annotated[Size, Field(gt=0)]
Codec = Literal["none", "snappy", "lz4", "zstd"]
Implementation = Literal["native", "pandas", "polars"]
"""Each is the engine of that name."""


class PreprocessSpec(WorkloadSpec):
    """``[[workload]] kind = "preprocess"``: click logs to what a DLRM is trained on."""

    swept: ClassVar[tuple[str, ...]] = (
        "rows",
        "workers",
        "implementation",
        "compression",
        "row_group_rows",
        "part_size",
        "threshold",
        "modulo",
        "numerical",
        "memory",
    )
    asides: ClassVar[frozenset[str]] = frozenset({"implementation"})

    kind: Literal["preprocess"] = Field(description="preprocessing of click logs for a DLRM")
    rows: Swept[Rows] = Field(
        default=GENERATED["rows"], description="rows of the click logs that are made; swept"
    )
    files: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=GENERATED["files"], description="raw files that these rows are spread over"
    )
    input: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None,
        min_length=1,
        description="your own raw files instead, such as the day files of Criteo: paths or "
        "patterns below the target's directory; they are only read",
        examples=[["day_*"], ["criteo/day_0", "criteo/day_1"]],
    )
    workers: Swept[Workers] = Field(
        default=1, description="parts that are worked on at a time; swept"
    )
    implementation: Swept[Implementation] | None = Field(
        default=None,
        description="whose code does it: native is storlab's own, pandas and polars are data "
        "frameworks (the extra storlab[preprocess]); by default the engine decides; swept",
    )
    compression: Swept[Codec] = Field(default="snappy", description="of the Parquet files; swept")
    row_group_rows: Swept[GroupRows] = Field(
        default=262_144, description="rows of a row group of the Parquet files; swept"
    )
    part_size: Swept[PartSize] = Field(
        default="64MiB",  # type: ignore[assignment]
        description="raw bytes that a worker takes at a time; swept",
    )
    threshold: Swept[Threshold] = Field(
        default=15,
        description="a category that fewer rows have gets id 0, as a missing one; swept",
    )
    modulo: Swept[Annotated[int, Field(ge=1, le=1 << 32)]] | None = Field(
        default=None,
        description="category values are taken modulo this before they are counted; swept",
    )
    numerical: Swept[Literal["float16", "float32"]] = Field(
        default="float16", description="type of the numerical features; swept"
    )
    malformed: Literal["refuse", "skip"] = Field(
        default="refuse",
        description="what becomes of lines that are no rows: the run fails, or leaves them out",
    )
    memory: Swept[Memory] = Field(
        default="4GiB",  # type: ignore[assignment]
        description="most memory that the stages take, at any size of the data; swept",
    )
    cold: bool = Field(default=True, description="each stage finds its input out of the page cache")
    resume: bool = Field(
        default=False,
        description="a run that was killed goes on after its last finished part; it is flagged",
    )
    data_seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        default=GENERATED["data_seed"], description="of the click logs that are made"
    )

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another."""
        del values  # they no longer say what a point has no use for
        return [*combination_problems(self.product(), self.model_fields_set, self.engine)]

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: a point has nothing of what it has no use for."""
        return params | dict.fromkeys(needless_fields(params))

    def engine_of(self, params: dict[str, Any]) -> str | None:
        """An implementation is an engine."""
        return params["implementation"] or self.engine
