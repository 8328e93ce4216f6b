"""Power that a published table states, or that follows from other numbers of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from storlab.audit.intervals import Interval, shown, si_interval
from storlab.audit.measurements import Place, Places, Value, place_words, point_of
from storlab.audit.quantities import operation_of
from storlab.audit.table import Row


@dataclass(frozen=True, slots=True)
class Watts:
    """Power of one cell of a table, stated or implied by other numbers."""

    place: Place
    point: str
    span: Interval
    rows: tuple[str, ...]
    how: str
    is_printed: bool = False
    # whether ``point`` is only one candidate, as the efficiency's operating point is not stated
    is_guess: bool = False

    @property
    def words(self) -> str:
        """Short text of mix, block size and power, such as ``90/10 256KB 160.8 W``."""
        short = " ".join(part for part in self.place[1:] if part) or place_words(self.place)
        return f"{short} {shown(self.span.middle)} W"


def watts_of(places: Places, config: str, place: Place) -> Iterator[Watts]:
    """Yield the power values of a workload, one per possible operating point."""
    throughput = places.throughput(config, place)
    seen: set[str] = set()
    for quantity in ("power_efficiency", "energy_efficiency"):
        for row in places.of(config, place, quantity):
            span = si_interval(row)
            if span is None or span.low <= 0 or operation_of(row) in ("read", "write"):
                continue
            for point, value in _points(throughput, row):
                if point not in seen:
                    seen.add(point)
                    rows = (*value.rows, row.id)
                    how = "throughput / efficiency"
                    yield Watts(
                        place, point, value.span / span, rows, how, is_guess=not point_of(row)
                    )
    for row in places.of(config, place, "energy"):
        for time in places.of(config, place, "duration"):
            energy, length = si_interval(row), si_interval(time)
            same = (row.x_name, row.x_value) == (time.x_name, time.x_value)
            if energy and length and length.low > 0 and same and point_of(row) not in seen:
                seen.add(point_of(row))
                rows = (row.id, time.id)
                yield Watts(place, point_of(row), energy / length, rows, "energy / time")
    for row in places.of(config, place, "power"):
        span = si_interval(row)
        if span is not None and span.low > 0 and point_of(row) not in seen:
            seen.add(point_of(row))
            yield Watts(place, point_of(row), span, (row.id,), "as printed", True)


def _points(values: dict[str, Value], row: Row) -> list[tuple[str, Value]]:
    """Return the operating points that an efficiency may belong to: its own, or all stated."""
    own = point_of(row)
    if own:
        return [(own, values[own])] if own in values else []
    return list(values.items())
