"""Parameters for the random choice of block sizes and offsets, shared by families."""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from typing import Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator, Field, WithJsonSchema

from storlab.base.errors import Problem
from storlab.base.units import format_size, parse_size
from storlab.model.job import WeightedSize
from storlab.model.params import InStudy
from storlab.model.types import BYTES, SIZE_PATTERN, Table
from storlab.workloads.common.io_fields import read_block
from storlab.workloads.common.skew import skew_problems


def _read_block_size(value: object) -> int | dict[str, float]:
    """Check a block size: bytes, or a table of sizes with weights; write sizes in short form."""
    if not isinstance(value, dict):
        return read_block(value)
    weights: dict[str, float] = {}
    for text, weight in value.items():
        size = format_size(read_block(text))
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not (number and math.isfinite(weight) and weight > 0):
            raise ValueError(f'"{text}" = {weight!r}: a weight must be a number above 0')
        if size in weights:
            raise ValueError(f'"{text}" is in the table twice')
        weights[size] = float(weight)
    if not weights:
        raise ValueError("the table of block sizes is empty")
    return weights


IoSize = Annotated[
    int | dict[str, float],
    BYTES,
    BeforeValidator(_read_block_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN, "examples": ["256KiB", "4MiB"]},
                {"type": "integer", "exclusiveMinimum": 0},
                {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"pattern": SIZE_PATTERN},
                    "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
                },
            ]
        }
    ),
]
DrawnOffsets = Literal["uniform", "zipf", "hot_cold", "permutation"]
OffsetKind = Annotated[
    Literal["uniform", "zipf", "hot_cold", "permutation", "sequential"], InStudy(DrawnOffsets)
]
"""Distribution of offsets of a point.

A point with ``access = "sequential"`` has the value ``sequential``. A study cannot write it here,
because it sets ``access``.
"""
Theta = Annotated[float, Field(gt=0, le=10)]
HotSpace = Annotated[float, Field(gt=0, lt=100)]
HotAccess = Annotated[float, Field(gt=0, le=100)]
OFFSETS: Any = Field(
    default="uniform",
    description="how random access draws offsets; permutation visits every block once before any a "
    "second time; swept",
)
ZIPF_THETA: Any = Field(default=1.1, description="skew of offsets = zipf; larger is more skewed")
HOT_SPACE: Any = Field(default=10.0, description="offsets = hot_cold: this share of the region ...")
HOT_ACCESS: Any = Field(default=90.0, description="... receives this share of the operations")


class Offsets(Table):
    """Distribution of offsets; ``theta`` is for zipf, ``hot_*`` for hot_cold."""

    kind: Literal["uniform", "sequential", "zipf", "hot_cold", "permutation"]
    theta: float = 1.1
    hot_space_percent: float = 10.0  # share of the region that is hot
    hot_access_percent: float = 90.0  # share of the operations that access the hot part


class OffsetParams(Protocol):
    """Parameters of any family that chooses offsets at random."""

    offsets: Any
    zipf_theta: float
    hot_space_percent: float
    hot_access_percent: float


def offsets_of(params: OffsetParams) -> Offsets:
    """Return the distribution of offsets of a point."""
    return Offsets(
        kind=params.offsets,
        theta=params.zipf_theta,
        hot_space_percent=params.hot_space_percent,
        hot_access_percent=params.hot_access_percent,
    )


def sequential_offsets(product: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Set ``offsets`` to ``sequential`` in points with sequential access; return all points."""
    for params in product:
        if params["access"] == "sequential":
            params |= {"offsets": "sequential"}
    return product


def offset_problems(offsets: Set[str], given: Set[str]) -> Iterator[Problem]:
    """Yield a problem for each field about offsets that a study sets but that has no effect.

    Args:
        offsets: Distributions that the points use.
        given: Names of the fields that the study sets.
    """
    if offsets == {"sequential"} and "offsets" in given:
        what = "sequential access has no other offsets"
        yield Problem(("offsets",), what, 'set access = "random"')
        return
    yield from skew_problems("offsets", offsets, given)


def weighted_sizes(value: int | dict[str, float]) -> list[WeightedSize]:
    """Convert ``block_size`` to a list of sizes with weights."""
    if isinstance(value, dict):
        return [WeightedSize(bytes=parse_size(text), weight=w) for text, w in value.items()]
    return [WeightedSize(bytes=value)]


def sizes_of(value: int | dict[str, float]) -> list[int]:
    """Return all sizes in ``block_size``, in bytes."""
    return [size.bytes for size in weighted_sizes(value)]


def mean_size(value: int | dict[str, float]) -> float:
    """Return the mean of ``block_size`` by weight, in bytes."""
    sizes = weighted_sizes(value)
    return sum(s.bytes * s.weight for s in sizes) / sum(s.weight for s in sizes)
