"""The schema of a study in parts: what all studies share, and a part for each family of work.

A change of one family, or one more of them, changes no part of another. ``.venv/bin/python -m
tests.support.schema_parts`` writes them to ``tests/golden/schema``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from storlab.lab.study.json_schema import study_schema

PLACE = Path(__file__).parents[1] / "golden" / "schema"
COMMON = "study.json"


def schema_parts() -> dict[str, str]:
    """File name and text. The list of all families is in no part: it is made of them."""
    schema = study_schema()
    rules = schema["properties"]["workload"].pop("items")["allOf"]
    tables = {rule["if"]["properties"]["kind"]["const"]: rule["then"]["$ref"] for rule in rules}
    definitions = schema.pop("$defs")
    shared = set(_reached(schema, definitions))
    parts = {COMMON: {**schema, "$defs": {name: definitions[name] for name in sorted(shared)}}}
    for kind, ref in tables.items():
        own = sorted({*_reached({"$ref": ref}, definitions)} - shared)
        parts[f"{kind}.json"] = {name: definitions[name] for name in own}
    return {name: json.dumps(part, indent=2) + "\n" for name, part in parts.items()}


def _reached(node: Any, definitions: dict[str, Any]) -> Iterator[str]:
    """Names of the definitions that a part of the schema leads to. They lead in no circle."""
    if isinstance(node, dict):
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            yield name
            yield from _reached(definitions[name], definitions)
        for value in node.values():
            yield from _reached(value, definitions)
    elif isinstance(node, list):
        for item in node:
            yield from _reached(item, definitions)


if __name__ == "__main__":
    for name, text in schema_parts().items():
        (PLACE / name).write_text(text)
