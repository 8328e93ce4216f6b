"""Differences between the machines, targets and settings of two result directories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from storlab.analysis.points import sort_value
from storlab.analysis.settings import (
    cluster_settings,
    study_settings,
    target_settings,
    without_empty,
)

if TYPE_CHECKING:  # imports Arrow, which clients do not need because they keep no results
    from storlab.results.store import ResultStore

FactPath = tuple[str, ...]
KeyT = TypeVar("KeyT")

_PASSING = frozenset(
    {
        "schema_version",
        "recorded_at",
        "guard",
        "engines",
        "cluster",
        "targets",
        "versions",
        "imported",
    }
)
"""Entries of environment.json that do not affect the numbers or are compared separately."""
_OF_CLIENTS = (
    "host", "storlab", "build", "kernel", "cpu_model", "cpu_level", "cores", "memory_bytes",
    "mount", "nics",
)  # fmt: skip
_OF_MOUNTS = ("kind", "source", "options")  # total and free bytes change with the stored data
_PASSING_OPTIONS = frozenset({"lowerdir", "upperdir", "workdir", "clientaddr"})
"""Mount options that change without effect: a container's folders and the client's own address."""
_UNKNOWN_TO_OLD = frozenset(
    {
        "turbo",
        "idle_states",
        "transport",
        "numa_node",
        "pcie_link",
        "pcie_link_possible",
        "iommu",
        "paths",
    }
)
"""Facts that results of older versions lack: compared only if both sides have them."""
MEMORY_TOLERANCE = 0.03
"""Relative tolerance of memory sizes: more than kernels reserve, less than one memory module."""
_MEMORY = ("memory.total_bytes", "cluster.memory_bytes")
_DRIVE = re.compile(r"((?:.*\.)?drives)\.(\d+)\.([^.]+)")
_KERNELS_NAMES = ("name", "number")  # names of a drive that may change at each boot
_IDENTITY = ("serial", "loop_backing_file")

Drives = dict[str, dict[int, dict[str, Any]]]
"""Facts of numbered drives, by the path of their list."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Fact with different values in two environments; ``field`` is a path like ``cpu.model``."""

    field: str
    here: Any
    there: Any

    def within(self, path: str) -> bool:
        """Return whether the field is ``path`` or lies below it."""
        return self.field == path or self.field.startswith(f"{path}.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Fact of the environment that changed near a change of a metric, and may be its cause."""

    difference: Difference  # ``there`` is the value before the change
    offset: int  # number of results from the quantity's change to the fact's
    elsewhere: int  # number of other changes of the fact in this point's history


def facts_by_path(value: Any, *above: str) -> dict[FactPath, Any]:
    """Flatten nested facts to a dict by path; entries of a list of tables are numbered from 1."""
    if isinstance(value, list) and any(isinstance(element, Mapping) for element in value):
        value = dict(enumerate(value, 1))
    if not isinstance(value, Mapping):
        return {above: value}
    facts: dict[FactPath, Any] = {}
    for name, inner in value.items():
        facts |= facts_by_path(inner, *above, str(name))
    return facts


def differing(environments: Sequence[Mapping[KeyT, Any]]) -> list[KeyT]:
    """Return the paths whose values are not equal in all environments, in order of appearance."""
    first = environments[0] if environments else {}
    paths = dict.fromkeys(path for facts in environments for path in facts)
    return [p for p in paths if any(facts.get(p) != first.get(p) for facts in environments)]


def differences(here: ResultStore, there: ResultStore) -> list[Difference]:
    """Return the facts that differ between two result directories, of targets and engines in both.

    Settings that imported results do not state are left out.
    """
    targets = _shared({t.name for t in store.study.target} for store in (here, there))
    engines = _shared(_engines(store) for store in (here, there))
    changed = between(*(_facts(store, targets, engines) for store in (here, there)))
    if any("imported" in store.environment for store in (here, there)):
        changed = [d for d in changed if not (d.within("settings") and None in (d.here, d.there))]
    return changed


def _shared(names: Iterable[set[str]]) -> set[str]:
    return set.intersection(*names)


def between(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[Difference]:
    """Return the differences between two sets of facts, given as :func:`facts` returns them.

    Drives are matched by serial number, whatever their position; numbers in paths are those of
    ``here``. A drive that only one set contains is reported as a single difference. A fact that
    older versions did not record is compared only if both sides have it.
    """
    drives = _drives(here), _drives(there)
    lists = dict.fromkeys(path for side in drives for path in side)
    pairs = {path: _paired(*(side.get(path, {}) for side in drives)) for path in lists}
    plain = [
        Difference(path, here.get(path), there.get(path))
        for path in differing((here, there))
        if not _DRIVE.fullmatch(path) and not _alike(path, here.get(path), there.get(path))
    ]
    of_drives = (
        difference for path, pair in pairs.items() for difference in _of_drives(path, pair)
    )
    return [d for d in (*plain, *of_drives) if not _is_unknown_to_old(d)]


def _is_unknown_to_old(difference: Difference) -> bool:
    """Return whether one side does not state a fact, which may be because it is older."""
    name = difference.field.rpartition(".")[2]
    return name in _UNKNOWN_TO_OLD and None in (difference.here, difference.there)


def _alike(path: str, here: Any, there: Any) -> bool:
    """Return whether two different values are memory sizes that agree within the tolerance."""
    if not path.endswith(_MEMORY):
        return False
    sides = [value if isinstance(value, list) else [value] for value in (here, there)]
    most = max(map(len, sides))
    first, second = (side * most if len(side) == 1 else side for side in sides)
    return len(first) == len(second) and all(map(_near, first, second))


def _near(first: Any, second: Any) -> bool:
    if not isinstance(first, int) or not isinstance(second, int):
        return False
    return abs(first - second) <= MEMORY_TOLERANCE * max(first, second)


def _drives(facts: Mapping[str, Any]) -> Drives:
    drives: Drives = {}
    for path, value in facts.items():
        match = _DRIVE.fullmatch(path)
        if match is not None:
            listed, number, name = match.groups()
            drives.setdefault(listed, {}).setdefault(int(number), {})[name] = value
    return drives


Pair = tuple[dict[str, Any] | None, dict[str, Any] | None]


def _paired(
    here: Mapping[int, dict[str, Any]], there: Mapping[int, dict[str, Any]]
) -> dict[int, Pair]:
    """Pair the drives of two environments by serial number, and the rest in order."""
    left = dict(there)
    same = {
        number: left.pop(twin)
        for number, drive in here.items()
        if (twin := _same(drive, left)) is not None
    }
    others = iter([left[number] for number in sorted(left)])
    pairs: dict[int, Pair] = {
        number: (drive, same[number] if number in same else next(others, None))
        for number, drive in here.items()
    }
    first = max(pairs, default=0) + 1
    return pairs | {number: (None, drive) for number, drive in enumerate(others, first)}


def _same(drive: Mapping[str, Any], others: Mapping[int, Mapping[str, Any]]) -> int | None:
    """Return the number under which the other environment has a drive; None if it does not.

    If a drive has several namespaces, the one with the same name is chosen.
    """
    identity = _identity(drive)
    if identity is None:
        return None
    alike = [number for number, other in others.items() if _identity(other) == identity]
    named = (number for number in alike if others[number].get("name") == drive.get("name"))
    return next(named, alike[0] if alike else None)


def _identity(drive: Mapping[str, Any]) -> Any:
    return next((drive[name] for name in _IDENTITY if drive.get(name)), None)


def _of_drives(path: str, pairs: Mapping[int, Pair]) -> Iterator[Difference]:
    for number, (here, there) in pairs.items():
        place = f"{path}.{number}"
        if here is None or there is None:
            yield Difference(place, _drive_text(here), _drive_text(there))
            continue
        known = _identity(here) is not None or _identity(there) is not None
        for name in differing((here, there)):
            if not (known and name in _KERNELS_NAMES):
                yield Difference(f"{place}.{name}", here.get(name), there.get(name))


def _drive_text(drive: Mapping[str, Any] | None) -> str | None:
    if drive is None:
        return None
    words = [drive.get(name) for name in ("vendor", "model", "serial")]
    return " ".join(str(word) for word in words if word) or str(drive.get("name") or "a drive")


def unaccepted(differences: Sequence[Difference], accepted: Sequence[str]) -> list[Difference]:
    """Return the differences in fields that are neither at nor below an accepted path."""
    return [
        difference
        for difference in differences
        if not any(difference.within(path) for path in accepted)
    ]


def facts(store: ResultStore) -> dict[str, Any]:
    """Return the facts of a result directory that affect its numbers, by path (``cpu.model``)."""
    return _facts(store, {target.name for target in store.study.target}, _engines(store))


def _engines(store: ResultStore) -> set[str]:
    return {point.engine for point in store.plan.points.values()}


def _facts(store: ResultStore, targets: set[str], engines: set[str]) -> dict[str, Any]:
    environment = store.environment
    imported = environment.get("imported", {})
    described = environment.get("engines", {}) | _engines_of_import(imported)
    facts = {
        **{name: value for name, value in environment.items() if name not in _PASSING},
        "versions": {"storlab": environment.get("versions", {}).get("storlab")},
        "engines": {name: described[name] for name in sorted(engines) if name in described},
        "settings": _stated_settings(study_settings(store.study.study), imported),
        "cluster": {
            **cluster_settings(store.study.cluster),
            **_of_clients(environment.get("cluster", {})),
        },
    }
    flat = _joined(facts_by_path(facts))
    for target in store.study.target:
        if target.name in targets:
            machine = without_empty(environment.get("targets", {}).get(target.name, {}))
            settings = target_settings(target)
            if machine.get("kind") == "block_device":
                # Omit paths of block devices, because their drives are compared in detail.
                del settings["places"]
            if "mount_options" in machine:
                machine["mount_options"] = _lasting(machine["mount_options"])
            # Flattened separately, since both may have a key "drives": a list and a number.
            for part in (machine, settings):
                flat |= _joined(facts_by_path(part, "targets", target.name))
    return flat


def _engines_of_import(imported: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the versions of the tools whose results were imported, by name of the tool."""
    versions: dict[str, list[str]] = {}
    for text in imported.get("engines", []):
        name, _, version = text.partition(" ")
        versions.setdefault(name, []).append(version)
    return {name: {"version": ", ".join(own)} for name, own in versions.items()}


def _stated_settings(settings: dict[str, Any], imported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a study that can be compared with those of another study.

    In a study that an import wrote, these are the ramp and, if the imported files state it, the
    runtime.
    """
    if not imported:
        return settings
    stated = ("ramp", "runtime") if imported.get("runtime_stated") else ("ramp",)
    return {name: settings[name] for name in stated}


def _joined(facts: Mapping[FactPath, Any]) -> dict[str, Any]:
    return {".".join(path): value for path, value in facts.items()}


def _of_clients(clients: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the facts of all clients: a single value if they agree, else all values in order."""
    facts = [facts_by_path(_client(client)) for client in clients.values()]
    together: dict[str, Any] = {}
    for path in dict.fromkeys(path for client in facts for path in client):
        values = sorted((client.get(path) for client in facts), key=sort_value)
        together[".".join(path)] = values if values[0] != values[-1] else values[0]
    return together


def _client(client: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: client[name] for name in _OF_CLIENTS if client.get(name) is not None}
    if "mount" in told:
        told["mount"] = {name: told["mount"].get(name) for name in _OF_MOUNTS}
        told["mount"]["options"] = _lasting(told["mount"]["options"] or "")
    return without_empty(told)


def _lasting(options: str) -> str:
    """Return mount options, except for options whose value differs at every mount."""
    lasting = (o for o in options.split(",") if o.partition("=")[0] not in _PASSING_OPTIONS)
    return ",".join(lasting)
