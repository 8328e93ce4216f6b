"""Metrics of checkpoint workloads: names, units and their use in tables, figures, findings."""

from __future__ import annotations

from typing import Literal

from storlab.contracts import question
from storlab.contracts.page import Counted, Quantity
from storlab.contracts.question import Question
from storlab.workloads.common.metrics import FLUSH

TIME = "Time of a checkpoint and of a restore"
RATE = "Throughput while checkpoints are written or restored"
FLUSHES = "Flushes of files and directories"
PROOF = "Bytes that the device counted, relative to those written or read"
ENERGY = "Power and energy of checkpoints"
LOST = "Training time lost to checkpoints (modelled)"

WRITTEN = Counted("writes", "written_ns")
DURABLE = Counted("writes", "durable_ns")
RESTORED = Counted("restores", "end_ns")


def _of(
    name: str,
    title: str,
    short: str,
    unit: Literal["s", "MB/s"],
    *,
    compared: bool = False,
    published: str = "",
    counted: Counted | None = None,
) -> Quantity:
    return Quantity(
        name,
        title,
        unit,
        "less" if unit == "s" else "more",
        TIME if unit == "s" else RATE,
        short=short,
        compared=compared,
        published=published,
        counted=counted,
    )


def _lost(name: str, title: str, short: str, unit: str, *, compared: bool = False) -> Quantity:
    better: Literal["less", ""] = "less" if unit == "%" else ""
    return Quantity(name, title, unit, better, LOST, short=short, compared=compared)


def _flush(statistic: Literal["mean", "p99"]) -> Quantity:
    return Quantity(
        f"latency_{statistic}_ns",
        f"latency of a flush, {statistic}",
        "ns",
        "less",
        FLUSHES,
        operation=FLUSH,
        short=statistic,
        time="latency",
    )


CHECKPOINT_QUANTITIES = (
    _of("write_time_s", "time to written", "to written", "s", compared=True, counted=WRITTEN),
    _of(
        "durable_time_s", "time to durable", "to durable", "s",
        compared=True, counted=DURABLE, published="duration",
    ),
    _of("durable_time_max_s", "longest time to durable", "to durable, longest", "s"),
    _of("slowest_rank_time_s", "time of the slowest rank", "slowest rank", "s"),
    _of("restore_time_s", "restore time", "restore", "s", compared=True, counted=RESTORED),
    _of(
        "restore_slowest_rank_time_s", "restore time of the slowest rank",
        "restore, slowest rank", "s",
    ),
    _of(
        "write_mb_s", "throughput to written", "to written", "MB/s",
        compared=True, counted=WRITTEN,
    ),
    _of(
        "durable_mb_s", "throughput to durable", "to durable", "MB/s",
        compared=True, counted=DURABLE, published="throughput",
    ),
    _of("slowest_rank_mb_s", "throughput of the slowest rank", "slowest rank", "MB/s"),
    _of("restore_mb_s", "restore throughput", "restore", "MB/s", compared=True, counted=RESTORED),
    _of(
        "restore_slowest_rank_mb_s", "restore throughput of the slowest rank",
        "restore, slowest rank", "MB/s",
    ),
    _flush("mean"),
    _flush("p99"),
    Quantity("cpu_s_per_gb", "client CPU per GB", "s/GB", "less", RATE, short="client CPU"),
    Quantity("write_device_ratio", "written by the device", "1", "", PROOF, short="written"),
    Quantity("restore_device_ratio", "read from the device", "1", "", PROOF, short="restored"),
    Quantity("energy_j", "energy of the run", "J", "", ENERGY, short="run", power=True),
    Quantity("power_w", "mean power", "W", "less", ENERGY, short="power", power=True),
    Quantity(
        "span_energy_wh", "energy of a checkpoint", "Wh", "less", ENERGY, operation="write",
        short="a checkpoint", power=True, compared=True, published="energy",
    ),
    Quantity(
        "span_energy_wh", "energy of a restore", "Wh", "less", ENERGY, operation="restore",
        short="a restore", power=True, compared=True,
    ),
    Quantity(
        "efficiency_mb_s_w", "throughput per watt", "MB/s/W", "more", ENERGY, short="per watt",
        power=True, compared=True, published="power_efficiency",
    ),
    _lost(
        "training_share_lost_percent", "training time lost to writing", "lost to writing", "%",
        compared=True,
    ),
    _lost("optimal_interval_young_s", "optimal interval, Young", "optimal interval, Young", "s"),
    _lost("optimal_interval_daly_s", "optimal interval, Daly", "optimal interval, Daly", "s"),
    _lost(
        "training_share_lost_with_failures_percent", "training time lost, failures included",
        "lost, failures included", "%",
    ),
    _lost(
        "training_share_lost_at_optimum_percent", "training time lost at Daly’s interval",
        "lost at Daly’s interval", "%",
    ),
)  # fmt: skip
CHECKPOINT_HEADLINE = ("durable_time_s.all", "write_time_s.all")
CHECKPOINT_FINDINGS = (
    "durable_time_s.all",
    "durable_mb_s.all",
    "span_energy_wh.write",
    "restore_time_s.all",
)
DURABLE_MB_S = "durable_mb_s.all"
CHECKPOINT_QUESTIONS = (
    Question(
        "durable_time",
        "Time to durable",
        CHECKPOINT_HEADLINE,
        "makes a checkpoint durable {times} as fast as {other}",
        asked="always",
    ),
    Question(
        "training_lost",
        "Training time lost to writing",
        ("training_share_lost_percent.all",),
        "loses less training time than {other}, which loses {times} as much",
        unsure="{other} loses {times} as much training time as {ahead}",
        asked="answered",
    ),
    question.efficiency(
        ("span_energy_wh.write", "efficiency_mb_s_w.all"),
        "writes {times} as much of a checkpoint per watt-hour as {other}",
    ),
    question.cost(
        DURABLE_MB_S,
        "makes {times} as much data durable per second as {other} for the same money",
    ),
    Question(
        "restore_time",
        "Restore time",
        ("restore_time_s.all",),
        "restores a checkpoint {times} as fast as {other}",
    ),
    question.throughput(
        (DURABLE_MB_S, "write_mb_s.all"),
        "makes {times} as much data durable per second as {other}",
    ),
    question.density(
        DURABLE_MB_S, "makes {times} as much data durable per second and terabyte as {other}"
    ),
)
