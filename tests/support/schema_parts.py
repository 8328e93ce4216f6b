"""Study schema in parts: one part shared by all studies, and one per workload family.

A change to one family changes no other part. ``.venv/bin/python -m tests.support.schema_parts``
writes the parts to ``tests/golden/schema``.
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
    """Return the parts' texts by file name, without the list of families."""
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
    """Return the names of the definitions that a schema part references; there are no cycles."""
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
