"""JSON Schema of the study file, derived from the pydantic models that validate it."""

from __future__ import annotations

from typing import Any

from storlab.contracts.registry import study_class

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NOT_KEYWORDS = ("gt", "ge", "lt", "le")


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of study files, for editors and other validators.

    The schema covers fields, types and bounds. Rules that involve several fields are checked only
    by ``storlab plan``.
    """
    schema = _cleaned(study_class().model_json_schema(mode="validation"))
    workloads = schema["properties"]["workload"]
    if "discriminator" in workloads["items"]:
        workloads["items"] = _by_kind(workloads["items"]["discriminator"], schema["$defs"])
    return {**schema, "$schema": DIALECT, "title": "storlab study"}


def _by_kind(discriminator: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a workload table, which depends on the value of ``kind``.

    With ``oneOf``, an editor could only report that no family matches. With ``if``/``then``, it can
    name the wrong field. The fields of all families are also listed without constraints, so that
    editors can complete them.
    """
    name, mapping = discriminator["propertyName"], discriminator["mapping"]
    tables = {kind: definitions[ref.rpartition("/")[2]] for kind, ref in mapping.items()}
    told: dict[str, Any] = {}
    for table in tables.values():
        for field, rules in table["properties"].items():
            told.setdefault(field, {"description": rules.get("description", "")})
    return {
        "type": "object",
        "required": [name],
        "properties": {**told, name: {**told[name], "enum": list(mapping)}},
        "allOf": [
            {
                "if": {"required": [name], "properties": {name: {"const": kind}}},
                "then": {"$ref": ref},
            }
            for kind, ref in mapping.items()
        ],
    }


def _cleaned(node: Any) -> Any:
    """Remove non-standard keywords, which pydantic writes for the bounds of size fields."""
    if isinstance(node, dict):
        return {
            key: _cleaned(value)
            for key, value in node.items()
            if not (key in _NOT_KEYWORDS and isinstance(value, (int, float)))
        }
    return [_cleaned(item) for item in node] if isinstance(node, list) else node
