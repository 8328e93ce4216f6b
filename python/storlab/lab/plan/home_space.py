"""Space that the runs of a plan need in ``storlab-data``, storlab's directory on a target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import Header, Target
from storlab.stores.home import allocated_bytes, parts_of


@dataclass(slots=True)
class HomeNeed:
    """Bytes that workloads need in ``storlab-data``: for data sets, and for files of one run."""

    data_sets: dict[str, int] = field(default_factory=dict)
    run_bytes: int = 0
    left: frozenset[str] = frozenset()  # ids of runs whose files are removed or reused first

    @property
    def data_bytes(self) -> int:
        """Bytes of all data sets."""
        return sum(self.data_sets.values())

    def add(self, other: HomeNeed) -> None:
        """Add the needs of another target that has the same ``storlab-data`` directory.

        Space for files of a run is not added up, since only one run is active at a time.
        """
        for name, size in other.data_sets.items():
            self.data_sets[name] = max(self.data_sets.get(name, 0), size)
        self.run_bytes = max(self.run_bytes, other.run_bytes)
        self.left |= other.left

    def missing_bytes(self, home: Path) -> int:
        """Return how many bytes of the data sets are not yet allocated in ``home``."""
        return sum(
            max(0, size - (allocated_bytes(home / name) if name else 0))
            for name, size in self.data_sets.items()
        )

    def left_bytes(self, home: Path) -> int:
        """Return the bytes in ``home`` that files of interrupted runs occupy; they are reusable."""
        parts = parts_of(home) if self.left and home.is_dir() else []
        own = [p for p in parts if any(p == name or p.endswith(f"-{name}") for name in self.left)]
        return sum(allocated_bytes(home / part) for part in own)


def uses_home(point: Point, header: Header, target: Target) -> bool:
    """Return whether runs of a point keep their files in ``storlab-data``.

    Other points use files that are written (laid out) before the runs.
    """
    if target.directory is None:
        return False
    return FAMILIES[point.kind].estimate(point, header, target).layout_files == 0


def home_need(
    points: Iterable[Point], header: Header, target: Target, left: Iterable[str] = ()
) -> HomeNeed:
    """Return the space that the points of one target need in ``storlab-data``.

    Args:
        points: Points of the target.
        header: The ``[study]`` table.
        target: Target of the points; unless it is a directory, nothing is needed.
        left: Ids of interrupted runs.
    """
    need = HomeNeed(left=frozenset(left))
    for point in points:
        if not uses_home(point, header, target):
            continue
        estimate = FAMILIES[point.kind].estimate(point, header, target)
        data = {made.name: made.bytes for made in estimate.data_sets if made.bytes}
        own = estimate.bytes_written if estimate.space_bytes is None else estimate.space_bytes
        need.add(HomeNeed(data, own or 0))
    return need
