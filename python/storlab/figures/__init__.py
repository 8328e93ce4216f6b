"""Figures: one file per kind (Vega-Lite through Altair); registered here and nowhere else.

A kind is a function ``draw(comparison, sections) -> list[Figure]``. A workload family names the
kinds that it wants; those of scope "section" are drawn once per mix; once for all mixes those of
scope "family" (before them), "workload" (in the brief's section about ratios) and "power" (in that
about power). Scope "campaign" belongs to no family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal, TypeAlias

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section


@dataclass(frozen=True, slots=True)
class Figure:
    """One drawing: a Vega-Lite specification, and in words and numbers what it shows.

    Colours in ``spec`` are roles of the theme, such as ``var(--s1)``. ``title`` states what is
    seen, ``alt`` describes it to those who do not see it; ``columns`` and ``rows`` are its data.
    """

    name: str  # unique, fit for a file name
    kind: str
    title: str
    alt: str
    spec: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    point_ids: list[str] = field(default_factory=list)
    note: str = ""


Draw: TypeAlias = Callable[[Comparison, Sequence[Section]], list[Figure]]


@dataclass(frozen=True, slots=True)
class FigureKind:
    """Where a kind is drawn, and the heading it stands under."""

    place: str  # "module:function"
    scope: Literal["section", "family", "workload", "power", "campaign"]
    heading: str
    lead: str


FIGURES: dict[str, FigureKind] = {
    "throughput_vs_jobs": FigureKind(
        "storlab.figures.throughput_vs_jobs:draw",
        "section",
        "Throughput",
        "Mean of the repeats with its 95 % interval; every dot is one run.",
    ),
    "latency_bars": FigureKind(
        "storlab.figures.latency_bars:draw",
        "section",
        "Latency",
        "Solid: mean, with its 95 % interval. Pale: 99th percentile. Logarithmic scale.",
    ),
    "throughput_vs_axis": FigureKind(
        "storlab.figures.throughput_vs_jobs:draw_swept",
        "section",
        "Throughput",
        "Mean of the repeats with its 95 % interval; every dot is one run.",
    ),
    "latency_vs_axis": FigureKind(
        "storlab.figures.latency_bars:draw_swept",
        "section",
        "Latency",
        "Solid: mean, with its 95 % interval. Pale: 99th percentile. Logarithmic scale.",
    ),
    "object_throughput": FigureKind(
        "storlab.workloads.object.figures.throughput:draw",
        "family",
        "Throughput by mix",
        "Mean of the repeats with its 95 % interval; every dot is one run. All three have the same "
        "scale, so that the parts can be seen to make the whole.",
    ),
    "object_latency": FigureKind(
        "storlab.workloads.object.figures.latency:draw",
        "family",
        "Latency by mix",
        "From the start of a request to the last byte of its answer. Solid: mean. Hollow: "
        "percentiles of the repeats’ merged histograms. Logarithmic scale.",
    ),
    "ttfb_bars": FigureKind(
        "storlab.workloads.object.figures.first_byte:draw",
        "family",
        "Time to first byte by mix",
        "From the start of a request to the first byte of the answer’s body, and beside it how "
        "long the whole request takes. Logarithmic scale.",
    ),
    "errors": FigureKind(
        "storlab.figures.errors:draw",
        "family",
        "Failed requests",
        "By kind; they are part of no rate, no byte count and no latency.",
    ),
    "latency_cdf": FigureKind(
        "storlab.figures.latency_cdf:draw",
        "section",
        "Latency distribution",
        "Histograms merged over the repeats. The vertical axis counts nines.",
    ),
    "time_series": FigureKind(
        "storlab.figures.time_series:draw",
        "section",
        "Over time",
        "One line per repeat: throughput, and the 99th percentile of each interval.",
    ),
    "power_over_time": FigureKind(
        "storlab.figures.power_over_time:draw",
        "section",
        "Power over time",
        "Throughput and power on one clock, one line per repeat. Shaded: what was measured, over "
        "which energy is integrated. Dashed: declared, not measured.",
    ),
    "efficiency_bars": FigureKind(
        "storlab.figures.efficiency_bars:draw",
        "power",
        "Data per joule",
        "Bytes of all repeats over joules of all repeats, with the 95 % interval of repeats and "
        "meter. Both axes measure the same bar. Hatched: declared, not measured.",
    ),
    "au_vs_accelerators": FigureKind(
        "storlab.workloads.training.figures.au_vs_accelerators:draw",
        "section",
        "Accelerator utilisation",
        "DLIO-equivalent: accelerators are emulated, which is why bars are hatched and lines "
        "dashed. Mean of the repeats with its 95 % interval; ring: the largest number that is kept "
        "busy.",
    ),
    "training_throughput": FigureKind(
        "storlab.workloads.training.figures.throughput:draw",
        "section",
        "Throughput of training",
        "Measured: bytes that were read of files, and samples. Nominal bytes are samples times the "
        "profile’s size of one.",
    ),
    "step_wait": FigureKind(
        "storlab.workloads.training.figures.step_wait:draw",
        "section",
        "Waits and stalls",
        "What accelerators wait for, as distributions over all repeats (the vertical axis counts "
        "nines), and how long each of them stood still; ring: the longest.",
    ),
    "epoch_bytes": FigureKind(
        "storlab.workloads.training.figures.epoch_bytes:draw",
        "section",
        "Bytes of the device",
        "What the device read over what was read of the files, epoch by epoch. Much below 100 %, a "
        "cache served the rest.",
    ),
    "epoch_energy": FigureKind(
        "storlab.workloads.training.figures.epoch_energy:draw",
        "power",
        "Energy of training",
        "Mean of the repeats with its 95 % interval. Hatched or dashed: power is declared, or "
        "accelerators are emulated. Where storage does not keep accelerators busy, none are fed.",
    ),
    "checkpoint_time": FigureKind(
        "storlab.workloads.checkpoint.figures.time:draw",
        "section",
        "Time",
        "Mean of the repeats with its 95 % interval; every dot is one run, a mean over its "
        "checkpoints. To durable is what stops a training that cannot afford to lose one.",
    ),
    "checkpoint_throughput": FigureKind(
        "storlab.workloads.checkpoint.figures.throughput:draw",
        "section",
        "Throughput",
        "Bytes over time while checkpoints move; pauses are no part of it.",
    ),
    "checkpoint_energy": FigureKind(
        "storlab.workloads.checkpoint.figures.energy:draw",
        "section",
        "Energy",
        "Power integrated over a checkpoint and over a restore. Hatched: declared, not measured.",
    ),
    "rank_times": FigureKind(
        "storlab.workloads.checkpoint.figures.rank_times:draw",
        "section",
        "Ranks",
        "Mean over a run’s checkpoints, and the range of the repeats; ring: the slowest, which "
        "decides when a checkpoint is done.",
    ),
    "training_lost": FigureKind(
        "storlab.workloads.checkpoint.figures.training_lost:draw",
        "section",
        "What checkpoints cost the training",
        "Modelled from the measured times (dashed): share of time lost to checkpoints, restarts "
        "and work done again, where the study says how often failures come.",
    ),
    "preprocess_time": FigureKind(
        "storlab.workloads.preprocess.figures.time:draw",
        "section",
        "Time against workers",
        "Mean of the repeats with its 95 % interval; every dot is one run. Logarithmic scale. "
        "Ring: the device saturates, so that more workers wait and gain nothing.",
    ),
    "preprocess_stages": FigureKind(
        "storlab.workloads.preprocess.figures.stages:draw",
        "section",
        "Which stage waits",
        "Time of each stage. Solid: the workers’ share of it on CPU; pale: they wait, for the "
        "device, for one another or for a core that others keep busy.",
    ),
    "preprocess_energy": FigureKind(
        "storlab.workloads.preprocess.figures.energy:draw",
        "section",
        "Energy against workers",
        "Power integrated over the run, the stages from solid to pale. Hatched: declared, not "
        "measured.",
    ),
    "preprocess_throughput": FigureKind(
        "storlab.workloads.preprocess.figures.throughput:draw",
        "section",
        "Throughput against workers",
        "Raw data that went in over the completion time, and what the device read and wrote, all "
        "stages together. Ring: the device saturates.",
    ),
    "published_bars": FigureKind(
        "storlab.figures.published_bars:draw",
        "campaign",
        "Throughput at the published points",
        "Solid: measured here. Hatched: as published, not repeated here.",
    ),
    "published_mixes": FigureKind(
        "storlab.figures.published_mixes:draw",
        "campaign",
        "By mix, as published",
        "Plain: measured here. Hatched: as published, not repeated here. Logarithmic scale.",
    ),
    "cost_stack": FigureKind(
        "storlab.figures.cost_stack:draw",
        "campaign",
        "Cost",
        "Servers, network and storage of each configuration, as the study declares them; hatched, "
        "because nothing of it is measured.",
    ),
    "ratios": FigureKind(
        "storlab.figures.ratios:draw",
        "workload",
        "Ratios at a glance",
        "Ratio to the baseline with its 95 % interval. Hollow: the interval includes 1. "
        "Triangle: the two latencies were taken at different effective concurrency.",
    ),
    "ratios_of_fixed_work": FigureKind(
        "storlab.figures.ratios:draw_fixed",
        "workload",
        "Ratios at a glance",
        "Ratio to the baseline with its 95 % interval. Hollow: the interval includes 1.",
    ),
}


def draw(name: str, comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """The figures of one kind. Raises KeyError for a name that is not registered."""
    module, _, function = FIGURES[name].place.partition(":")
    drawing: Draw = getattr(import_module(module), function)
    return [_with_scale(comparison, sections, figure) for figure in drawing(comparison, sections)]


def _with_scale(comparison: Comparison, sections: Sequence[Section], figure: Figure) -> Figure:
    """What is drawn may be smaller than its name says: then title and description say it, too."""
    shown = set(figure.point_ids)
    words: dict[str, None] = {}
    for section in sections:
        for point in section.points:
            word = section.page.shrunk(point.params)
            if word and word not in figure.title:
                cells = comparison.row(point).cells.values()
                words |= {word: None} if shown & {cell.point_id for cell in cells} else {}
    if not words:
        return figure
    said = " or ".join(words)
    return replace(figure, title=f"{figure.title} ({said})", alt=f"{figure.alt} ({said})")
