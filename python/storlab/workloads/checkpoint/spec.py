"""The study table of ``kind = "checkpoint"``, and what its values come to."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec
from storlab.model.types import Duration, Size, Swept
from storlab.workloads.checkpoint.rules import (
    combination_problems,
    own_profile,
)
from storlab.workloads.common.store_fields import REQUEST_TIMEOUT, RETRIES, RETRY_BACKOFF, Retries

RING_FILES = 4  # of each rank, beside those that it writes
ASSUMED_BYTES_S = 1_000_000_000  # of a checkpoint, to estimate its time before it was ever written

Share = Annotated[float, Field(gt=0, le=1)]
Ranks = Annotated[int, Field(ge=1, le=65_535)]
Depth = Annotated[int, Field(ge=1, le=1_024)]
Layout = Literal["profile", "file_per_rank", "safetensors"]
Durability = Literal["fsync", "none"]
Publish = Literal["rename", "in_place"]


class CheckpointSpec(WorkloadSpec):
    """``[[workload]] kind = "checkpoint"``: checkpoints of large language models."""

    swept: ClassVar[tuple[str, ...]] = (
        "profile",
        "scale",
        "subset",
        "layout",
        "io_size",
        "io_depth",
        "sync",
        "publish",
    )
    asides: ClassVar[frozenset[str]] = frozenset({"writer", "training_interval", "mtbf"})

    kind: Literal["checkpoint"] = Field(description="checkpoints of large language models")
    profile: Swept[Annotated[str, Field(min_length=1)]] = Field(
        description="which files the ranks write: a profile of storlab's, or the path of a TOML "
        "file of your own; swept",
        examples=["llama3-405b-8gpu-415gb", "profiles/mine.toml"],
    )
    scale: Swept[Share] = Field(
        default=1.0, description="every file shrunk to this share of its size: 0.01; swept"
    )
    subset: Swept[Ranks] | None = Field(
        default=None, description="only the first so many ranks; all by default; swept"
    )
    layout: Swept[Layout] = Field(
        default="profile",
        description="files as in the profile; file_per_rank: one with all bytes of a rank; "
        "safetensors: those of the profile in that format; swept",
    )
    writes: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=10, description="checkpoints of a run"
    )
    restores: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=1, description="how often the newest one is then read back"
    )
    io_size: Swept[Annotated[Size, Field(gt=0)]] = Field(
        default="4MiB",  # type: ignore[assignment]
        description="size of an I/O, a multiple of 4KiB; swept",
    )
    io_depth: Swept[Depth] = Field(default=8, description="outstanding I/Os of each rank; swept")
    sync: Swept[Durability] = Field(
        default="fsync",
        description="fsync of every file and directory before a checkpoint is published; none is "
        "flagged; swept",
    )
    publish: Swept[Publish] = Field(
        default="rename",
        description="rename: written aside and given its name when it is whole; in_place; swept",
    )
    preallocate: bool | None = Field(
        default=True,
        description="files get their blocks and length before their bytes (fallocate), as with "
        "fio; files of storlab's own writer only",
    )
    keep_last: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="older checkpoints than the last so many are deleted"
    )
    part_size: Size = Field(
        default="64MiB",  # type: ignore[assignment]
        description="to a bucket: larger files are uploaded in parts of this size, from 5MiB on",
    )
    request_timeout: Duration = REQUEST_TIMEOUT
    retries: Retries = RETRIES
    retry_backoff: Duration = RETRY_BACKOFF
    pause: Duration = Field(default=0, description="emulated training between two checkpoints")
    verify: bool = Field(default=True, description="a restore compares every byte")
    cold: Literal["direct", "drop", "as_is"] = Field(
        default="direct",
        description="how a restore gets past the page cache: O_DIRECT; dropping the files from "
        "it first; as_is: not at all, and flagged",
    )
    training_interval: Duration = Field(
        default="30min",  # type: ignore[assignment]
        gt=0,
        description="training between two checkpoints, for the share of it that they cost",
    )
    mtbf: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        description="mean time between failures of the training job, for the optimal interval",
        examples=["24h"],
    )
    writer: Literal["native", "torch"] = Field(
        default="native", description="native, or torch: PyTorch itself writes and reads"
    )

    @model_validator(mode="before")
    @classmethod
    def _writer_is_an_engine(cls, data: Any) -> Any:
        """PyTorch is an engine of its own: ``writer`` names it, and ``engine`` follows."""
        if isinstance(data, dict) and data.get("writer") == "torch" and "engine" not in data:
            return {**data, "engine": "torch"}
        if isinstance(data, dict) and data.get("engine") == "torch" and "writer" not in data:
            return {**data, "writer": "torch"}
        return data

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Without what it has no use for, and with a profile of the user's own as it reads now.

        So the plan and its hash hold that profile.
        """
        if params["writer"] != "native":
            params = params | {"preallocate": None}
        own = own_profile(params["profile"])
        return params if own is None else {**params, "profile_data": own}

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another, or say something of what is not done."""
        return combination_problems(values, self.model_fields_set, self.engine)
