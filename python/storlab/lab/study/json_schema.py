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
    workloads = schema["properties"]["workload"]
    if "discriminator" in workloads["items"]:
        workloads["items"] = _by_kind(workloads["items"]["discriminator"], schema["$defs"])
    return {**schema, "$schema": DIALECT, "title": "storlab study"}


def _by_kind(discriminator: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A workload's table: its kind says which definition holds.

    With ``oneOf`` alone an editor can only say that none of the families fits; so it names the
    field. The fields of all families are listed once more, without rules, for completion.
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
    """Without the bounds of sizes, which pydantic writes under names of its own."""
    if isinstance(node, dict):
        return {
            key: _cleaned(value)
            for key, value in node.items()
            if not (key in _NOT_KEYWORDS and isinstance(value, (int, float)))
        }
    return [_cleaned(item) for item in node] if isinstance(node, list) else node
