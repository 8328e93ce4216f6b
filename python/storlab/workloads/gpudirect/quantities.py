"""Metrics of GPUDirect workloads: names, units and their use in tables, figures, findings."""

from __future__ import annotations

from storlab.contracts import question
from storlab.contracts.page import Quantity

RATE = "Throughput and client CPU"
LATENCY = "Latency"
INTENDED = "Latency from the intended start"
ROUTE = "Path that bytes took, registration of buffers, and comparison of data"
ENERGY = "Power and energy"

_STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}


def _times(operation: str, time: str, group: str, after: str = "") -> tuple[Quantity, ...]:
    return tuple(
        Quantity(
            f"{time}_{statistic}_ns", f"{operation} latency{after}, {words}", "ns", "less", group,
            operation=operation, short=f"{operation} {words}", time=time,
            compared=statistic in ("mean", "p99"),
        )
        for statistic, words in _STATISTICS.items()
    )  # fmt: skip


def _share(name: str, title: str, short: str) -> Quantity:
    return Quantity(f"{name}_percent", title, "%", "", ROUTE, short=short, most=100.0)


GPUDIRECT_QUANTITIES = (
    Quantity(
        "throughput_mb_s", "throughput", "MB/s", "more", RATE, compared=True,
        published="throughput",
    ),
    Quantity("iops", "transfers per second", "1/s", "more", RATE, short="IOPS", compared=True),
    Quantity(
        "cpu_s_per_gb", "client CPU per GB", "s/GB", "less", RATE, short="client CPU",
        compared=True,
    ),
    Quantity(
        "cpu_us_per_io", "client CPU per transfer", "us/IO", "less", RATE, short="client CPU",
    ),
    Quantity(
        "concurrency_effective", "effective concurrency", "1", "", RATE,
        short="effective concurrency",
    ),
    *_times("read", "latency", LATENCY),
    *_times("write", "latency", LATENCY),
    *_times("read", "intended_latency", INTENDED, " from the intended start"),
    *_times("write", "intended_latency", INTENDED, " from the intended start"),
    _share("direct", "share of bytes by the direct path", "direct"),
    _share("p2p", "share of bytes by the kernel's P2PDMA", "P2PDMA"),
    _share("nvfs", "share of bytes by nvidia-fs", "nvidia-fs"),
    _share("posix", "share of bytes by way of host memory", "POSIX"),
    Quantity(
        "registration_s", "registration of buffers and files", "s", "less", ROUTE,
        short="registration",
    ),
    Quantity(
        "first_pass_mb", "compared before the window", "MB", "", ROUTE, short="compared before",
    ),
    Quantity(
        "read_back_mb", "compared after the window", "MB", "", ROUTE, short="compared after",
    ),
    Quantity(
        "efficiency_mb_s_w", "throughput per watt", "MB/s/W", "more", ENERGY, short="per watt",
        power=True, compared=True, published="power_efficiency",
    ),
    Quantity("power_w", "mean power", "W", "less", ENERGY, short="power", power=True),
    Quantity(
        "energy_j", "energy of the measure window", "J", "", ENERGY, short="energy", power=True
    ),
)  # fmt: skip
GPUDIRECT_HEADLINE = ("throughput_mb_s.all",)
P99 = ("latency_p99_ns.read", "latency_p99_ns.write")
GPUDIRECT_QUESTIONS = (
    *question.USUAL,
    question.latency(P99, "answers the slowest of a hundred transfers {times} as fast as {other}"),
)
GPUDIRECT_FINDINGS = ("throughput_mb_s.all", "efficiency_mb_s_w.all", "cpu_s_per_gb.all", *P99)
