"""Importer of result directories of the DLIO benchmark, also from a tree of MLPerf Storage.

A run is a directory with ``summary.json`` and one set of files per rank. ``mlpstorage`` keeps it in
``<results>/<training|checkpointing>/<model>/<command>/<YYYYMMDD_HHMMSS>/``. Training results are
recomputed from each rank's step times. For checkpoints, DLIO stores the begin and end of each, or
only mean durations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from storlab.base.errors import ResultError
from storlab.base.files import read_input
from storlab.base.units import GIB, MB, NS_PER_S, significant
from storlab.contracts.exchange import ImportedRun
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.result import DlioFormatError, Moved, Results
from storlab.model.result import EngineInfo, Failure, OperationTotals, RunOutcome, Span
from storlab.process.events import samples, totals
from storlab.workloads.checkpoint.profiles import profile_names as checkpoint_names
from storlab.workloads.training.profiles import Profile, load_profile, profile_names

SUMMARY = "summary.json"
_CONFIG = "*.yaml"  # hydra's copies of the configuration, in .hydra or dlio_config
_BATCH = "workload.reader.batch_size"
_CONFIG_PLACES = (".hydra", "dlio_config")
_SETTING = re.compile(r"( *)([\w.-]+):(?: +(.*))?")  # line of block YAML, as hydra writes it
_DIRECT = re.compile(r"\bodirect\W{1,4}(?:True|true)\b")
_WHOLE = 0.02  # relative tolerance between the batch size and the one that the rate implies
_COMPUTE = 0.05  # relative tolerance between a step's compute time and the profile's
_GIVE_CONFIG = "add the run's configuration to the directory, as .hydra/config.yaml"
_STAMP = re.compile(r"\d{8}_\d{6}")


class DlioImport:
    """Importer of DLIO's result directories.

    Implements ``storlab.contracts.exchange.DirectoryImporter``.
    """

    name = "dlio"
    main = SUMMARY

    def directories(self, place: Path) -> list[Path]:
        """Return the run directories at or below ``place``, sorted by path."""
        return sorted(path.parent for path in place.rglob(SUMMARY))

    def files(self, directory: Path) -> dict[str, bytes]:
        """Return the content of a run's result files by name.

        Raises OSError if a file is unreadable.
        """
        names = sorted(p for p in directory.iterdir() if dlio_result.is_result_file(p.name))
        return {path.name: read_input(path) for path in names}

    def read(self, directory: Path, files: dict[str, bytes]) -> list[ImportedRun]:
        """Return up to two runs: one of the training steps, one of the checkpoints.

        Raises:
            ResultError: The files are incomplete or not in DLIO's format.
        """
        try:
            results = dlio_result.read_results(files)
            runs = []
            if any(results.ranks):
                runs.append(_training(directory, results))
            if results.checkpoints or "checkpoint_size_GB" in results.metric:
                runs.append(_checkpoint(directory, results))
            if not runs:
                raise DlioFormatError("metric", "has neither steps nor checkpoints")
        except DlioFormatError as error:
            raise ResultError(
                f"{directory}: {error.field}",
                error.what,
                f"give an unchanged result directory of DLIO, with {SUMMARY} and all ranks' files",
            ) from error
        return runs


def _training(directory: Path, results: Results) -> ImportedRun:
    batch, source = _batch(directory, results)
    nominal = dlio_result.nominal_bytes(results)
    if nominal is None:
        what = "is missing or 0, so the size of a sample is unknown"
        raise DlioFormatError("metric.train_io_mean_MB_per_second", what)
    first_ns = min(start for times in results.times.values() for start, _ in times)
    line = dlio_result.timeline(results, -first_ns, batch, nominal)
    start_ns, end_ns = line.window
    outcome = RunOutcome(
        status="finished",
        engine=_engine(results),
        window_start_ns=start_ns,
        window_end_ns=end_ns,
        samples=samples(line.events, line.window, NS_PER_S),
        totals=totals(line.events),
        cpu=None,
        notes=[*dlio_result.defects(results), *_training_notes(results), source],
        details={
            "epochs": line.epochs,
            "steps": line.epochs[0]["accelerators"][0]["steps"],
            "device_counters": False,
            "host_memory_bytes": _memory_bytes(results),
        },
        spans=line.spans,
    )
    direct = _is_direct(directory)
    fields, params = _training_fields(directory, results, batch, nominal)
    fields["edition"] = "dlio-2.0-odirect" if direct else "dlio-2.0"
    return _run("training", directory, fields, outcome, first_ns, direct=direct, params=params)


def _training_notes(results: Results) -> list[str]:
    notes = [
        "bytes are samples x nominal sample size: DLIO does not record the bytes it read",
        "DLIO records the times of epochs and the durations of steps: the times of steps are "
        "computed from both",
        "DLIO records neither the order of reads nor whether checksums were compared: the edition "
        "of DLIO 2.0 is assumed",
    ]
    if any(len(times) > 1 for times in results.times.values()):
        notes.append("utilisation does not include checkpoints between steps")
    if any(results.summary.get("potential_caching") or ()):
        notes.append("DLIO itself warns that the page cache may have held the data set")
    return notes


def _batch(directory: Path, results: Results) -> tuple[int, str]:
    """Return the batch size and a note on its source, because DLIO's results do not state it.

    Raises:
        DlioFormatError: The batch size cannot be determined, or two sources contradict each other.
    """
    summary, ranks = results.summary, len(results.ranks)
    files = int(summary.get("num_files_train") or 0)
    per_file = int(summary.get("num_samples_per_file") or 1)
    steps = max(sum(len(block.load) for block in blocks) for blocks in results.ranks[0].values())
    settings = _settings(directory)
    batch = _whole(settings.get(_BATCH))
    if batch > 0:
        due = [
            files * per_file // (batch * ranks),
            files // (per_file * batch * ranks) * per_file**2,  # the main branch skips some files
            _whole(settings.get("workload.train.total_training_steps")),
        ]
        if files and steps not in due:
            what = f"is {batch}, so {files:,} files should give {due[0]:,} steps"
            raise DlioFormatError(_BATCH, f"{what}; there are {steps:,}")
        return batch, "the batch size is taken from its configuration"
    batch = files * per_file // (steps * ranks)  # largest batch size with this number of steps
    if batch < 1 or files * per_file // ((steps + 1) * ranks) + 1 < batch:
        what = f"fits several batch sizes if an epoch has {steps:,} steps; {_GIVE_CONFIG}"
        raise DlioFormatError("num_files_train", what)
    rates = _batches_by_rate(results)
    if rates and not any(abs(rate - batch) <= _WHOLE * batch for rate in rates):
        led = " or ".join(significant(rate, 4) for rate in rates)
        what = f"implies batch size {led}, but files and steps imply {batch}; {_GIVE_CONFIG}"
        raise DlioFormatError("throughput", what)
    return batch, "the batch size is derived from files and steps: there is no configuration"


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


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


def _settings(directory: Path) -> dict[str, str]:
    """Return DLIO's configuration from the result directory, as values by dotted name.

    The configuration tool hydra writes it there. Lists are left out.
    """
    settings: dict[str, str] = {}
    for path in (directory / place / "config.yaml" for place in _CONFIG_PLACES):
        if not path.is_file():
            continue
        names: list[tuple[int, str]] = []
        for line in read_input(path).decode(errors="replace").splitlines():
            if match := _SETTING.fullmatch(line):
                names = [indexed for indexed in names if indexed[0] < len(match[1])]
                names.append((len(match[1]), match[2]))
                settings[".".join(name for _, name in names)] = (match[3] or "").strip("'\"")
    return settings


def _training_fields(
    directory: Path, results: Results, batch: int, nominal: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a training workload that describe the run, and extra parameters.

    If no profile of storlab fits, the parameters contain a profile made from the results.
    """
    blocks = [
        b
        for epochs in results.ranks
        for blocks_of_epoch in epochs.values()
        for b in blocks_of_epoch
    ]
    compute_s = float(np.median(np.concatenate([block.compute for block in blocks])))
    summary = results.summary
    files = int(summary.get("num_files_train") or 1)
    per_file = int(summary.get("num_samples_per_file") or 1)
    fields: dict[str, Any] = {
        "accelerators": len(results.ranks),
        "epochs": len(results.times),
        "files": files,
    }
    for name in profile_names():
        profile = load_profile(name)
        if _is_like(profile, nominal, per_file, batch, compute_s):
            return {"profile": name, **fields}, {}
    name = f"{_model(directory) or 'imported'}.toml"
    data = {
        "source": "derived from results of a DLIO run, which do not record the file format",
        "published": False,
        "dataset": {
            "format": "npz" if per_file == 1 else "tfrecord",
            "num_files_train": files,
            "num_samples_per_file": per_file,
            "record_length_bytes": nominal,
        },
        "reader": {"batch_size": batch},
        "train": {"epochs": len(results.times), "computation_time": f"{compute_s:.6f}s"},
    }
    return {"profile": name, **fields}, {"profile_data": data}


def _is_like(profile: Profile, nominal: int, per_file: int, batch: int, compute_s: float) -> bool:
    data, compute_ns = profile.dataset, profile.train.computation_time
    return (
        abs(data.record_length_bytes - nominal) <= 1
        and data.num_samples_per_file == per_file
        and profile.reader.batch_size == batch
        and abs(compute_s * NS_PER_S - compute_ns) <= _COMPUTE * compute_ns
    )


def _checkpoint(directory: Path, results: Results) -> ImportedRun:
    size_gib = dlio_result.number(results.metric.get("checkpoint_size_GB"))
    if size_gib is None or size_gib <= 0:
        raise DlioFormatError("metric.checkpoint_size_GB", "is missing")
    size = round(size_gib * GIB)
    moved = results.checkpoints or _means(results)
    if not moved:
        raise DlioFormatError("metric", "has no duration of a checkpoint")
    first_ns = min(piece.start_ns for piece in moved)
    outcome = RunOutcome(
        status="finished",
        engine=_engine(results),
        window_start_ns=0,
        window_end_ns=max(piece.end_ns for piece in moved) - first_ns,
        samples=[],
        totals=_checkpoint_totals(moved, size),
        cpu=None,
        notes=_checkpoint_notes(results),
        details=_checkpoint_details(moved, size, first_ns),
        spans=[
            Span(
                kind="restore" if piece.kind == "read" else "write",
                name=f"checkpoint {number}",
                start_ns=piece.start_ns - first_ns,
                end_ns=piece.end_ns - first_ns,
                bytes=size,
            )
            for number, piece in enumerate(moved, 1)
        ],
    )
    model = _model(directory) or "imported"
    fields: dict[str, Any] = {
        "profile": model if model in checkpoint_names() else f"{model}.toml",
        "writes": max(1, sum(piece.kind == "write" for piece in moved)),
        "restores": sum(piece.kind == "read" for piece in moved),
        "sync": "none",
    }
    began_ns = first_ns if results.checkpoints else _started_ns(results)
    return _run("checkpoint", directory, fields, outcome, began_ns)


def _means(results: Results) -> list[Moved]:
    """Return one checkpoint write and one read that have the mean durations DLIO recorded.

    Used if DLIO did not record each checkpoint separately.
    """
    pieces, at_ns = [], 0
    for kind, name in (("write", "save"), ("read", "load")):
        seconds = dlio_result.number(results.metric.get(f"{name}_checkpoint_duration_mean_seconds"))
        if seconds is not None and seconds > 0:
            end_ns = at_ns + round(seconds * NS_PER_S)
            pieces.append(Moved(kind, at_ns, end_ns, [(at_ns, end_ns)]))
            at_ns = end_ns
    return pieces


def _checkpoint_totals(moved: Iterable[Moved], size: int) -> dict[str, OperationTotals]:
    counted: dict[str, int] = {}
    for piece in moved:
        counted[piece.kind] = counted.get(piece.kind, 0) + 1
    return {
        kind: OperationTotals(operations=count, bytes=count * size)
        for kind, count in counted.items()
    }


def _checkpoint_details(moved: Iterable[Moved], size: int, first_ns: int) -> dict[str, Any]:
    details: dict[str, Any] = {"writes": [], "restores": [], "device_counters": False}
    for number, piece in enumerate(moved, 1):
        start_ns, end_ns = piece.start_ns - first_ns, piece.end_ns - first_ns
        share = math.ceil(size / len(piece.ranks))
        entry: dict[str, Any] = {"number": number, "start_ns": start_ns, "bytes": size}
        entry["ranks"] = [
            {"rank": rank, "bytes": share, "start_ns": begin - first_ns, "end_ns": end - first_ns}
            for rank, (begin, end) in enumerate(piece.ranks)
        ]
        if piece.kind == "write":
            details["writes"].append({**entry, "written_ns": end_ns, "durable_ns": end_ns})
        else:
            details["restores"].append({**entry, "end_ns": end_ns})
    return details


def _checkpoint_notes(results: Results) -> list[str]:
    notes = [
        "an operation is a whole checkpoint: DLIO does not record single writes",
        "DLIO does not flush checkpoints, even with fsync in its configuration: times end when the "
        "data is written, not when it is durable",
        "DLIO's GB are GiB: sizes and rates here are in bytes, MB and GB of powers of ten",
    ]
    if not results.checkpoints:
        notes.append("DLIO recorded only means: one checkpoint of the mean duration is imported")
    for kind, name in (("writes", "save"), ("restores", "load")):
        rate = dlio_result.number(results.metric.get(f"{name}_checkpoint_io_mean_GB_per_second"))
        if rate is not None:
            notes.append(
                f'DLIO\'s own summary reports {significant(rate, 5)} "GB/s" of {kind}: it averages '
                "the rates of single checkpoints, in GiB/s "
                f"({significant(rate * GIB / MB, 5)} MB/s); storlab divides all bytes by all the "
                "time"
            )
    return notes


def _engine(results: Results) -> EngineInfo:
    features = ["measured compute"] if any(results.ranks) and results.compute_is_measured else []
    return EngineInfo(name="dlio", version="unknown", features=features, clock="wall")


def _memory_bytes(results: Results) -> int | None:
    gib = results.summary.get("host_memory_GB")
    first = gib[0] if isinstance(gib, list) and gib else gib
    value = dlio_result.number(first)
    return None if value is None else round(value * GIB)


def _started_ns(results: Results) -> int:
    try:
        return dlio_result.time_ns(str(results.summary.get("start")))
    except ValueError:
        return 0


def _model(directory: Path) -> str | None:
    """Return the model's name if the run is in a result tree of MLPerf Storage, else None."""
    parts = directory.absolute().parts
    for kind in ("training", "checkpointing"):
        if kind in parts[:-1] and _STAMP.fullmatch(parts[-1]):
            return parts[parts.index(kind) + 1]
    return None


def _is_direct(directory: Path) -> bool | None:
    """Return whether DLIO's configuration sets O_DIRECT; None if there is no configuration."""
    places = [directory / place for place in (*_CONFIG_PLACES, ".")]
    texts = [
        read_input(path).decode(errors="replace")
        for place in places
        for path in sorted(place.glob(_CONFIG))
    ]
    return any(_DIRECT.search(text) for text in texts) if texts else None


def _run(
    kind: str,
    directory: Path,
    fields: dict[str, Any],
    outcome: RunOutcome,
    began_ns: int,
    *,
    direct: bool | None = None,
    params: dict[str, Any] | None = None,
) -> ImportedRun:
    if outcome.window_end_ns <= outcome.window_start_ns:
        fix = "read DLIO's log, dlio.log, for the cause"
        outcome.conclude(Failure(message="the run has a duration of 0", fix=fix))
    outcome.notes.append("DLIO records local times without a zone; UTC is assumed")
    started = datetime.fromtimestamp(began_ns / NS_PER_S, UTC)
    return ImportedRun(
        kind=kind,
        fields=fields,
        label=None,
        target="imported" if _model(directory) else directory.absolute().name,
        locations=["imported"],
        direct=direct,
        engine="dlio",
        outcome=outcome,
        metrics=[],
        started_at=started.isoformat(timespec="milliseconds"),
        ramp_ns=0,
        runtime_ns=max(1, outcome.window_end_ns - outcome.window_start_ns),
        params=params or {},
    )
