"""What differs between the machines, targets and settings of two result directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from storlab.lab.results.store import ResultStore

FactPath = tuple[str, ...]
KeyT = TypeVar("KeyT")

_PASSING = frozenset({"schema_version", "recorded_at", "guard", "engines", "cluster", "versions"})
"""Of environment.json what says nothing of the numbers, or is looked at more closely."""
_SETTINGS = ("ramp", "runtime", "settle", "interval")


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that has two values. It is named as a path: ``cpu.model``."""

    field: str
    here: Any
    there: Any

    def within(self, path: str) -> bool:
        """Whether the field is this one, or lies below it."""
        return self.field == path or self.field.startswith(f"{path}.")


def facts_by_path(value: Any, *above: str) -> dict[FactPath, Any]:
    """Nested facts made flat; what lies in a list of tables goes by its number, from 1."""
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        value = dict(enumerate(value, 1))
    if not isinstance(value, Mapping):
        return {above: value}
    facts: dict[FactPath, Any] = {}
    for name, inner in value.items():
        facts |= facts_by_path(inner, *above, str(name))
    return facts


def differing(environments: Sequence[Mapping[KeyT, Any]]) -> list[KeyT]:
    """Of flat facts those that are not the same in all, in the order of the first that has them."""
    first = environments[0] if environments else {}
    paths = dict.fromkeys(path for facts in environments for path in facts)
    return [p for p in paths if any(facts.get(p) != first.get(p) for facts in environments)]


def differences(here: ResultStore, there: ResultStore) -> list[Difference]:
    """In the order of the one; of targets and engines only those that both have."""
    return between(facts(here), facts(there))


def between(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[Difference]:
    """The same of facts that were taken before."""
    return [
        Difference(path, here.get(path), there.get(path))
        for path in differing((here, there))
        if not path.startswith(("targets.", "engines.")) or (path in here and path in there)
    ]


def unaccepted(found: Sequence[Difference], accepted: Sequence[str]) -> list[Difference]:
    """Those that nobody said would do."""
    return [each for each in found if not any(each.within(path) for path in accepted)]


def facts(store: ResultStore) -> dict[str, Any]:
    """What bears on the numbers of a result directory: values by their path, ``cpu.model``."""
    environment, header = store.environment, store.study.study
    used = {point.engine for point in store.plan.points.values()}
    engines = environment.get("engines", {})
    found = {
        **{name: value for name, value in environment.items() if name not in _PASSING},
        "versions": {"storlab": environment.get("versions", {}).get("storlab")},
        "engines": {name: engines[name] for name in sorted(used) if name in engines},
        "settings": {name: getattr(header, name) for name in _SETTINGS},
    }
    return {".".join(path): value for path, value in facts_by_path(found).items()}
