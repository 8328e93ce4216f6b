"""Messages for study values outside of a field's bounds, in the units that users write ("1ms")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from storlab.base.units import exact_duration, exact_number, format_size
from storlab.model.rack_and_cost import POWER_PATTERN
from storlab.model.types import DURATION_PATTERN, SIZE_PATTERN

_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_UNITS: dict[str, Callable[[Any], str]] = {
    SIZE_PATTERN: format_size,
    DURATION_PATTERN: exact_duration,
    POWER_PATTERN: lambda watts: f"{exact_number(watts)}W",
}


def bound_text(detail: Mapping[str, Any], schema: Callable[[], object]) -> str | None:
    """Return the message for a value out of bounds, such as "must be at least 1ms, not 1us".

    Args:
        detail: One of the errors of pydantic's ValidationError.
        schema: Function that returns the JSON Schema of the field, which distinguishes sizes and
            durations from numbers. It takes milliseconds, so it is only called if needed.

    Returns:
        The message, or None if the error is of another kind.
    """
    if detail["type"] not in _BOUNDS:
        return None
    key, words = _BOUNDS[detail["type"]]
    written = _UNITS.get(find_in_schema(schema(), "pattern") or "", exact_number)
    given = detail["input"]  # text for optional fields, otherwise a number
    shown = given if isinstance(given, str) else written(given)
    return f"must be {words} {written(detail['ctx'][key])}, not {shown}"


def schema_of(model: type[BaseModel], path: Sequence[str | int]) -> object:
    """Return the JSON Schema of the field at a path below a model; an empty one if there is none.

    Args:
        model: Model of the outermost table.
        path: Names of fields and indices of lists, as in pydantic's ``loc``.
    """
    names = [part for part in path if isinstance(part, str)]
    owner: type[BaseModel] | None = model
    for position, name in enumerate(names):
        if owner is None or name not in owner.model_fields:
            break
        inside = models_in(owner.model_fields[name].annotation)
        if position == len(names) - 1 or not inside:
            return owner.model_json_schema()["properties"][name]
        owner = inside[0]
    return {}


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the pydantic models that a type annotation contains, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def find_in_schema(schema: object, key: str) -> Any:
    """Return the first value of ``key`` anywhere in a JSON Schema, outermost first; None if none.

    Args:
        schema: JSON Schema, or a part of it.
        key: Keyword, such as "default".
    """
    if isinstance(schema, dict):
        if schema.get(key) is not None:
            return schema[key]
        parts = list(schema.values())
    elif isinstance(schema, list):
        parts = schema
    else:
        return None
    return next((value for part in parts if (value := find_in_schema(part, key)) is not None), None)
