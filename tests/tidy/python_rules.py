"""House rules for Python source: functions from text to a list of complaints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

FLOORS = (
    "_native",
    "base",
    "model",
    "contracts",
    "process",
    "stores",
    "workloads",
    "engines",
    "meters",
    "cluster",
    "power",
    "health",
    "results",
    "analysis",
    "lab",
    "audit",
    "words",
    "figures",
    "brief",
    "history",
    "exchange",
    "live",
    "api",
    "cli",
)
"""Packages from lowest to highest floor; each may import itself and those before it."""

# Some files in a family's or engine's folder belong to the floor that calls them: they are found
# through the registry and only stored in the folder.
ROOMS = {
    "figures": "figures",
    "findings": "brief",
    "capacity_answer": "words",
    "saturation": "words",
    "outputs": "analysis",
    "audit": "audit",
    "importer": "exchange",
    "importer_options": "exchange",
    "translation": "exchange",
    "translator": "exchange",
    "exporter": "exchange",
    "commands": "cli",
    "standalone": "lab",
}

_DOTTED = re.compile(r"storlab\.[a-z_]+(?:\.[a-z_]+)+(?::\w+)?")


def imports(source: str, module: str) -> Iterator[tuple[int, str]]:
    """Return ``(line, module)`` for each storlab module that a module depends on.

    Includes imports at any depth, and names in strings, by which commands and engines are
    registered. ``module`` is dotted, as ``storlab.lab.run.campaign``.
    """
    for node in ast.walk(ast.parse(source)):
        for name in _imported(node, module):
            parts = name.split(":")[0].split(".")
            if parts[0] == "storlab" and len(parts) > 1:
                yield getattr(node, "lineno", 0), ".".join(parts)


def _imported(node: ast.AST, module: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".")[: -node.level]
            base = ".".join([*package, *([base] if base else [])])
        if base == "storlab":
            named = [alias.name for alias in node.names if not alias.name.startswith("__")]
            return [f"storlab.{name}" for name in named]
        return [base]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        # A hook that a family names as module:function is loaded by a higher floor: not an import.
        hook = ":" in node.value and module.split(".")[1] == "workloads"
        return [node.value] if _DOTTED.fullmatch(node.value) and not hook else []
    return []


def floor_complaints(source: str, module: str) -> list[str]:
    """Complain about imports that do not go to a lower floor."""
    own = floor_of(module)
    complaints = []
    for line, name in imports(source, module):
        package = name.split(".")[1]
        if package not in FLOORS:
            complaints.append(f"line {line}: storlab.{package} is on no floor")
        elif floor_of(name) > own:
            complaints.append(f"line {line}: {module} must not import {name}, which lies above it")
    return complaints


def floor_of(module: str) -> int:
    """Return the number of a dotted module's floor, counted from the lowest."""
    parts = module.split(".")
    place = parts[1]
    if place in ("workloads", "engines") and len(parts) > 3:
        # Declarations of figures; the drawing code is in their files.
        is_list = parts[3:] == ["figures"]
        place = place if is_list else ROOMS.get(parts[3], place)
    return FLOORS.index(place)


def modules_of(source: str, module: str, known: set[str]) -> Iterator[str]:
    """Return the known modules that a module imports at any depth, without its parent packages.

    Hooks in strings do not count, because they are loaded when all modules are imported.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            (base,) = _imported(node, module) if node.module != "storlab" else ("storlab",)
            for alias in node.names:
                found = f"{base}.{alias.name}"
                yield found if found in known else base
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def family_complaints(source: str, kind: str) -> list[str]:
    """Complain about a family's name in a module: as a string, class or imported module.

    Names that are common English words count only if they are the whole string.
    """
    title = kind.capitalize()
    camel = re.compile(rf"^_?{title}[A-Z]")
    complaints = []
    tree = ast.parse(source)
    plain = {id(value) for value in _plain_words(tree)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and node.value == kind and id(node) not in plain:
            complaints.append(f'line {line}: "{kind}"')
        elif isinstance(node, ast.ImportFrom) and f".workloads.{kind}" in f".{node.module}":
            complaints.append(f"line {line}: from {node.module} import")
        elif isinstance(node, (ast.ClassDef, ast.Name)):
            name = node.name if isinstance(node, ast.ClassDef) else node.id
            if camel.match(name):
                complaints.append(f"line {line}: {name}")
    return complaints


def _plain_words(tree: ast.AST) -> Iterator[ast.expr]:
    """Return values of ``"type"``, as in a JSON schema."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "type")


def unfinished_complaints(source: str) -> list[str]:
    """Complain about ``NotImplementedError`` and about tests skipped without a reason."""
    complaints = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            complaints.append(f"line {line}: NotImplementedError")
        elif isinstance(node, ast.Call) and not _gives_reason(node):
            complaints.append(f"line {line}: {ast.unparse(node.func)} without a reason")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            marks = {ast.unparse(decorator) for decorator in node.decorator_list}
            if marks & {"pytest.mark.skip", "pytest.mark.xfail"}:
                complaints.append(f"line {line}: {node.name} is skipped without a reason")
    return complaints


def _gives_reason(call: ast.Call) -> bool:
    called = ast.unparse(call.func)
    named = any(keyword.arg == "reason" for keyword in call.keywords)
    if called in ("pytest.skip", "pytest.xfail", "pytest.mark.skip"):
        return named or bool(call.args)
    if called in ("pytest.mark.skipif", "pytest.mark.xfail"):
        return named
    return True
