"""Load levels: open loops whose rate is a percentage of a maximum that storlab measures first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Protocol

from pydantic import Field

from storlab.base.errors import Problem
from storlab.base.units import exact_number

NAME = "load_percent"
LOAD_LEVELS: Any = Field(
    default=None,
    description="open loop at these percentages of the maximum, which storlab measures first, in "
    "closed loop and on each target: [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]; swept",
)
LoadPercent = Annotated[float, Field(gt=0, le=1000)]
IN_CLOSED_LOOP = "maximum (closed loop)"
"""Text for the load level of a point in closed loop, whose runs give the maximum."""
LEVEL_TITLE = "offered load (of the target’s own maximum)"


def describe_level(percent: float) -> str:
    """Describe a load level, such as ``70 % of its own maximum``."""
    return f"{exact_number(percent)} % of its own maximum"


class Loaded(Protocol):
    """Protocol of parameters that may have a load level."""

    load_percent: float | None


def with_closed_loops(product: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add a point in closed loop, which finds the maximum, before the points with a load level.

    Points without a load level do not have the parameter, so that they stay the same points as in
    studies without load levels.
    """
    points: list[dict[str, Any]] = []
    for values in product:
        points.append({name: value for name, value in values.items() if name != NAME})
        if values.get(NAME) is not None:
            points.append(values)
    return points


def level_problems(
    values: Iterable[Loaded], rate: str, forbidden: Iterable[str]
) -> Iterator[Problem]:
    """Yield a problem for each field that contradicts load levels.

    Args:
        values: Parameters of each point of the workload.
        rate: Parameter with a fixed rate.
        forbidden: Further parameters that cannot be used with load levels.
    """
    points = list(values)
    if all(point.load_percent is None for point in points):
        return
    if any(getattr(point, rate) is not None for point in points):
        what = f"conflicts with {rate}: both set the rate of an open loop"
        yield Problem((NAME,), what, f"remove {NAME} or {rate}")
    for name in forbidden:
        if any(getattr(point, name) is not None for point in points):
            what = f"conflicts with {NAME}"
            yield Problem((name,), what, f"remove {name} or {NAME}")
