"""Acceptance rules for results: ``[[gate]]`` tables of a study or of a separate file."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.model.types import StudyTable

_NUMBER = r"[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_LIMIT = re.compile(rf"\s*({_NUMBER})\s*(x\s*baseline|[^\s0-9][^0-9]*)?\s*")


@dataclass(frozen=True, slots=True)
class Limit:
    """Bound of a gate rule: a number with a unit, or a multiple of the baseline."""

    text: str
    number: float
    unit: str = ""
    of_baseline: bool = False

    @classmethod
    def parse(cls, text: str | float) -> Limit:
        """Parse ``2``, ``"2ms"`` or ``"0.95 x baseline"``.

        Raises:
            ValueError: The text is not a limit; the message has examples.
        """
        match = _LIMIT.fullmatch(str(text))
        if match is None or isinstance(text, bool):
            raise ValueError(
                f'{text!r} is not a limit; write one such as "2ms", "900MB/s" or "0.95 x baseline"'
            )
        number, unit = float(match.group(1).replace("_", "")), (match.group(2) or "").strip()
        if not math.isfinite(number):
            raise ValueError(f"{text!r} is not a limit: it is larger than any number")
        if unit.startswith("x") and unit.endswith("baseline"):
            if not number:
                raise ValueError(f"{text!r} is not a limit: the multiple must be above 0")
            return cls(f"{number:g} x baseline", number, of_baseline=True)
        return cls(str(text).strip(), number, unit)


def _readable(value: str | float) -> str | float:
    Limit.parse(value)
    return value


Bound = Literal["at_most", "at_least"]
LimitText = Annotated[str | float | int, BeforeValidator(_readable)]


class GateRule(StudyTable):
    """``[[gate]]``: bounds of a metric, and the points at which they apply."""

    metric: str = Field(
        min_length=1,
        description="metric that must keep a bound, such as throughput, iops, latency_p99 or "
        "latency_p99_ns.read",
    )
    target: str | None = Field(
        default=None, description="target that the rule applies to; by default all"
    )
    workload: str | None = Field(
        default=None, description="workload that the rule applies to; by default all"
    )
    at: dict[str, Any] = Field(
        default_factory=dict,
        description="parameter values of the points that the rule applies to, { block_size = "
        '"4KiB" }; by default all points',
    )
    at_most: LimitText | None = Field(
        default=None, description='an upper bound: "2ms", or "1.05 x baseline"'
    )
    at_least: LimitText | None = Field(
        default=None, description='a lower bound: "900MB/s", or "0.95 x baseline"'
    )

    @model_validator(mode="after")
    def _bounded(self) -> GateRule:
        if self.at_most is None and self.at_least is None:
            what = "the rule has no bound"
            raise FieldProblems([Problem((), what, "give at_most, at_least or both")])
        return self

    @property
    def bounds(self) -> list[tuple[Bound, Limit]]:
        """Return the bounds that the rule has, with their names ``at_most`` and ``at_least``."""
        given: tuple[tuple[Bound, LimitText | None], ...] = (
            ("at_most", self.at_most),
            ("at_least", self.at_least),
        )
        return [(name, Limit.parse(value)) for name, value in given if value is not None]


class GateFile(StudyTable):
    """File that holds only gate rules."""

    gate: list[GateRule] = Field(min_length=1, description="the rules")
