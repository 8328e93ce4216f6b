"""Import of the training results in DLIO's summary, for runs without each rank's step times.

Submissions to MLPerf Storage v1.0 have only ``summary.json``, ``per_epoch_stats.json`` and the
configuration. Utilisation and rates are those that DLIO states. In DLIO's source
(``statscounter.py``), a mean is over epochs, utilisation over accelerators and then over epochs;
``MB_per_second`` is samples/s x nominal bytes / 2^20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storlab.base.units import MB, MIB, NS_PER_S, significant
from storlab.contracts.exchange import ImportedRun
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.import_checkpoint import checkpoint_phases, checkpoint_spans, phase_notes
from storlab.engines.dlio.import_training import caching_notes, training_fields
from storlab.engines.dlio.imported_run import (
    engine_info,
    imported_run,
    memory_bytes,
    time_of,
)
from storlab.engines.dlio.result import DlioFormatError, Results
from storlab.engines.dlio.settings import FOLDERS, Settings
from storlab.model.result import Flag, Metric, OperationTotals, RunOutcome, Span
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.profiles import load_profile, profile_names
from storlab.workloads.training.rules import Settings as TrainingSettings
from storlab.workloads.training.rules import settings_of

AU = "train_au_mean_percentage"
_AUS = "train_au_percentage"
_RATE = "train_throughput_mean_samples_per_second"
_RATES = "train_throughput_samples_per_second"
_MB = "train_io_mean_MB_per_second"
_CLOSE = 0.1  # largest relative difference between DLIO's samples/s and those of the epochs' times


def has_training(results: Results) -> bool:
    """Return whether the summary states samples/s of a training."""
    rate = dlio_result.number(results.metric.get(_RATE))
    return rate is not None and rate > 0


def import_summary(directory: Path, results: Results, settings: Settings, why: str) -> ImportedRun:
    """Convert a summary of a training to a run, with the metrics that DLIO states.

    Args:
        directory: Directory of the run's results.
        results: Results of the run; steps of ranks are not used.
        settings: Settings of the run.
        why: Reason why the metrics cannot be computed from steps.

    Raises:
        DlioFormatError: The batch size, the compute time or the size of a sample is unknown.
    """
    batch, nominal, compute_s = _shape(results, settings)
    fields, params = training_fields(
        directory, results, settings, batch=batch, nominal=nominal, compute_s=compute_s
    )
    training = settings_of(TrainingParams.of({**fields, **params}))
    spans, samples = _epochs(results, training)
    first_ns = min((span.start_ns for span in spans), default=time_of("start", results))
    last_ns = max((span.end_ns for span in spans), default=time_of("end", results))
    phases = checkpoint_phases(results)
    metrics = _metrics(results, training)
    outcome = RunOutcome(
        status="finished",
        engine=engine_info(results),
        window_start_ns=0,
        window_end_ns=last_ns - first_ns,
        samples=[],
        totals={}
        if samples is None
        else {"read": OperationTotals(operations=samples, bytes=samples * nominal)},
        cpu=None,
        notes=[
            why,
            *_stated_notes(results),
            *_sample_notes(samples),
            f"settings are taken from its configuration, {settings.source}",
            *phase_notes(phases),
            *caching_notes(results),
            *_left_out(results),
        ],
        details={"device_counters": False, "host_memory_bytes": memory_bytes(results)},
        spans=[
            *(
                span.model_copy(
                    update={"start_ns": span.start_ns - first_ns, "end_ns": span.end_ns - first_ns}
                )
                for span in spans
            ),
            *checkpoint_spans(phases, first_ns),
        ],
        flags=_flags(metrics),
    )
    return imported_run(
        "training",
        directory,
        results,
        settings,
        fields,
        outcome,
        first_ns,
        params=params,
        metrics=list(metrics.values()),
    )


def _shape(results: Results, settings: Settings) -> tuple[int, int, float]:
    """Return batch size, nominal bytes of a sample and compute seconds of a step.

    Values that the configuration lacks come from the shipped profile with the name of DLIO's
    workload.

    Raises:
        DlioFormatError: A value is unknown.
    """
    batch, compute_s = settings.batch, settings.computation_s
    nominal = settings.record_bytes or dlio_result.nominal_bytes(results)
    named = (settings.workload or "").replace("_", "-")
    if (batch is None or compute_s is None) and named in profile_names():
        profile = load_profile(named)
        batch = batch or profile.reader.batch_size
        nominal = settings.record_bytes or profile.dataset.record_length_bytes
        compute_s = profile.train.computation_time / NS_PER_S if compute_s is None else compute_s
    if batch is None or compute_s is None or nominal is None:
        missing = {
            "reader.batch_size": batch,
            "train.computation_time": compute_s,
            "dataset.record_length_bytes": nominal,
        }
        what = (
            "is unknown, and without it the run cannot be compared: add DLIO's config.yaml to the "
            f"directory, in {' or '.join(FOLDERS)}"
        )
        raise DlioFormatError(next(name for name, v in missing.items() if v is None), what)
    return batch, nominal, compute_s


def _metrics(results: Results, training: TrainingSettings) -> dict[str, Metric]:
    """Return the metrics that DLIO states, by name and with storlab's units."""
    au, rate, mib = (dlio_result.number(results.metric.get(name)) for name in (AU, _RATE, _MB))
    values: list[Metric] = []
    if rate is not None:
        values.append(Metric(name="samples_s", value=rate, unit="1/s"))
    if mib is not None:
        values.append(Metric(name="nominal_mb_s", value=mib * MIB / MB, unit="MB/s"))
    if au is not None:
        threshold = training.threshold_percent
        kept = training.accelerators if au >= threshold else 0
        values += [
            Metric(name="au_percent", value=au, unit="%", provenance="emulated"),
            Metric(
                name="au_threshold_percent",
                value=threshold,
                unit="%",
                provenance="published" if training.profile.published else "declared",
            ),
            Metric(name="accelerators_at_threshold", value=kept, unit="1", provenance="emulated"),
        ]
    return {metric.name: metric for metric in values}


def _flags(metrics: Mapping[str, Metric]) -> list[Flag]:
    if "au_percent" not in metrics:
        return []
    au, asked = metrics["au_percent"].value, metrics["au_threshold_percent"].value
    if au >= asked:
        return []
    text = f"AU {au:.3g} %, as DLIO states it, is below the {asked:.3g} % of the profile"
    return [Flag(kind="au-below-threshold", message=text)]


def _epochs(results: Results, training: TrainingSettings) -> tuple[list[Span], int | None]:
    """Return epochs as spans in UNIX time, and the samples of all epochs.

    The samples are steps x batch x accelerators. They are None if epochs have no times, or if the
    resulting samples/s differ from the stated ones, as when an epoch read a part of the data set.
    """
    per_epoch = training.steps * training.batch * training.accelerators
    length_ns = sum(end - start for times in results.times.values() for start, end in times)
    stated = dlio_result.number(results.metric.get(_RATE)) or 0.0
    total = per_epoch * len(results.times)
    agrees = length_ns > 0 and abs(total * NS_PER_S / length_ns - stated) <= _CLOSE * stated
    spans = [
        Span(
            kind="epoch",
            name=f"epoch {epoch}",
            start_ns=times[0][0],
            end_ns=times[-1][1],
            bytes=per_epoch * training.nominal_bytes if agrees else 0,
        )
        for epoch, times in sorted(results.times.items())
    ]
    return spans, total if agrees else None


def _stated_notes(results: Results) -> list[str]:
    metric = results.metric
    mib = dlio_result.number(metric.get(_MB))
    sentences = []
    if mib is not None:
        sentences.append(
            f"DLIO's own summary reports {significant(mib, 5)} MB/s: it is samples/s x nominal "
            f"size in MiB/s, not bytes read; here it is {significant(mib * MIB / MB, 5)} MB/s"
        )
    sentences.append(
        "DLIO's utilisation leaves out the first step of each epoch; its samples/s are over all "
        "steps until DLIO 1.x, and leave out the first and last step in later versions"
    )
    for name, what, unit in ((_AUS, "AU", " %"), (_RATES, "rate", " samples/s")):
        if (text := _listed(metric.get(name))) is not None:
            sentences.append(f"{what} by epoch: {text}{unit}")
    return sentences


def _listed(values: Any) -> str | None:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) < 2:
        return None
    known = [dlio_result.number(value) for value in values]
    return ", ".join("unknown" if value is None else significant(value, 4) for value in known)


def _sample_notes(samples: int | None) -> list[str]:
    if samples is None:
        return [
            "bytes read are unknown: the files, steps and times of epochs that are recorded do not "
            "give the samples/s that DLIO states"
        ]
    return [
        "bytes are steps x batch size x accelerators x nominal sample size: DLIO does not record "
        "the bytes it read"
    ]


def _left_out(results: Results) -> list[str]:
    evaluated = sorted(name for name in results.metric if name.startswith("eval_"))
    return [f"not imported: results of evaluation ({', '.join(evaluated)})"] if evaluated else []
