"""Parameter ``object_size``: one size, several sizes with weights, or a distribution.

The value of a point is a number of bytes, or one of these tables:

- ``{"4KiB": 70.0, "1MiB": 30.0}``
- ``{"uniform": ["1MiB", "8MiB"]}``
- ``{"lognormal": {"median": "1MiB", "sigma": 1.2, "min": "4KiB", "max": "64MiB"}}``

Sizes in tables have their shortest form, so that values with equal sizes are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from storlab.base.units import format_size, parse_size, significant
from storlab.model.job import WeightedSize
from storlab.model.s3 import LARGEST_OBJECT
from storlab.model.types import BYTES, SIZE_PATTERN
from storlab.workloads.object.job import ObjectSizes

LEAST_ACCEPTED = 0.01  # least share inside the bounds; other values are drawn again
_SHAPES = ("uniform", "lognormal")
_LOGNORMAL = ("median", "sigma", "min", "max")
_LARGEST_SIGMA = 10.0

SizeValue = int | dict[str, Any]


def read_object_size(value: object) -> SizeValue:
    """Check an ``object_size``; return bytes, or a table with sizes in their shortest form.

    Raises:
        ValueError: The value is neither a size nor a valid table.
    """
    if not isinstance(value, dict):
        return _bounded(value)
    named = [name for name in _SHAPES if name in value]
    if not named:
        return _read_weights(value)
    shape = named[0]
    if len(value) > 1:
        other = next(str(name) for name in value if name != shape)
        raise ValueError(f'"{other}" cannot be combined with {shape}: sizes have one distribution')
    if shape == "uniform":
        return {"uniform": _read_uniform(value["uniform"])}
    return {"lognormal": _read_lognormal(value["lognormal"])}


def _bounded(value: object) -> int:
    size = parse_size(value)  # type: ignore[arg-type]
    if size == 0:
        raise ValueError("an object must have at least 1 byte")
    if size > LARGEST_OBJECT:
        raise ValueError(f"S3 objects can have at most {format_size(LARGEST_OBJECT)}")
    return size


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read_weights(value: dict[Any, Any]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for text, weight in value.items():
        size = _bounded(text)
        if not _is_number(weight) or weight <= 0:
            raise ValueError(f'"{text}" = {weight!r}: a weight must be a number above 0')
        if format_size(size) in weights:
            raise ValueError(f'"{text}" is in the table twice')
        weights[format_size(size)] = float(weight)
    if not weights:
        raise ValueError("the table of object sizes is empty")
    return weights


def _read_uniform(bounds: object) -> list[str]:
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise ValueError('uniform needs two sizes: { uniform = ["1MiB", "8MiB"] }')
    low, high = (_bounded(bound) for bound in bounds)
    if low >= high:
        raise ValueError(f"uniform: {format_size(low)} is not below {format_size(high)}")
    return [format_size(low), format_size(high)]


def _read_lognormal(table: object) -> dict[str, Any]:
    if not isinstance(table, dict) or set(table) != set(_LOGNORMAL):
        raise ValueError(
            "lognormal needs median, sigma, min and max: "
            '{ lognormal = { median = "1MiB", sigma = 1.2, min = "4KiB", max = "64MiB" } }'
        )
    low, median, high = (_bounded(table[name]) for name in ("min", "median", "max"))
    sigma = table["sigma"]
    if not _is_number(sigma) or not 0 < sigma <= _LARGEST_SIGMA:
        raise ValueError(f"lognormal: sigma must be above 0 and at most {_LARGEST_SIGMA:g}")
    if not low <= median <= high or low == high:
        raise ValueError("lognormal: median must lie between min and max, which must differ")
    if _accepted(low, median, high, sigma) < LEAST_ACCEPTED:
        raise ValueError(
            "lognormal: nearly all sizes of this sigma are outside min and max; move min and max "
            "apart, or reduce sigma"
        )
    return {
        "median": format_size(median),
        "sigma": float(sigma),
        "min": format_size(low),
        "max": format_size(high),
    }


def _accepted(low: int, median: int, high: int, sigma: float) -> float:
    """Return the fraction of a log-normal distribution that lies between ``low`` and ``high``."""
    a, b = (math.log(bound / median) / sigma for bound in (low, high))
    return _cdf(b) - _cdf(a)


def _cdf(z: float) -> float:
    """Return the standard normal distribution function, which is exact in the left tail, too."""
    return math.erfc(-z / math.sqrt(2)) / 2


def sizes_of(value: SizeValue) -> ObjectSizes:
    """Convert ``object_size`` to the distribution of a job."""
    if isinstance(value, int):
        return ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=value)])
    if "uniform" in value:
        low, high = (parse_size(bound) for bound in value["uniform"])
        return ObjectSizes(kind="uniform", low=low, high=high)
    if "lognormal" in value:
        table = value["lognormal"]
        return ObjectSizes(
            kind="lognormal",
            low=parse_size(table["min"]),
            high=parse_size(table["max"]),
            median=parse_size(table["median"]),
            sigma=table["sigma"],
        )
    weighted = [WeightedSize(bytes=parse_size(t), weight=w) for t, w in value.items()]
    return ObjectSizes(kind="weighted", sizes=weighted)


def bounds_of(value: SizeValue) -> tuple[int, int]:
    """Return the smallest and the largest object size in bytes."""
    sizes = sizes_of(value)
    if sizes.sizes:
        every = [size.bytes for size in sizes.sizes]
        return min(every), max(every)
    return sizes.low, sizes.high


def mean_size(value: SizeValue) -> float:
    """Return the mean object size in bytes; log-normal distributions are cut at their bounds."""
    low, high = bounds_of(value)
    return min(max(_mean(sizes_of(value)), low), high)  # rounding may exceed the bounds


def _mean(sizes: ObjectSizes) -> float:
    if sizes.kind in ("fixed", "weighted"):
        total = sum(size.weight for size in sizes.sizes)
        return sum(size.bytes * size.weight for size in sizes.sizes) / total
    if sizes.kind == "uniform":
        return (sizes.low + sizes.high) / 2
    sigma = sizes.sigma
    a, b = (math.log(bound / sizes.median) / sigma for bound in (sizes.low, sizes.high))
    # The mean of a truncated log-normal uses the interval moved left by sigma.
    shifted = _cdf(b - sigma) - _cdf(a - sigma)
    within = _accepted(sizes.low, sizes.median, sizes.high, sigma)
    return sizes.median * math.exp(sigma**2 / 2) * shifted / within


def describe_sizes(value: object) -> str | None:
    """Describe a table of sizes, as ``1 MiB to 8 MiB``; None for a single size."""
    if not isinstance(value, Mapping):
        return None
    if "uniform" in value:
        low, high = (_spaced(bound) for bound in value["uniform"])
        return f"{low} to {high}"
    if "lognormal" in value:
        table = value["lognormal"]
        return (
            f"log-normal about {_spaced(table['median'])} (sigma {table['sigma']:g}, "
            f"{_spaced(table['min'])} to {_spaced(table['max'])})"
        )
    total = sum(value.values())
    return ", ".join(
        f"{significant(100 * w / total, 3)}\u00a0% {_spaced(t)}" for t, w in value.items()
    )


def _spaced(text: str) -> str:
    digits = text.rstrip("BKMGTPi")
    return f"{digits}\u00a0{text[len(digits) :]}"


_size = {"type": "string", "pattern": SIZE_PATTERN}
_size_or_bytes = {"anyOf": [_size, {"type": "integer", "exclusiveMinimum": 0}]}

ObjectSize = Annotated[
    int | dict[str, Any],
    BYTES,
    BeforeValidator(read_object_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN, "examples": ["64KiB", "4MiB"]},
                {"type": "integer", "exclusiveMinimum": 0},
                {
                    "type": "object",
                    "properties": {
                        "uniform": {
                            "type": "array",
                            "items": _size_or_bytes,
                            "minItems": 2,
                            "maxItems": 2,
                        }
                    },
                    "required": ["uniform"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {
                        "lognormal": {
                            "type": "object",
                            "properties": {
                                "median": _size_or_bytes,
                                "sigma": {"type": "number", "exclusiveMinimum": 0},
                                "min": _size_or_bytes,
                                "max": _size_or_bytes,
                            },
                            "required": list(_LOGNORMAL),
                            "additionalProperties": False,
                        }
                    },
                    "required": ["lognormal"],
                    "additionalProperties": False,
                },
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
"""Type of ``object_size`` in a study."""
