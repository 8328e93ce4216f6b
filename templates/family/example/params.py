"""Parameters of ``kind = "example"``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from storlab.model.params import Params, Sweep
from storlab.model.types import Size


class ExampleParams(Params):
    """Parameters of one point."""

    files: Sweep[Annotated[int, Field(ge=1, le=1_000_000)]] = Field(
        default=1000, description="files that are written and read; swept"
    )
    file_size: Sweep[Annotated[Size, Field(gt=0, le=1 << 30)]] = Field(
        default="64KiB",  # type: ignore[assignment]
        description="bytes of each file; swept",
    )
    workers: Sweep[Annotated[int, Field(ge=1, le=1024)]] = Field(
        default=1, description="threads, each with one file at a time; swept"
    )
