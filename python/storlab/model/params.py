"""The parameters of a point, typed. A family declares each once, for its points and its table.

The table of a study has the same fields, but may list what is swept, and spells some values as
people do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from storlab.base.units import parse_duration
from storlab.model.types import Duration, Swept

ItemT = TypeVar("ItemT")
_SWEPT = "swept"

Sweep = Annotated[ItemT, _SWEPT]
"""A parameter that a study may sweep: one value in a point, one or a list of them in the table."""


@dataclass(frozen=True, slots=True)
class InStudy:
    """What the table takes where a point has another type."""

    form: Any


def _spelled(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Nanoseconds = Annotated[int, BeforeValidator(_spelled), Field(ge=0), InStudy(Duration)]
"""Of a point: a number is nanoseconds, where the table takes seconds."""


class Params(BaseModel):
    """What one point of a family says. What it does not know is left out: importers say more."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", validate_default=True, allow_inf_nan=False
    )

    absent: ClassVar[Mapping[str, Any]] = {}
    """What results from before a parameter mean by not having it, where that is no default."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Of a point or a stored run. Raises pydantic's ValidationError, which names the field."""
        return cls.model_validate({**cls.absent, **values})

    @classmethod
    def combined(cls, values: Mapping[str, Any]) -> Self:
        """Of a combination that a study's table has read, and that is not checked again."""
        return cls.model_construct(**values)

    @classmethod
    def every(cls, combinations: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Of many of them."""
        return [cls.combined(values) for values in combinations]


def table_fields(params: type[Params]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Which parameters a study may sweep, and all fields of its table by name, for pydantic.

    A parameter without a description is no field: storlab itself adds it to a point.
    """
    hints = get_type_hints(params, include_extras=True)
    described = {n: info for n, info in params.model_fields.items() if info.description}
    swept = tuple(name for name in described if _SWEPT in get_args(hints[name]))
    return swept, {
        name: (
            _in_table(hints[name]),
            Field(default=info.default, description=info.description, examples=info.examples),
        )
        for name, info in described.items()
    }


def _in_table(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(_in_table(alternative) for alternative in get_args(annotation))]  # noqa: UP007
    if get_origin(annotation) is not Annotated:
        return annotation
    plain, *metadata = get_args(annotation)
    form = next((mark for mark in metadata if isinstance(mark, InStudy)), None)
    if form is not None:
        plain, metadata = form.form, metadata[metadata.index(form) + 1 :]
    else:
        plain = _in_table(plain)
    if _SWEPT not in metadata:
        return Annotated[(plain, *metadata)] if metadata else plain
    metadata.remove(_SWEPT)
    swept: Any = Swept
    optional = get_origin(plain) in (Union, UnionType) and NoneType in get_args(plain)
    if not optional:
        return swept[Annotated[(plain, *metadata)] if metadata else plain]
    return swept[Union[tuple(form for form in get_args(plain) if form is not NoneType)]] | None  # noqa: UP007
