"""Import of the training steps of a DLIO run, from each rank's step times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from storlab.base.units import NS_PER_S, significant
from storlab.contracts.exchange import ImportedRun
from storlab.engines.dlio import layout
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.import_checkpoint import checkpoint_phases, checkpoint_spans, phase_notes
from storlab.engines.dlio.imported_run import engine_info, imported_run, memory_bytes
from storlab.engines.dlio.result import DlioFormatError, Results
from storlab.engines.dlio.settings import FILE_FORMATS, Settings
from storlab.model.result import RunOutcome
from storlab.process.events import samples, totals
from storlab.workloads.training.profiles import Profile, load_profile, profile_names

# Relative differences: of the batch size from the one that the rate implies, and of a step's
# compute time from the profile's.
_BATCH_TOLERANCE = 0.02
_COMPUTE_TOLERANCE = 0.05
_GIVE_CONFIG = "add the run's configuration to the directory, as .hydra/config.yaml"


def import_training(directory: Path, results: Results, settings: Settings) -> ImportedRun:
    """Convert the training steps of a DLIO run to a run, computed from each rank's step times.

    Raises:
        DlioFormatError: Sizes are missing, or files, steps and settings contradict each other.
    """
    batch, source = _batch(results, settings)
    nominal = dlio_result.nominal_bytes(results)
    if nominal is None:
        what = "is missing or 0, so the size of a sample is unknown"
        raise DlioFormatError("metric.train_io_mean_MB_per_second", what)
    first_ns = min(start for times in results.times.values() for start, _ in times)
    line = dlio_result.timeline(results, -first_ns, batch, nominal)
    start_ns, end_ns = line.window
    phases = checkpoint_phases(results)
    outcome = RunOutcome(
        status="finished",
        engine=engine_info(results),
        window_start_ns=start_ns,
        window_end_ns=end_ns,
        samples=samples(line.events, line.window, NS_PER_S),
        totals=totals(line.events),
        cpu=None,
        notes=[*dlio_result.defects(results), *_notes(results), source, *phase_notes(phases)],
        details={
            "epochs": line.epochs,
            "steps": line.epochs[0]["accelerators"][0]["steps"],
            "device_counters": False,
            "host_memory_bytes": memory_bytes(results),
        },
        spans=[*line.spans, *checkpoint_spans(phases, first_ns)],
    )
    blocks = [b for epochs in results.ranks for every in epochs.values() for b in every]
    compute_s = float(np.median(np.concatenate([block.compute for block in blocks])))
    fields, params = training_fields(
        directory, results, settings, batch=batch, nominal=nominal, compute_s=compute_s
    )
    return imported_run(
        "training", directory, results, settings, fields, outcome, first_ns, params=params
    )


def _notes(results: Results) -> list[str]:
    notes = [
        "bytes are samples x nominal sample size: DLIO does not record the bytes it read",
        "DLIO records the times of epochs and the durations of steps: the times of steps are "
        "computed from both",
        "DLIO records neither the order of reads nor whether checksums were compared: the edition "
        "of DLIO 2.0 is assumed",
    ]
    if any(len(times) > 1 for times in results.times.values()):
        notes.append("utilisation does not include checkpoints between steps")
    return [*notes, *caching_notes(results)]


def caching_notes(results: Results) -> list[str]:
    """Return DLIO's own warning that memory is larger than the data set, if it gave one."""
    if any(results.summary.get("potential_caching") or ()):
        return ["DLIO itself warns that the page cache may have held the data set"]
    return []


def _batch(results: Results, settings: Settings) -> tuple[int, str]:
    """Return the batch size, and a note on its source.

    DLIO's results do not state it, so it comes from the configuration or is derived from the
    numbers of files and steps.

    Raises:
        DlioFormatError: The batch size cannot be determined, or two sources contradict each other.
    """
    summary, ranks = results.summary, len(results.ranks)
    files = int(summary.get("num_files_train") or 0)
    per_file = int(summary.get("num_samples_per_file") or 1)
    steps = max(sum(len(block.load) for block in blocks) for blocks in results.ranks[0].values())
    batch = settings.batch
    if batch is not None:
        due = [
            files * per_file // (batch * ranks),
            files // (per_file * batch * ranks) * per_file**2,  # the main branch skips some files
            settings.total_steps,
        ]
        if files and steps not in due:
            what = f"is {batch}, so {files:,} files should give {due[0]:,} steps"
            field = "workload.reader.batch_size"
            raise DlioFormatError(field, f"{what}; there are {steps:,}")
        return batch, f"the batch size is taken from its configuration, {settings.source}"
    batch = files * per_file // (steps * ranks)  # largest batch size with this number of steps
    if batch < 1 or files * per_file // ((steps + 1) * ranks) + 1 < batch:
        what = f"fits several batch sizes if an epoch has {steps:,} steps; {_GIVE_CONFIG}"
        raise DlioFormatError("num_files_train", what)
    rates = _batches_by_rate(results)
    if rates and not any(abs(rate - batch) <= _BATCH_TOLERANCE * batch for rate in rates):
        implied = " or ".join(significant(rate, 4) for rate in rates)
        what = f"implies batch size {implied}, but files and steps imply {batch}; {_GIVE_CONFIG}"
        raise DlioFormatError("throughput", what)
    return batch, "the batch size is derived from files and steps: there is no configuration"


def _batches_by_rate(results: Results) -> list[float]:
    """Return the batch sizes that DLIO's recorded samples/s imply.

    DLIO versions compute this rate differently, so there may be two sizes. The list is empty if no
    rate is recorded.
    """
    for epoch, times in sorted(results.times.items()):
        for block, (start_ns, end_ns) in zip(results.ranks[0].get(epoch, []), times, strict=True):
            seconds, steps = (end_ns - start_ns) / NS_PER_S, len(block.load)
            if block.throughput > 0:
                candidates = [block.throughput * seconds / steps]  # formula of the release on PyPI
                if steps > 2:
                    candidates.append(
                        block.throughput * (seconds - float(block.proc[0])) / (steps - 2)
                    )
                return candidates
    return []


def training_fields(
    directory: Path,
    results: Results,
    settings: Settings,
    *,
    batch: int,
    nominal: int,
    compute_s: float,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the training workload that describes a run, and extra parameters.

    If no shipped profile fits, the parameters contain a profile made from results and settings.

    Args:
        directory: Directory of the run's results.
        results: Results of the run.
        settings: Settings of the run.
        batch: Number of samples in a step.
        nominal: Nominal bytes of a sample.
        compute_s: Compute time of a step in seconds.
    """
    summary = results.summary
    files = int(summary.get("num_files_train") or settings.whole("dataset.num_files_train") or 1)
    per_file = int(summary.get("num_samples_per_file") or 1)
    epochs = len(results.times) or int(summary.get("epochs") or 1)
    fields: dict[str, Any] = {
        "accelerators": len(results.ranks) or int(summary.get("num_accelerators") or 1),
        "epochs": epochs,
        "files": files,
        "edition": "dlio-2.0-odirect" if settings.direct else "dlio-2.0",
    }
    threads, total = settings.whole("reader.read_threads"), settings.total_steps
    fields |= {} if threads is None else {"reader_threads": threads}
    fields |= {} if total is None else {"max_steps": total}
    for name in profile_names():
        profile = load_profile(name)
        if _is_like(profile, nominal, per_file, batch, compute_s):
            return {"profile": name, **fields}, {}
    named = layout.model_name(directory) or settings.model or "imported"
    shape = FILE_FORMATS.get(str(settings.value("dataset.format")))
    data: dict[str, Any] = {
        "source": "derived from results and configuration of a DLIO run"
        if shape
        else "derived from results of a DLIO run, which do not record the file format",
        "published": False,
        "dataset": {
            "format": shape or ("npz" if per_file == 1 else "tfrecord"),
            "num_files_train": files,
            "num_samples_per_file": per_file,
            "record_length_bytes": nominal,
            **_sizes(settings),
        },
        "reader": {"batch_size": batch},
        "train": {"epochs": epochs, "computation_time": f"{compute_s:.6f}s"},
    }
    threshold = settings.number("metric.au")
    if threshold is not None and 0 < threshold <= 1:
        data["metric"] = {"au": threshold}
    return {"profile": f"{named}.toml", **fields}, {"profile_data": data}


def _sizes(settings: Settings) -> dict[str, int]:
    sizes = {
        f"record_length_bytes_{name}": settings.whole(
            f"dataset.record_length_bytes_{name}", f"dataset.record_length_{name}"
        )
        for name in ("stdev", "resize")
    }
    return {name: size for name, size in sizes.items() if size is not None}


def _is_like(profile: Profile, nominal: int, per_file: int, batch: int, compute_s: float) -> bool:
    data, compute_ns = profile.dataset, profile.train.computation_time
    return (
        abs(data.record_length_bytes - nominal) <= 1
        and data.num_samples_per_file == per_file
        and profile.reader.batch_size == batch
        and abs(compute_s * NS_PER_S - compute_ns) <= _COMPUTE_TOLERANCE * compute_ns
    )
