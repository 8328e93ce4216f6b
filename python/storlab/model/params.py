"""Typed parameters of a point, which each workload family declares once.

The family's table in a study is derived from them. It has the same fields, but accepts lists for
swept parameters, and values with units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
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
"""Parameter that a study may sweep: one value in a point, one or several in the study's table."""


@dataclass(frozen=True, slots=True)
class InStudy:
    """Annotation with a parameter's type in a study, if it differs from the type in a point."""

    form: Any


def _spelled(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Nanoseconds = Annotated[int, BeforeValidator(_spelled), Field(ge=0), InStudy(Duration)]
"""Duration of a point in ns; the study's table reads numbers as seconds."""


class Params(BaseModel):
    """Parameters of one point; unknown ones are ignored, because importers add their own."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", validate_default=True, allow_inf_nan=False
    )

    absent: ClassVar[Mapping[str, Any]] = {}
    """Meaning of missing parameters in old results, if it differs from the default."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Validate the parameters of a point or stored run; raise pydantic's ValidationError."""
        return cls.model_validate({**cls.absent, **values})

    @classmethod
    def marked(cls, mark: object) -> frozenset[str]:
        """Return the names of parameters whose annotation contains a mark like ``types.BYTES``."""
        return _marked(cls, mark)

    @classmethod
    def combined(cls, values: Mapping[str, Any]) -> Self:
        """Build parameters without validation, from values that the study's table validated."""
        return cls.model_construct(**values)

    @classmethod
    def every(cls, combinations: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Build the parameters of several points without validation, see :meth:`combined`."""
        return [cls.combined(values) for values in combinations]


@cache
def _marked(params: type[Params], mark: object) -> frozenset[str]:
    hints = get_type_hints(params, include_extras=True)
    return frozenset(name for name, hint in hints.items() if mark in _parts(hint))


def _parts(annotation: Any) -> list[Any]:
    """Return an annotation's types and metadata at any depth."""
    metadata = getattr(annotation, "__metadata__", ())
    return [*metadata, *(part for inner in get_args(annotation) for part in _parts(inner))]


def table_fields(
    params: type[Params], *, sweeps: bool = True
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of sweepable parameters, and the fields of the family's study table.

    Parameters without a description are not fields of the table, because storlab sets them.

    Args:
        params: Parameters of the family's points.
        sweeps: Whether fields of sweepable parameters accept lists of values.
    """
    hints = get_type_hints(params, include_extras=True)
    described = {n: info for n, info in params.model_fields.items() if info.description}
    swept = tuple(name for name in described if _SWEPT in get_args(hints[name]))
    return swept, {
        name: (
            _in_table(hints[name], sweeps),
            Field(default=info.default, description=info.description, examples=info.examples),
        )
        for name, info in described.items()
    }


def _in_table(annotation: Any, sweeps: bool) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        forms = tuple(_in_table(alternative, sweeps) for alternative in get_args(annotation))
        return Union[forms]  # noqa: UP007
    if get_origin(annotation) is not Annotated:
        return annotation
    plain, *metadata = get_args(annotation)
    form = next((mark for mark in metadata if isinstance(mark, InStudy)), None)
    if form is not None:
        plain, metadata = form.form, metadata[metadata.index(form) + 1 :]
    else:
        plain = _in_table(plain, sweeps)
    if _SWEPT not in metadata:
        return Annotated[(plain, *metadata)] if metadata else plain
    metadata.remove(_SWEPT)
    if not sweeps:
        return Annotated[(plain, *metadata)] if metadata else plain
    swept: Any = Swept
    optional = get_origin(plain) in (Union, UnionType) and NoneType in get_args(plain)
    if not optional:
        return swept[Annotated[(plain, *metadata)] if metadata else plain]
    return swept[Union[tuple(form for form in get_args(plain) if form is not NoneType)]] | None  # noqa: UP007
