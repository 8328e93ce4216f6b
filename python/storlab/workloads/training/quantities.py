"""Metrics of training workloads: names, units and their use in tables, figures, findings."""

from __future__ import annotations

from storlab.contracts import question
from storlab.contracts.page import Quantity, Time
from storlab.contracts.question import Question

BUSY = "Utilisation of the emulated accelerators (DLIO-equivalent)"
RATE = "Throughput of training"
WAIT = "Waiting"
CADENCE = "Cadence of the emulated accelerators"
READS = "Reads of files"
ENERGY = "Power and energy of training"


def _busy(name: str, title: str, short: str) -> Quantity:
    return Quantity(name, title, "%", "more", BUSY, short=short, most=100.0)


def _wait(statistic: str, phrase: str) -> Quantity:
    return Quantity(
        f"step_wait_{statistic}_ns",
        f"wait of a step, {phrase}",
        "ns",
        "less",
        WAIT,
        short=f"step waits, {phrase}",
        time="step_wait",
        compared=statistic in ("mean", "p99"),
    )


def _wake(statistic: str, phrase: str) -> Quantity:
    return Quantity(
        f"wake_delay_{statistic}_ns",
        f"wake-up delay of a step, {phrase}",
        "ns",
        "less",
        CADENCE,
        short=f"wake-up delay, {phrase}",
        time="wake_delay",
    )


def _read(statistic: str) -> Quantity:
    return Quantity(
        f"latency_{statistic}_ns",
        f"read of a file, {statistic}",
        "ns",
        "less",
        READS,
        operation="read",
        short=f"file read, {statistic}",
        time="latency",
    )


TRAINING_QUANTITIES = (
    _busy("au_percent", "accelerator utilisation", "AU"),
    _busy("au_with_first_percent", "utilisation with the first step", "AU with the first step"),
    _busy(
        "au_corrected_percent",
        "utilisation corrected for late wake-ups",
        "AU, corrected",
    ),
    _busy(
        "au_configured_percent",
        "utilisation, compute time as configured",
        "AU, configured compute time",
    ),
    Quantity("au_threshold_percent", "required utilisation", "%", "", BUSY, short="required"),
    Quantity(
        "samples_s", "samples per second", "1/s", "more", RATE, short="samples/s", compared=True
    ),
    Quantity(
        "throughput_mb_s", "throughput", "MB/s", "more", RATE, short="moved", compared=True,
        published="throughput",
    ),
    Quantity("nominal_mb_s", "samples times nominal size", "MB/s", "more", RATE, short="nominal"),
    Quantity("cpu_s_per_gb", "client CPU per GB", "s/GB", "less", RATE, short="client CPU"),
    Quantity(
        "device_read_ratio", "bytes of the device over bytes read", "1", "", RATE,
        short="device / read",
    ),
    _wait("mean", "mean"),
    _wait("p50", "p50"),
    _wait("p90", "p90"),
    _wait("p99", "p99"),
    _wait("max", "longest"),
    Quantity(
        "stall_s", "stall of an accelerator", "s", "less", WAIT,
        short="stall of an accelerator", compared=True,
    ),
    Quantity("barrier_s", "wait for the other accelerators", "s", "", WAIT, short="at barriers"),
    Quantity(
        "cadence_late_percent", "lateness over compute time", "%", "less", CADENCE,
        short="late",
    ),
    _wake("mean", "mean"),
    _wake("p50", "p50"),
    _wake("p99", "p99"),
    _wake("max", "longest"),
    _read("mean"),
    _read("p50"),
    _read("p99"),
    Quantity("energy_j", "energy of the run", "J", "", ENERGY, short="run", power=True),
    Quantity("power_w", "mean power", "W", "less", ENERGY, short="power", power=True),
    Quantity(
        "span_energy_j", "energy of an epoch", "J", "less", ENERGY, operation="epoch",
        short="energy of an epoch", power=True, compared=True, published="energy",
    ),
    Quantity(
        "efficiency_mb_s_w", "throughput per watt", "MB/s/W", "more", ENERGY, short="per watt",
        power=True, compared=True, published="power_efficiency",
    ),
    Quantity(
        "accelerators_per_watt", "accelerators fed per watt", "1/W", "more", ENERGY,
        short="accelerators fed per watt", power=True,
    ),
)  # fmt: skip
TRAINING_TIMES = (
    Time("step_wait", "wait of a step", "step"),
    Time("wake_delay", "wake-up delay of a step", "wake"),
)
TRAINING_FINDINGS = (
    "throughput_mb_s.all",
    "span_energy_j.epoch",
    "stall_s.all",
    "step_wait_p99_ns.all",
)
SAMPLES = "samples_s.all"
TRAINING_QUESTIONS = (
    Question(
        "accelerators",
        "Accelerators fed",
        (SAMPLES,),
        "feeds accelerators {times} as many samples per second as {other}",
        asked="always",
        textual="storlab.workloads.training.capacity_answer:fed",
    ),
    question.efficiency(
        ("efficiency_mb_s_w.all", "span_energy_j.epoch"),
        "reaches {times} the throughput per watt of {other}",
    ),
    question.cost(
        SAMPLES,
        "feeds accelerators {times} as many samples per second as {other} for the same money",
    ),
    question.throughput(),
    Question(
        "stall",
        "Stalls",
        ("stall_s.all",),
        "ends the stalls of an accelerator {times} as fast as {other}",
    ),
    question.density(),
)
