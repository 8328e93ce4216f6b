"""Detection of import cycles among Python or Rust modules."""

from __future__ import annotations


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or indirectly."""
    found: list[list[str]] = []
    for module in sorted(imports):
        reachable = _reachable(imports, module)
        circle = sorted(name for name in reachable if module in _reachable(imports, name))
        if module in reachable and circle not in found:
            found.append(circle)
    return found


def _reachable(imports: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(imports.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imports.get(name, ())
    return seen
