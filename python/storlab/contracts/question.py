"""What a study may ask of its targets, as data of a family's page: which metric answers, in words.

A question is answered by a verdict: who is ahead, by how much, how sure. Those that every family
may be asked are made here; a family adds its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Per = Literal["", "tb", "money"]
"""A fact of the target that the metric is divided by: its capacity, its price."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question. ``does`` completes a sentence that begins with the target that is ahead.

    ``{times}`` is by how much, as "2.1 times" or "at least 1.5 times"; ``{other}`` the target
    behind it.
    """

    name: str  # in a study: durable_time
    title: str  # over its findings: "Time to durable"
    keys: tuple[str, ...]  # columns that answer it; the first that was measured
    does: str  # "moves {times} as much data per second as {other}"
    per: Per = ""
    # The sentence where nothing is decided, for those whose ``does`` says who is better: {times}
    # is an interval around 1, {ahead} and {other} the targets.
    unsure: str = ""
    # What answers in words, before the ratio does: "module:function" of a comparison and the
    # family's sections, which yields target, words, and where that was measured.
    told: str = ""
    # By default asked: always, where there is an answer (a meter, a price), or only by a study.
    asked: Literal["always", "answered", "named"] = "named"


def throughput(
    keys: tuple[str, ...] = ("throughput_mb_s.all",),
    does: str = "moves {times} as much data per second as {other}",
    *,
    asked: Literal["always", "named"] = "named",
) -> Question:
    """How much is moved or done per second."""
    return Question("throughput", "Throughput", keys, does, asked=asked)


def latency(keys: tuple[str, ...], does: str) -> Question:
    """How long the slowest of a hundred operations take."""
    return Question("latency", "Latency", keys, does)


def efficiency(
    keys: tuple[str, ...] = ("efficiency_mb_s_w.all",),
    does: str = "moves {times} as much data per joule as {other}",
) -> Question:
    """What a watt brings; asked where meters were read."""
    return Question("efficiency", "Per watt", keys, does, asked="answered")


def density(key: str = "throughput_mb_s.all", does: str = "") -> Question:
    """What a terabyte of capacity brings."""
    words = does or "moves {times} as much data per second and terabyte as {other}"
    return Question("density", "Per terabyte", (key,), words, per="tb")


def cost(key: str = "throughput_mb_s.all", does: str = "") -> Question:
    """What money brings; asked where prices are declared."""
    words = does or "moves {times} as much data per second as {other} for the same money"
    return Question("cost", "For the money", (key,), words, per="money", asked="answered")


USUAL = (throughput(asked="always"), efficiency(), cost(), density())
"""Of a family that moves data and has nothing of its own to ask."""
