"""Metrics of preprocessing: names, units and their use in tables, figures and findings."""

from __future__ import annotations

from typing import Literal

from storlab.contracts import question
from storlab.contracts.page import Counted, Quantity
from storlab.contracts.question import Question
from storlab.workloads.preprocess.job import STAGES

TIME = "Completion time"
RATE = "Rows and throughput"
USE = "CPU and memory"
DEVICE = "Bytes counted by the device, and CPU use of the workers"
ENERGY = "Power and energy of preprocessing"


def _rate(name: str, title: str, short: str, unit: str, operation: str = "all") -> Quantity:
    compared = (name, operation) == ("rows_s", "all")
    published = "throughput" if (name, operation) == ("input_mb_s", "all") else ""
    return Quantity(
        name, title, unit, "more", RATE, operation, short, compared=compared, published=published
    )


def _use(name: str, title: str, short: str, unit: str, operation: str = "all") -> Quantity:
    return Quantity(name, title, unit, "less", USE, operation, short)


def _device(name: str, title: str, short: str, unit: str, operation: str = "all") -> Quantity:
    return Quantity(name, title, unit, "", DEVICE, operation, short)


def _energy(
    name: str,
    title: str,
    short: str,
    unit: str,
    better: Literal["more", "less"],
    published: str = "",
) -> Quantity:
    return Quantity(
        name, title, unit, better, ENERGY, short=short, power=True, compared=True,
        published=published,
    )  # fmt: skip


PREPROCESS_QUANTITIES = (
    Quantity(
        "completion_time_s", "completion time", "s", "less", TIME,
        short="all stages", compared=True, published="duration", counted=Counted(),
    ),
    *(
        Quantity(
            "completion_time_s", f"time of {stage}", "s", "less", TIME, stage, stage, compared=True
        )
        for stage in STAGES
    ),
    _rate("rows_s", "rows per second", "rows/s", "1/s"),
    *(_rate("rows_s", f"rows per second of {s}", f"{s} rows/s", "1/s", s) for s in STAGES),
    _rate("rows_s_per_core", "rows per CPU second", "rows per CPU second", "1/s"),
    _rate("input_mb_s", "raw data per second", "raw data in", "MB/s"),
    _rate("output_mb_s", "binary data per second", "binary data out", "MB/s"),
    _use("cpu_s", "CPU time", "CPU time", "s"),
    *(_use("cpu_s", f"CPU time of {s}", f"CPU time, {s}", "s", s) for s in STAGES),
    _use("cpu_s_per_gb", "CPU per GB of raw data", "CPU per GB", "s/GB"),
    _use("cpu_us_per_row", "CPU per row", "CPU per row", "us"),
    _use("peak_memory_mb", "peak memory", "peak memory", "MB"),
    *(_use("peak_memory_mb", f"peak memory of {s}", f"memory, {s}", "MB", s) for s in STAGES),
    _device("device_read_mb", "read from the device", "read", "MB"),
    _device("device_written_mb", "written to the device", "written", "MB"),
    _device("device_mb_s", "read and written per second", "moved", "MB/s"),
    *(_device("device_mb_s", f"moved per second by {s}", f"by {s}", "MB/s", s) for s in STAGES),
    *(
        Quantity(
            "worker_busy_percent", title, "%", "", DEVICE, operation, short, most=100.0
        )
        for operation, title, short in (
            ("all", "share of the workers’ time on CPU", "on CPU"),
            *((s, f"share of {s} on CPU", f"on CPU, {s}") for s in STAGES),
        )
    ),
    _energy("energy_wh", "energy of the run", "run", "Wh", "less", "energy"),
    *(
        Quantity(
            "span_energy_wh", f"energy of {stage}", "Wh", "less", ENERGY, stage, stage,
            power=True, compared=True,
        )
        for stage in STAGES
    ),
    Quantity("power_w", "mean power", "W", "less", ENERGY, short="power", power=True),
    _energy("rows_per_joule", "rows per joule", "rows per joule", "1/J", "more"),
    _energy(
        "efficiency_mb_s_w", "raw data per second and watt", "per watt", "MB/s/W", "more",
        "power_efficiency",
    ),
)  # fmt: skip
"""Metrics of preprocessing; per stage if stages may have different bottlenecks."""
PREPROCESS_HEADLINE = ("completion_time_s.all",)
PREPROCESS_FINDINGS = ("completion_time_s.all", "energy_wh.all")
ROWS = "rows_s.all"
PREPROCESS_QUESTIONS = (
    Question(
        "bottleneck",
        "What limits the speed",
        PREPROCESS_HEADLINE,
        "preprocesses the same rows {times} as fast as {other}",
        asked="always",
        textual="storlab.workloads.preprocess.saturation:bounds",
    ),
    question.efficiency(
        ("energy_wh.all", "efficiency_mb_s_w.all"),
        "preprocesses {times} as many rows per watt-hour as {other}",
    ),
    question.cost(
        ROWS, "preprocesses {times} as many rows per second as {other} for the same money"
    ),
    question.throughput((ROWS,), "preprocesses {times} as many rows per second as {other}"),
    question.density(ROWS, "preprocesses {times} as many rows per second and terabyte as {other}"),
)
