"""Conversion of pydantic's validation errors of a study to plain messages with line and fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from storlab.base.errors import FieldProblems, StudyError
from storlab.base.nearest import suggest
from storlab.base.units import show
from storlab.lab.study.toml_lines import Path, nearest_line
from storlab.model.bounds import bound_text, find_in_schema, models_in

_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "string": "text in quotes",
    "bool": "true or false",
    "dict": "a table",
    "model": "a table",
    "list": "a list",
}


class Explainer:
    """Converts pydantic's validation errors of one file to problems that a user understands.

    A problem is a dict with the keys ``line``, ``where``, ``what`` and ``fix``.
    """

    def __init__(
        self, file: str, lines: dict[Path, int], data: dict[str, Any], model: type[BaseModel]
    ) -> None:
        self.file = file
        self.lines = lines
        self.data = data
        self.model = model

    def problem(self, path: Path, what: str, fix: str = "") -> dict[str, Any]:
        """Return a problem with one field, including the field's line in the file."""
        line = nearest_line(self.lines, path)
        place = self.file if line is None else f"{self.file}:{line}"
        where = f"{place}: {describe(path)}" if path else place
        return {"line": line, "where": where, "what": what, "fix": fix}

    def explain(self, error: ValidationError) -> list[dict[str, Any]]:
        """Convert a validation error to problems in file order, one per field and message."""
        explained: dict[tuple[Path, str], dict[str, Any]] = {}
        for detail in error.errors(include_url=False):
            path = self._real_path(detail["loc"], detail["type"])
            if detail["type"] == "union_tag_invalid":
                path = (*path, "kind")  # pydantic selects the family's table by its "kind"
            cause = detail.get("ctx", {}).get("error")
            if isinstance(cause, FieldProblems):
                for problem in cause.problems:
                    where = (*path, *problem.field)
                    explained[where, problem.what] = self.problem(where, problem.what, problem.fix)
            else:
                what, fix = self._say(path, detail["type"], detail)
                explained[path, what] = self.problem(path, what, fix)
        return sorted(explained.values(), key=lambda p: p["line"] or 0)

    def _real_path(self, loc: tuple[str | int, ...], kind: str) -> Path:
        """Return the path of a wrong field, without names that pydantic adds for union members."""
        node: Any = self.data
        real: Path = ()
        for position, part in enumerate(loc):
            is_key = isinstance(node, dict) and part in node
            is_index = isinstance(node, list) and isinstance(part, int) and part < len(node)
            if is_key or is_index:
                node = node[part]
                real = (*real, part)
            elif kind == "missing" and position == len(loc) - 1:
                real = (*real, part)
        return real

    def _say(self, path: Path, kind: str, detail: Any) -> tuple[str, str]:
        value = detail["input"]
        context = detail.get("ctx", {})
        name = str(path[-1]) if path else "the file"
        if broken := bound_text(detail, lambda: self._schema_at(path)):
            return broken, self._example(path)
        wanted = _WANTED.get(kind.split("_", maxsplit=1)[0])
        if kind == "missing":
            problem = f"{name} is missing", self._add(path)
        elif kind == "extra_forbidden":
            problem = self._unknown(path)
        elif kind == "literal_error" or kind.startswith("union_tag"):
            problem = self._no_such_choice(path, value)
        elif kind == "too_long":
            most = context["max_length"]
            problem = f"has {len(value):,} entries, more than {most:,}", "remove entries"
        elif kind in ("too_short", "string_too_short"):
            problem = "is empty", self._example(path)
        elif kind == "value_error":
            problem = str(context.get("error", detail["msg"])), self._example(path)
        elif wanted is not None:
            problem = self._wrong_type(path, wanted, value)
        else:
            problem = f"{detail['msg']} (given: {show(value)})", self._example(path)
        return problem

    def _wrong_type(self, path: Path, wanted: str, value: Any) -> tuple[str, str]:
        if wanted == "a list" and path in (("target",), ("workload",), ("gate",)):
            return "needs two brackets, as there may be several", f"write [[{path[0]}]]"
        if isinstance(value, list) and wanted != "a list":
            return "takes one value, not a list", "write one workload for each value"
        what = f"must be {wanted}, not {show(value)}"
        if isinstance(value, str) and wanted in ("a whole number", "a number", "true or false"):
            try:
                float(value)
            except ValueError:
                if value.lower() not in ("true", "false"):
                    return what, self._example(path)
            # The last part of the path is an index if the value is an element of a list.
            field = f"{path[-1]} = " if isinstance(path[-1], str) else ""
            return what, f"remove the quotes: {field}{value.lower()}"
        if wanted == "text in quotes" and isinstance(value, (int, float)):
            field = f"{path[-1]} = " if isinstance(path[-1], str) else ""
            return what, f'put it in quotes: {field}"{show(value)}"'
        return what, self._example(path)

    def _no_such_choice(self, path: Path, value: Any) -> tuple[str, str]:
        if path and isinstance(path[-1], int) and isinstance(self._table_at(path), dict):
            path = (*path, "kind")
        if path and path[-1] == "kind" and isinstance(value, dict):
            value = value.get("kind")
        choices = self._choices(path)
        names = ", ".join(f'"{c}"' for c in choices)
        if value is None:
            return f"{path[-1]} is missing", f"add {path[-1]} with one of {names}"
        if not isinstance(value, str):
            return f"must be one of {names}, not {show(value)}", ""
        return f"must be one of {names}, not {show(value)}", suggest(value, choices)

    def _unknown(self, path: Path) -> tuple[str, str]:
        owner = self._model_at(path[:-1])
        fields = list(owner.model_fields) if owner else []
        if len(path) == 1:
            fix = suggest(str(path[0]), self._tables())
            return f"there is no table or field {path[0]} here", fix
        what = f"{path[-1]} is not a field of {describe(path[:-1])}"
        return what, suggest(str(path[-1]), fields)

    def _tables(self) -> list[str]:
        fields = self.model.model_fields.items()
        return [f"[[{n}]]" if get_origin(f.annotation) is list else f"[{n}]" for n, f in fields]

    def _add(self, path: Path) -> str:
        example = self._example_value(path)
        if len(path) == 1:
            return f"add a {describe(path)} table"
        return f"add {path[-1]} = {example}" if example else f"add {path[-1]}"

    def _example(self, path: Path) -> str:
        names = [part for part in path if isinstance(part, str)]
        example = self._example_value(path)
        return f"for example {names[-1]} = {example}" if names and example else ""

    def _example_value(self, path: Path) -> str:
        schema = self._schema_at(path)
        example = find_in_schema(schema, "default")
        if example is None:
            example = (
                find_in_schema(schema, "examples") or find_in_schema(schema, "enum") or [None]
            )[0]
        if example is None:
            by_type = {"string": "...", "integer": 8, "number": 50, "boolean": True}
            example = by_type.get(find_in_schema(schema, "type") or "")
        if isinstance(example, list) and example:
            return f"[{', '.join(show(value) for value in example)}]"
        return show(example) if isinstance(example, (str, int, float)) else ""

    def _choices(self, path: Path) -> list[str]:
        if path[-1] == "kind" and path[0] == "workload" and len(path) == 3:
            return [str(_const(family)) for family in self._families()]
        return [str(c) for c in find_in_schema(self._schema_at(path), "enum") or []]

    def _schema_at(self, path: Path) -> Any:
        while path and isinstance(path[-1], int):
            path = path[:-1]
        owner = self._model_at(path[:-1])
        if owner is None or not path or path[-1] not in owner.model_fields:
            return {}
        if path[-1] == "kind" and owner in self._families():
            return {"default": _const(owner)}
        return owner.model_json_schema()["properties"][path[-1]]

    def _table_at(self, path: Path) -> Any:
        node: Any = self.data
        for part in path:
            node = node[part]
        return node

    def _families(self) -> list[type[BaseModel]]:
        return models_in(self.model.model_fields["workload"].annotation)

    def _model_at(self, path: Path) -> type[BaseModel] | None:
        """Return the pydantic model of the table at ``path``; for a workload, by its kind."""
        owner: type[BaseModel] | None = self.model
        for position, part in enumerate(path):
            if isinstance(part, int):
                continue
            if owner is None or part not in owner.model_fields:
                return None
            models = models_in(owner.model_fields[part].annotation)
            if position == 0 and part == "workload" and len(models) > 1:
                table = self._table_at(path[:2]) if len(path) > 1 else {}
                kind = table.get("kind") if isinstance(table, dict) else None
                models = [m for m in models if _const(m) == kind]
            owner = models[0] if models else None
        return owner


def describe(path: Path) -> str:
    """Format a field's path for messages, such as ``[[workload]] #2 block_size``."""
    first, rest = path[0], path[1:]
    text = str(first)
    if first in ("study", "brief"):
        text = f"[{first}]"
    elif first in ("target", "workload", "gate"):
        text = f"[[{first}]]"
    separator = " "
    for part in rest:
        text += f" #{part + 1}" if isinstance(part, int) else f"{separator}{part}"
        separator = " " if isinstance(part, int) else "."
    return text


def study_error(file: str, problems: Sequence[dict[str, Any]]) -> StudyError:
    """Return one StudyError that lists all problems of a file."""
    if len(problems) == 1:
        only = problems[0]
        return StudyError(only["where"], only["what"], only["fix"], problems)
    return StudyError(file, f"{len(problems)} problems", "", problems)


def _const(family: type[BaseModel]) -> Any:
    return get_args(family.model_fields["kind"].annotation)[0]
