"""Figures as data: what is drawn of which quantities, and under which heading.

A family lists its kinds; most consist of parts that exist once for all families, in
``storlab.figures``. What is its own is named as ``module:function``, and loaded when it is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

When = Literal["always", "swept", "single"]
"""Whether a part is drawn: only where the axis has several places, or only where it has one."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Quantities side by side at the far point of the axis."""

    what: str  # "time"
    keys: Mapping[str, str]  # words below the bars, "|" where they break: key of the quantity
    name: str = ""  # in the file's name; by default that of the kind
    axis: str = ""  # title of the vertical axis; by default what it is, with the unit
    ratio: str = ""  # key of the quantity that the title compares; by default the first
    when: When = "always"


@dataclass(frozen=True, slots=True)
class OverSweep:
    """A quantity against the axis that the study sweeps: a line for each target."""

    keys: tuple[str, ...]  # of quantities: the first that was measured is drawn
    name: str
    words: str  # what it is, in a sentence
    ratio: str = "{larger}’s {what} is {times} {smaller}’s"  # of the title
    log: bool = False  # the vertical axis
    # Functions of comparison, section and small multiple, as "module:function": by target the place
    # on the axis whose mean has a ring; and the title, where it is not the ratio at the far end.
    rings: str = ""
    title: str = ""
    when: When = "swept"


@dataclass(frozen=True, slots=True)
class StackOverSweep:
    """A quantity of which less is better, as a stack of its parts, against the swept axis."""

    whole: str  # its key
    keys: Mapping[str, str]  # words of the parts, from the bottom: key of the quantity
    undivided: str  # what it is where a part has no value: "the whole run"
    name: str
    what: str  # energy
    axis: str  # title of the vertical axis, without the unit
    words: str  # "energy of a run in Wh by stage"
    when: When = "always"


@dataclass(frozen=True, slots=True)
class Crew:
    """Times of ranks, accelerators and the like, one beside the other, the longest marked."""

    pieces: str  # kind of the pieces of a run: write, restore, epoch
    worker: str  # rank, accelerator
    title: str  # of the vertical axis
    what: str  # "the longest stall"
    name: str
    summed: bool = False  # over the pieces of a run; else their mean
    when: When = "always"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure of its own at a far point.

    ``place`` is ``module:function`` of comparison, section, small multiple and point, and gives a
    figure, or None where there is nothing to draw. It is given ``arguments``, too.
    """

    place: str
    when: When = "always"
    arguments: tuple[str, ...] = ()


Part: TypeAlias = Bars | OverSweep | StackOverSweep | Crew | Drawn


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A kind of figure, and the heading that it stands under.

    Drawn once per mix those of scope "section"; once for all mixes those of scope "family" (before
    them), "workload" (in the brief's section about ratios), "power" (in that about power) and "own"
    (in the section that the family has beside its metrics, if any). Scope "campaign" belongs to no
    family.
    """

    name: str
    scope: Literal["section", "family", "workload", "power", "own", "campaign"]
    heading: str
    lead: str
    parts: tuple[Part, ...] = ()  # drawn in this order at the far point of every small multiple
    place: str = ""  # "module:function" of comparison and sections, where it has no parts
    # With more figures than this in a section, a page folds them until they are asked for; 0: all.
    most_open: int = 99
