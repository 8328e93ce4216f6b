"""Registries of plug-ins, which are found through entry points of storlab and other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from storlab.base.errors import StudyError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Mapping of the plug-ins of one entry-point group by name, each imported on first use.

    ``loaded`` has the imported plug-ins. A plug-in that is a class is replaced by an instance.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.loaded: dict[str, T] = {}

    @cached_property
    def points(self) -> dict[str, EntryPoint]:
        """Return the group's entry points by name; raise StudyError if two have the same name."""
        # Imported late, because the import takes a third of the time of a light verb.
        from importlib.metadata import entry_points

        by_name: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self.group), key=lambda p: p.name):
            other = by_name.setdefault(point.name, point)
            if other.value != point.value:
                raise StudyError(
                    self.group,
                    f"{point.name} is registered twice: {other.value} and {point.value}",
                    "uninstall one of the two packages",
                )
        return by_name

    def __getitem__(self, name: str) -> T:
        """Import a plug-in; raise KeyError if it is not registered, or errors of its import."""
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
