"""The JSON Schema of the study file, made from the models that check it."""

from __future__ import annotations

from typing import Any

from storlab.contracts.registry import study_class

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NOT_KEYWORDS = ("gt", "ge", "lt", "le")


def study_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a study file, for editors and for checking without storlab.

    It knows fields, types and bounds; what goes together only ``storlab plan`` knows.
    """
    schema = _cleaned(study_class().model_json_schema(mode="validation"))
    return {**schema, "$schema": DIALECT, "title": "storlab study"}


def _cleaned(node: Any) -> Any:
    """Without the bounds of sizes, which pydantic writes under names of its own."""
    if isinstance(node, dict):
        return {
            key: _cleaned(value)
            for key, value in node.items()
            if not (key in _NOT_KEYWORDS and isinstance(value, (int, float)))
        }
    return [_cleaned(item) for item in node] if isinstance(node, list) else node
