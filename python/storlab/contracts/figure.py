"""Descriptions of a brief's figures: which metrics are drawn as which kind of chart.

A workload family lists its kinds of figures. Most consist of parts in ``storlab.figures`` that all
families share. A family's own drawing code is named as ``module:function``, and imported when it is
used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

When = Literal["always", "swept", "single"]
"""Condition for drawing a part: always, or only if the axis has several places, or only one."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bar chart of metrics at the last point of the axis, such as the most jobs."""

    what: str  # "time"; in the title the label of a bar follows, as in "time write"
    keys: Mapping[str, str]  # quantity key by label; "|" marks line breaks in labels
    name: str = ""  # name in the file name; default: name of the kind
    axis: str = ""  # title of the vertical axis; default: the quantity with its unit
    ratio: str = ""  # key of the quantity that the title compares; default: the first
    when: When = "always"


@dataclass(frozen=True, slots=True)
class OverSweep:
    """Line chart of a metric over the swept parameter, with a line per target."""

    keys: tuple[str, ...]  # candidate quantities: the first that was measured is drawn
    name: str
    words: str  # description in a sentence
    ratio: str = ""  # template of the title; default: ``storlab.words.figures.OF``
    noun: str = ""  # what the title compares; default: the quantity's label
    axis: str = ""  # title of the vertical axis; default: the quantity with its unit
    log: bool = False  # whether the vertical axis is logarithmic
    # Functions as "module:function" that take comparison, section and small multiple. ``rings``
    # returns the point to mark with a ring, by target. ``title`` returns the chart's title, if it
    # is not the ratio at the last point.
    rings: str = ""
    title: str = ""
    when: When = "swept"


@dataclass(frozen=True, slots=True)
class StackOverSweep:
    """Stacked chart of the parts of a lower-is-better metric, over the swept parameter."""

    whole: str  # key of the whole quantity
    keys: Mapping[str, str]  # quantity key by label of the part, from the bottom
    undivided: str  # label if a part has no value: "the whole run"
    name: str
    what: str  # name of the quantity: "energy"
    axis: str  # title of the vertical axis, without unit
    words: str  # description: "energy of a run in Wh by stage"
    when: When = "always"


@dataclass(frozen=True, slots=True)
class WorkerBars:
    """Bar chart of times by worker (ranks, accelerators), with the longest one marked."""

    pieces: str  # kind of work item: write, restore, epoch
    worker: str  # rank, accelerator
    title: str  # title of the vertical axis
    what: str  # description of the longest: "longest stall"
    name: str
    summed: bool = False  # whether times are summed, not averaged, over the work items of a run
    when: When = "always"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Figure that a family's own code draws, at the last point of the axis.

    ``place`` is a ``module:function`` that takes the point (``storlab.figures.figure.Place``) and
    ``arguments``, and returns a figure, or None if there is nothing to draw.
    """

    place: str
    when: When = "always"
    arguments: tuple[str, ...] = ()


Part: TypeAlias = Bars | OverSweep | StackOverSweep | WorkerBars | Drawn


@dataclass(frozen=True, slots=True)
class FigureKind:
    """Kind of figure, with its heading and its place in the brief.

    Figures of scope "section" are drawn once per mix. Others are drawn once for all mixes: "family"
    before the figures per mix, "workload" beside the table of ratios, "power" in the section on
    power, and "own" in a further section of the family. Scope "campaign" belongs to no family.
    In ``lead``, one line below the heading, "{mean}" stands for what marks of means and intervals
    show.
    """

    name: str
    scope: Literal["section", "family", "workload", "power", "own", "campaign"]
    heading: str
    lead: str
    parts: tuple[Part, ...] = ()  # drawn in this order at the last point of each small multiple
    place: str = ""  # "module:function" that takes comparison and sections, if there are no parts
    main: bool = True  # whether in the main part of a brief; else in the appendix of its page
