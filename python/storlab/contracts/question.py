"""Questions that a study may ask about its targets, with metrics and phrases of the answers.

The answer says which target is better, by how much, and how certain that is.
Questions common to all families are defined here; a family can add its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Per = Literal["", "tb", "money"]
"""Fact about the target by which a metric is divided: its capacity or price."""


@dataclass(frozen=True, slots=True)
class Question:
    """Question about targets, such as which one has more throughput.

    ``does`` completes a sentence about the leading target. In it, ``{times}`` is the ratio, such as
    "2.1 times" or "at least 1.5 times", and ``{other}`` is the second target.
    """

    name: str  # name in a study, such as durable_time
    title: str  # heading of its findings, such as "Time to durable"
    keys: tuple[str, ...]  # columns that answer it; the first that was measured is used
    does: str  # "moves {times} as much data per second as {other}"
    per: Per = ""
    # Sentence for a difference that is not significant, if ``does`` would state which target is
    # better. {times} is an interval that includes 1; {ahead} and {other} are the targets.
    unsure: str = ""
    # Function "module:function" for a textual answer, which takes precedence over the ratio. It
    # takes the comparison and the family's sections, and yields target, text, and the points at
    # which it was measured.
    textual: str = ""
    # When the question is answered unless a study names its questions: "always", "answered" (if
    # there are data, such as prices), or "named" (never).
    asked: Literal["always", "answered", "named"] = "named"


def throughput(
    keys: tuple[str, ...] = ("throughput_mb_s.all",),
    does: str = "moves {times} as much data per second as {other}",
    *,
    asked: Literal["always", "named"] = "named",
) -> Question:
    """Build the question of which target has the higher throughput."""
    return Question("throughput", "Throughput", keys, does, asked=asked)


def latency(keys: tuple[str, ...], does: str) -> Question:
    """Build the question of which target has the lower 99th percentile of latency."""
    return Question("latency", "Latency", keys, does)


def efficiency(
    keys: tuple[str, ...] = ("efficiency_mb_s_w.all",),
    does: str = "reaches {times} the throughput per watt of {other}",
) -> Question:
    """Build the question of throughput per watt, asked if meters were read."""
    return Question("efficiency", "Per watt", keys, does, asked="answered")


def density(key: str = "throughput_mb_s.all", does: str = "") -> Question:
    """Build the question of which target has the higher throughput per terabyte of capacity."""
    words = does or "moves {times} as much data per second and terabyte as {other}"
    return Question("density", "Per terabyte", (key,), words, per="tb")


def cost(key: str = "throughput_mb_s.all", does: str = "") -> Question:
    """Build the question of which target has more throughput for its price.

    It is asked if prices are declared.
    """
    words = does or "moves {times} as much data per second as {other} for the same money"
    return Question("cost", "For the money", (key,), words, per="money", asked="answered")


USUAL = (throughput(asked="always"), efficiency(), cost(), density())
"""Questions of a family that moves data and has none of its own."""
