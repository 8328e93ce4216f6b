"""Families, engines and meters, found through entry points: ours like those of other packages.

A package adds one under ``[project.entry-points."storlab.families"]`` (``storlab.engines``,
``storlab.meters``) of its ``pyproject.toml``; nothing of storlab changes. See CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from storlab.base.errors import EngineError, StudyError
from storlab.contracts.engine import Engine
from storlab.contracts.family import Workload
from storlab.contracts.meter import MeterModule
from storlab.model.study import StudyBase, study_model

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Parts of one group by name, each imported when it is asked for.

    ``loaded`` holds those that were, a class as its one instance.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.loaded: dict[str, T] = {}

    @cached_property
    def points(self) -> dict[str, EntryPoint]:
        """What is registered, by name."""
        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self.group), key=lambda p: p.name):
            other = found.setdefault(point.name, point)
            if other.value != point.value:
                raise StudyError(
                    self.group,
                    f"{point.name} is registered twice: {other.value} and {point.value}",
                    "remove one of the two packages",
                )
        return found

    def __getitem__(self, name: str) -> T:
        """Raises KeyError for a name that is not registered, and what its import raises."""
        if name not in self.loaded:
            part = self.points[name].load()
            self.loaded[name] = part() if isinstance(part, type) else part
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.points, *self.loaded]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.loaded or name in self.points


FAMILIES: Registry[Workload] = Registry("storlab.families")
ENGINES: Registry[Engine] = Registry("storlab.engines")
METERS: Registry[MeterModule] = Registry("storlab.meters")


def study_class() -> type[StudyBase]:
    """The model of a study file with every registered family."""
    return _study_class(tuple(FAMILIES))


@cache
def _study_class(kinds: tuple[str, ...]) -> type[StudyBase]:
    return study_model([FAMILIES[kind].spec for kind in kinds])


def get_engine(name: str) -> Engine:
    """The engine of that name.

    Raises EngineError for a name that is not registered, and for one that cannot be imported.
    """
    try:
        return ENGINES[name]
    except KeyError:
        raise EngineError(
            "engine", f'"{name}" is not an engine', f"use one of {', '.join(ENGINES)}"
        ) from None
    except (ImportError, SyntaxError, AttributeError) as error:
        raise EngineError(
            f"engine {name}", f"cannot be loaded: {error}", "install storlab anew, whole"
        ) from error


def get_meter(kind: str) -> MeterModule:
    """The module of that kind. Raises StudyError for a kind that is not registered."""
    if kind not in METERS:
        raise StudyError("meters", f'"{kind}" is not a meter', f"use one of {', '.join(METERS)}")
    return METERS[kind]
