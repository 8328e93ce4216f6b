"""Families that do I/O in files and devices as they are, for a time or for so many bytes."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.base.units import NS_PER_S
from storlab.contracts.family import JobContext, Step
from storlab.model.point import Point
from storlab.model.study import Header


class InPlace:
    """Of a family: the lab itself lays out the files, and a run leaves them as large as before."""

    fixed_work = False
    places: tuple[str, ...] = ("path", "paths", "directory")

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Nothing."""
        del points, context
        return []

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Nothing."""
        del point, context
        return []


def window_and_written(
    header: Header,
    total_bytes: int | None,
    rated_bytes_s: float | None,
    assumed_bytes_s: float,
    write_percent: float,
) -> tuple[int, int | None]:
    """Length of a window in ns, and bytes that ramp and window write: None where only time bounds
    them. A window that ends by bytes and has no rate takes its time at the assumed one.
    """
    bytes_s = assumed_bytes_s if rated_bytes_s is None else rated_bytes_s
    window_ns = header.runtime if total_bytes is None else round(total_bytes / bytes_s * NS_PER_S)
    if write_percent == 0:
        return window_ns, 0
    if total_bytes is None and rated_bytes_s is None:
        return window_ns, None
    in_window = bytes_s * window_ns / NS_PER_S if total_bytes is None else total_bytes
    return window_ns, round((bytes_s * header.ramp / NS_PER_S + in_window) * write_percent / 100)
