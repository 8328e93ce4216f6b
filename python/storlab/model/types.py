"""Field types common to all models: sizes and durations with units, and strict tables."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from storlab.base.units import parse_duration, parse_size

Count = Annotated[int, Field(ge=0)]
"""Non-negative number of things, bytes or nanoseconds."""
Amount = Annotated[float, Field(ge=0)]
"""Non-negative quantity."""
Provenance = Literal["measured", "declared", "modelled", "published", "emulated"]

SIZE_PATTERN = r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*([KMGTPkmgtp][Ii]?[Bb]|[Bb])?\s*$"
DURATION_PATTERN = r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*(ns|us|ms|s|min|h)?\s*$"

BYTES = "bytes"
"""Mark in the annotation of fields that hold a size, or sizes with weights."""

Size = Annotated[
    int,
    BYTES,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN, "examples": ["256KiB", "4MB"]},
                {"type": "integer", "minimum": 0},
            ],
            "description": "bytes, or a number with B, KB, MB, GB, TB (1,000s) "
            "or KiB, MiB, GiB, TiB (1,024s)",
        }
    ),
]
"""Size in bytes, from ``"256KiB"`` or an integer."""

Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": DURATION_PATTERN, "examples": ["300s", "10min"]},
                {"type": "number", "minimum": 0},
            ],
            "description": "a duration with ns, us, ms, s, min or h; a bare number means seconds",
        }
    ),
]
"""Duration in nanoseconds, from ``"300s"`` or a number of seconds."""

ItemT = TypeVar("ItemT")


def _one_or_many(value: object) -> str:
    return "many" if isinstance(value, (list, tuple)) else "one"


def _distinct(values: list[Any]) -> list[Any]:
    plain: set[Any] = set()
    tables: list[Any] = []  # a list, since tables are not hashable
    for value in values:
        if value in (tables if isinstance(value, (dict, list)) else plain):
            raise ValueError(f"{value!r} is in the list twice; remove one, as each value runs once")
        if isinstance(value, (dict, list)):
            tables.append(value)
        else:
            plain.add(value)
    return values


Swept = Annotated[
    Annotated[ItemT, Tag("one")]
    | Annotated[list[ItemT], Field(min_length=1), AfterValidator(_distinct), Tag("many")],
    Discriminator(_one_or_many),
]
"""One value, or a list of values to sweep; errors refer to the form that was used."""


class Table(BaseModel):
    """Immutable record; unknown fields are errors, so that misspelled ones are noticed."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )

    def dump(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        return self.model_dump(mode="json")


class StudyTable(Table):
    """Table of a study file; values are not converted (``"8"`` or ``true`` is not a number)."""

    model_config = ConfigDict(strict=True)
