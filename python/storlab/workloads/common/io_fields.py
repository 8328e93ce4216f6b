"""Types of parameters of I/O by blocks: region, rate, arrival process, CPU numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from storlab.base.errors import Problem
from storlab.base.units import exact_number, format_size, parse_size
from storlab.model.job import LARGEST_IO, MOST_IN_FLIGHT, Arrival
from storlab.model.types import BYTES, SIZE_PATTERN

QUEUE_DEPTH_COLUMNS = ("iodepth", "qd", "queue_depth")
"""Column names of the queue depth in tables of other tools and publications."""
PERCENT_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"


def _read_region(value: object) -> int | str:
    """Check the start or size of a region; return bytes, or a percentage such as ``"25%"``."""
    if not isinstance(value, str) or not value.strip().endswith("%"):
        return parse_size(value)  # type: ignore[arg-type]
    try:
        percent = float(value.strip()[:-1])
    except ValueError:
        raise ValueError(f'"{value}" is not a percentage such as "25%"') from None
    if not 0 <= percent <= 100:
        raise ValueError(f'"{value}" is not between 0 % and 100 %')
    return f"{percent:g}%"


def read_block(value: object) -> int:
    """Check the size of one I/O: more than 0 bytes, and at most the engine's largest buffer."""
    size = parse_size(value)  # type: ignore[arg-type]
    if size == 0:
        raise ValueError("a block cannot have 0 bytes")
    if size > LARGEST_IO:
        raise ValueError(f"a block can have at most {format_size(LARGEST_IO)}")
    return size


def numbered(unit: str) -> AfterValidator:
    """Return a validator for a list of CPU or GPU numbers, which must not repeat a number.

    Args:
        unit: What is numbered, for messages: ``CPU`` or ``GPU``.
    """

    def checked(numbers: list[int]) -> list[int]:
        if any(number < 0 for number in numbers):
            raise ValueError(f"{unit} numbers start at 0")
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"a {unit} is listed twice; list each once: threads use them in turn")
        return numbers

    return AfterValidator(checked)


def mix_phrase(reads: float, trims: float = 0.0) -> str:
    """Describe percentages of operations in a phrase, such as ``20/50/30 read/write/trim``."""
    if trims == 100:
        return "trims only"
    if trims:
        return (
            f"{exact_number(reads)}/{exact_number(100 - reads - trims)}/{exact_number(trims)} "
            "read/write/trim"
        )
    if reads in (0, 100):
        return "reads only" if reads else "writes only"
    return f"{exact_number(reads)}/{exact_number(100 - reads)} read/write"


Region = Annotated[
    int | str,
    BYTES,
    BeforeValidator(_read_region),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"{PERCENT_PATTERN}|{SIZE_PATTERN}"},
                {"type": "integer", "minimum": 0},
            ]
        }
    ),
]
REGION_START: Any = Field(
    default=0,
    description='start of the I/O in each file or device: a size, or a share such as "25%"',
)
REGION_SIZE: Any = Field(
    default=None,
    description="length of the used part of each file or device: a size or a share; by default "
    "up to the end",
)
Percent = Annotated[float, Field(ge=0, le=100)]
Rate = Annotated[float, Field(gt=0, le=1e9)]
Count = Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)]
Access = Literal["random", "sequential"]
ArrivalKind = Literal["constant", "poisson"]
Cpus = Annotated[list[int], Field(min_length=1), numbered("CPU")]


def arrival_of(rate_iops: float | None, arrival: str | None) -> Arrival:
    """Return the arrival process of a load: a closed loop if the study sets no rate.

    With a rate, it is an open loop with the study's arrival process, by default ``constant``.
    """
    if rate_iops is None:
        return Arrival()
    return Arrival.model_validate({"kind": arrival or "constant", "rate_iops": rate_iops})


def arrival_problems(arrival: str | None, rate: float | None, rated: str) -> Iterator[Problem]:
    """Yield a problem if a study sets ``arrival`` for a closed loop.

    Args:
        arrival: Arrival process that the study sets; None if not set.
        rate: Rate or load level of the open loop; None for a closed loop.
        rated: Line of a study that sets a rate, as a suggestion for the message.
    """
    if arrival is not None and rate is None:
        what = "needs an open loop, but without a rate the load is a closed loop"
        yield Problem(("arrival",), what, f"add {rated}, or remove arrival")
