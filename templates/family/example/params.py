"""Parameters of example workloads: fields of a study file with defaults and descriptions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from storlab.model.params import Params, Sweep
from storlab.model.types import Size


class ExampleParams(Params):
    """Parameters of one point of an example workload."""

    files: Sweep[Annotated[int, Field(ge=1, le=1_000_000)]] = Field(
        default=1000, description="number of files to write and read; swept"
    )
    file_size: Sweep[Annotated[Size, Field(gt=0, le=1 << 30)]] = Field(
        default="64KiB",  # type: ignore[assignment]
        description="size of each file; swept",
    )
    workers: Sweep[Annotated[int, Field(ge=1, le=1024)]] = Field(
        default=1, description="threads, each of which handles one file at a time; swept"
    )
