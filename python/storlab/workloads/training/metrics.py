"""Metrics, effective concurrency and flags of a training run.

docs/method/training.md defines them. The provenance of utilisation is ``emulated``: accelerators
compute nothing, but wait for the time that the profile gives for a step. Bytes and times are
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from storlab.base.units import MB, NS_PER_S, significant
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Target
from storlab.process.host_memory import host_memory_bytes
from storlab.workloads.common import metrics as common
from storlab.workloads.common.proof import PAGE_CACHE, Evidence, flags_by, layer_evidence
from storlab.workloads.training.details import AcceleratorTimes, TrainingDetails
from storlab.workloads.training.page import READS
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.rules import FEW_STEPS, Settings, settings_of, size_rule_text

# Smallest fraction of the bytes read after the first epoch that the device must have read.
LEAST_DEVICE_SHARE = 0.9
# Largest tolerated delay of threads after the end of computing, as a fraction of compute time.
MOST_LATE = 0.01
_STEP = "step"
_OWN_NAMES = {_STEP: "step_wait_", "wake": "wake_delay_"}  # waits are not I/O latencies


@dataclass(frozen=True, slots=True)
class AcceleratorEpoch:
    """Times of one accelerator in one epoch, in ns: of the first step and of all steps."""

    steps: int
    total: int
    first_total: int
    compute: int
    first_compute: int
    wait: int
    barrier: int
    scheduled: int | None = None  # total without late wake-ups of threads; None: unknown
    first_scheduled: int | None = None
    late: int | None = None  # sum over steps of the delay of threads after the end of computing

    @classmethod
    def of(cls, times: AcceleratorTimes) -> AcceleratorEpoch:
        """Make the record from an engine's report."""
        return cls(
            steps=times.steps,
            total=times.end_ns - times.start_ns,
            first_total=times.first_end_ns - times.start_ns,
            compute=times.compute_ns,
            first_compute=times.first_compute_ns,
            wait=times.wait_ns,
            barrier=times.barrier_ns,
            scheduled=times.scheduled_ns,
            first_scheduled=times.first_scheduled_ns,
            late=times.late_ns,
        )

    @property
    def without_first(self) -> int:
        """Time from the end of the first step to the end of the last, in ns."""
        return self.total - self.first_total


@dataclass(frozen=True, slots=True)
class Epoch:
    """Duration and counts of one epoch, over all accelerators."""

    duration_ns: int
    bytes: int
    samples: int
    device_read_bytes: int | None
    accelerators: list[AcceleratorEpoch]


def epochs_of(outcome: RunOutcome) -> list[Epoch]:
    """Return the completed epochs of a run in order."""
    return [
        Epoch(
            duration_ns=epoch.end_ns - epoch.start_ns,
            bytes=epoch.bytes,
            samples=epoch.samples,
            device_read_bytes=epoch.device_read_bytes,
            accelerators=[AcceleratorEpoch.of(accelerator) for accelerator in epoch.accelerators],
        )
        for epoch in TrainingDetails.of(outcome).epochs
    ]


def utilisation(
    epochs: Sequence[Epoch], share: Callable[[AcceleratorEpoch], float | None]
) -> float | None:
    """Return the mean utilisation in percent, over accelerators and then over epochs.

    Args:
        epochs: Completed epochs.
        share: Function that returns the utilisation (0 to 1) of an accelerator; None if unknown.
    """
    means = []
    for epoch in epochs:
        shares = [share(accelerator) for accelerator in epoch.accelerators]
        known = [value for value in shares if value is not None]
        if known:
            means.append(fmean(known))
    return 100 * fmean(means) if means else None


def au_percent(epochs: Sequence[Epoch]) -> float | None:
    """Return the accelerator utilisation (AU) in percent, as benchmarks define it.

    It is measured compute time divided by total time, without the first step of each epoch.
    """
    return utilisation(epochs, lambda a: _ratio(a.compute - a.first_compute, a.without_first))


def au_with_first_percent(epochs: Sequence[Epoch]) -> float | None:
    """Return the utilisation like ``au_percent``, but with the first step of each epoch."""
    return utilisation(epochs, lambda a: _ratio(a.compute, a.total))


def au_configured_percent(epochs: Sequence[Epoch], computation_ns: int) -> float | None:
    """Return the utilisation as defined in version 1 of MLPerf Storage.

    It is the configured (not the measured) compute time divided by the total time, without the
    first step of each epoch.
    """
    return utilisation(
        epochs, lambda a: _ratio(max(0, a.steps - 1) * computation_ns, a.without_first)
    )


def au_corrected_percent(epochs: Sequence[Epoch], computation_ns: int) -> float | None:
    """Return the utilisation that would result if no thread of the emulation woke up late.

    None if the engine does not record when threads should have woken up.
    """

    def share(a: AcceleratorEpoch) -> float | None:
        if a.scheduled is None or a.first_scheduled is None:
            return None
        return _ratio(max(0, a.steps - 1) * computation_ns, a.scheduled - a.first_scheduled)

    return utilisation(epochs, share)


def late_percent(epochs: Sequence[Epoch], computation_ns: int) -> float | None:
    """Return how late threads woke up after computing, in percent of the compute time.

    None if the engine does not record it, or if steps take no compute time.
    """
    accelerators = [a for epoch in epochs for a in epoch.accelerators]
    late = [a.late for a in accelerators if a.late is not None]
    computing = computation_ns * sum(a.steps for a in accelerators)
    if not late or len(late) < len(accelerators) or computing <= 0:
        return None
    return 100 * sum(late) / computing


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None


def run_concurrency(params: TrainingParams, outcome: RunOutcome) -> Concurrency:
    """Return the number of readers, as configured and reading on average by Little's law.

    The latter is smaller if readers pause until their batches are consumed.
    """
    settings = settings_of(params)
    return Concurrency(
        configured=float(settings.accelerators * settings.reader_threads),
        implied=common.implied_outstanding(outcome, READS),
    )


def run_metrics(params: TrainingParams, outcome: RunOutcome) -> list[Metric]:
    """Compute all metrics of a run; empty if its measure window is empty."""
    if common.window_ns(outcome) <= 0:
        return []
    settings = settings_of(params)
    epochs = epochs_of(outcome)
    return [
        *_utilisation(settings, epochs),
        # An imported run may state rates but no counts, which would make its throughput 0.
        *(common.rate_metrics(outcome, READS, READS, "reads_s") if outcome.totals else ()),
        *_samples(settings, epochs),
        *_times(outcome),
        *_stalls(epochs),
        *common.cpu_metrics(outcome, READS, "cpu_us_per_read"),
        *common.cpu_per_gb(outcome.cpu, common.bytes_moved(outcome, READS)),
        *_device_ratio(outcome, epochs),
        *common.concurrency_metric(run_concurrency(params, outcome).implied),
    ]


def _utilisation(settings: Settings, epochs: Sequence[Epoch]) -> Iterable[Metric]:
    values = {
        "au_percent": au_percent(epochs),
        "au_with_first_percent": au_with_first_percent(epochs),
        "au_corrected_percent": au_corrected_percent(epochs, settings.computation_ns),
        "au_configured_percent": au_configured_percent(epochs, settings.computation_ns),
        "cadence_late_percent": late_percent(epochs, settings.computation_ns),
    }
    for name, value in values.items():
        if value is not None:
            yield Metric(name=name, value=value, unit="%", provenance="emulated")
    au = values["au_percent"]
    if au is None:
        return
    yield Metric(
        name="au_threshold_percent",
        value=settings.threshold_percent,
        unit="%",
        provenance="published" if settings.profile.published else "declared",
    )
    kept = settings.accelerators if au >= settings.threshold_percent else 0
    yield Metric(name="accelerators_at_threshold", value=kept, unit="1", provenance="emulated")


def _samples(settings: Settings, epochs: Sequence[Epoch]) -> Iterable[Metric]:
    seconds = sum(epoch.duration_ns for epoch in epochs) / NS_PER_S
    if seconds <= 0:
        return
    rate = sum(epoch.samples for epoch in epochs) / seconds
    yield Metric(name="samples_s", value=rate, unit="1/s")
    yield Metric(name="nominal_mb_s", value=rate * settings.nominal_bytes / MB, unit="MB/s")


def _times(outcome: RunOutcome) -> Iterable[Metric]:
    """Yield the latencies of reads, of steps' waits for batches, and of late wake-ups."""
    for metric in common.time_metrics(outcome, READS, "latency"):
        if metric.operation not in _OWN_NAMES:
            yield metric
        else:
            name = metric.name.replace("latency_", _OWN_NAMES[metric.operation], 1)
            yield metric.model_copy(update={"name": name, "operation": "all"})


def _stalls(epochs: Sequence[Epoch]) -> Iterable[Metric]:
    """Yield how long accelerators waited on average in the run, for data and for each other."""
    if not epochs or not epochs[0].accelerators:
        return
    for name, waited in (
        ("stall_s", [a.wait for e in epochs for a in e.accelerators]),
        ("barrier_s", [a.barrier for e in epochs for a in e.accelerators]),
    ):
        mean_s = sum(waited) / len(epochs[0].accelerators) / NS_PER_S
        yield Metric(name=name, value=mean_s, unit="s")


def device_share(outcome: RunOutcome, epochs: Sequence[Epoch]) -> tuple[float | None, str]:
    """Return the bytes read by the device, divided by those that readers read.

    The first epoch is left out if there are others: the device may serve it while a cache serves
    the later ones.

    Returns:
        The ratio (None if the device's bytes were not counted), and a phrase for the period to
        which it applies.
    """
    later = epochs[1:]
    when = "after the first epoch"
    if not later:
        later, when = list(epochs), "in the only epoch"
    counted = [e.device_read_bytes for e in later if e.device_read_bytes is not None]
    read = sum(epoch.bytes for epoch in later)
    if later and len(counted) == len(later) and read:
        return sum(counted) / read, when
    whole = TrainingDetails.of(outcome).device
    moved = common.bytes_moved(outcome, READS)
    if whole is not None and moved:
        return whole.read_bytes / moved, "in the whole run"
    return None, when


def _device_ratio(outcome: RunOutcome, epochs: Sequence[Epoch]) -> Iterable[Metric]:
    share, _ = device_share(outcome, epochs)
    if share is not None:
        yield Metric(name="device_read_ratio", value=share, unit="1")


def run_flags(params: TrainingParams, target: Target, outcome: RunOutcome) -> list[Flag]:
    """Return the flags of a run: warnings that a brief shows beside its numbers."""
    settings = settings_of(params)
    epochs = epochs_of(outcome)
    flags = [
        _threshold_flag(settings, epochs),
        _cadence_flag(settings, outcome, epochs),
        *flags_by(medium_evidence(settings, target, outcome)),
        _size_flag(settings, target, outcome),
        _steps_flag(settings, epochs),
        common.client_flag(outcome),
        *common.machine_flags(outcome, settings.threads),
        _EMULATED,
        *_store_flags(target, outcome, epochs),
        common.note_flag(outcome),
    ]
    return [flag for flag in flags if flag is not None]


_EMULATED = Flag(
    kind="emulated-accelerators",
    message="accelerators are emulated: a step takes the profile's time, and nothing is computed. "
    "Utilisation is DLIO-equivalent, not a result of MLPerf",
)


def _threshold_flag(settings: Settings, epochs: Sequence[Epoch]) -> Flag | None:
    au = au_percent(epochs)
    if au is None or au >= settings.threshold_percent:
        return None
    count = settings.accelerators
    busy = f"{count:,} accelerator{'' if count == 1 else 's'} busy"
    return Flag(
        kind="au-below-threshold",
        message=f"AU {au:.3g} % is below the {settings.threshold_percent:.3g} % of the profile: "
        f"storage, loader and client together do not keep {busy}",
    )


def _cadence_flag(settings: Settings, outcome: RunOutcome, epochs: Sequence[Epoch]) -> Flag | None:
    """Flag a run in which threads of accelerators woke up too late; None if in time."""
    late = late_percent(epochs, settings.computation_ns)
    if late is None or late <= 100 * MOST_LATE:
        return None
    text = f"accelerator threads woke up late by {late:.3g} % of the compute time"
    precedence = TrainingDetails.of(outcome).accelerator_precedence
    if precedence is not None:
        text += f" (their precedence over readers: {precedence})"
    au, corrected = au_percent(epochs), au_corrected_percent(epochs, settings.computation_ns)
    if au is not None and corrected is not None:
        text += f": AU {au:.3g} % as measured, {corrected:.3g} % corrected"
    return Flag(kind="cadence-late", message=text)


def medium_evidence(settings: Settings, target: Target, outcome: RunOutcome) -> Iterator[Evidence]:
    """Yield evidence that a cache, not the medium, may have served the reads."""
    share, when = device_share(outcome, epochs_of(outcome))
    if share is not None and share < LEAST_DEVICE_SHARE:
        text = (
            f"{when} the device read {significant(100 * share, 3)} % of the bytes that the "
            "application read: a cache served the rest"
        )
        yield Evidence(PAGE_CACHE, "contradicted", text)
    cached = not settings.direct(target) and not TrainingDetails.of(outcome).page_cache_unknown
    if share is None and target.s3 is None and cached:
        text = (
            "files were read through the page cache, and reads of the device were not counted: "
            "memory may have served them"
        )
        yield Evidence(PAGE_CACHE, "unproven", text)
    yield from layer_evidence(outcome, counted=share is not None)


def _store_flags(target: Target, outcome: RunOutcome, epochs: Sequence[Epoch]) -> Iterable[Flag]:
    """Yield flags about the S3 store of a target.

    The flag that the embedded S3 server's page cache may have served requests is left out if the
    bytes of its device were counted, because the counts show whether it did.
    """
    share, _ = device_share(outcome, epochs)
    for flag in common.store_flags(target):
        if flag.kind != "page-cache" or share is None:
            yield flag


def _size_flag(settings: Settings, target: Target, outcome: RunOutcome) -> Flag | None:
    memory_bytes = TrainingDetails.of(outcome).host_memory_bytes
    if memory_bytes is None:
        return None
    text = size_rule_text(settings, memory_bytes or host_memory_bytes())
    if text is None:
        return None
    if target.s3 is None and settings.direct(target):
        text += "; it was read with O_DIRECT, so memory did not serve it"
    return Flag(kind="data-set-small", message=text)


def _steps_flag(settings: Settings, epochs: Sequence[Epoch]) -> Flag | None:
    whole = au_with_first_percent(epochs)
    if settings.steps >= FEW_STEPS or whole is None:
        return None
    au = au_percent(epochs)
    steps = f"{settings.steps} step{'s' if settings.steps > 1 else ''}"
    if au is None:
        message = f"an epoch has only {steps} of an accelerator, so there is no AU without the"
        return Flag(kind="few-steps", message=f"{message} first step; with it, AU is {whole:.3g} %")
    return Flag(
        kind="few-steps",
        message=f"an epoch has only {steps} of an accelerator, of which AU leaves out the first: "
        f"it is {au:.3g} % without and {whole:.3g} % with it",
    )
