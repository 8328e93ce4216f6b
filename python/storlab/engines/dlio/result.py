"""Reader of DLIO's result files, which also computes when each training step ran.

A run has these files:

- ``summary.json``
- ``<rank>_output.json``: seconds of each step. ``load`` is the wait for a batch, ``compute`` the
  computation, ``proc`` both.
- ``<rank>_per_epoch_stats.json``: begin and end of blocks of steps and of checkpoints, in local
  time. The release on PyPI omits the rank in the name of rank 0's file.

They may contain NaN and Infinity, which are not JSON but are accepted by Python.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from storlab.base.errors import FormatError
from storlab.base.units import MIB, NS_PER_S, significant
from storlab.model.result import Span
from storlab.process.events import NONE, Events, Ints

Floats = npt.NDArray[np.float64]
_OUTPUT = re.compile(r"(\d+)_output\.json")
_STATS = re.compile(r"(?:(\d+)_)?per_epoch_stats\.json")
_BLOCK = re.compile(r"block(\d+)")
_CHECKPOINT = re.compile(r"(save_|load_)?ckpt(\d+)")
_START = datetime(1970, 1, 1, tzinfo=UTC)


class DlioFormatError(FormatError):
    """Error: a file deviates from DLIO's format in ``field``; ``what`` is the problem."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive training steps of one rank between two checkpoints: seconds of each step."""

    load: Floats
    proc: Floats
    compute: Floats
    throughput: float  # samples/s, as computed by DLIO


@dataclass(frozen=True, slots=True)
class Moved:
    """One checkpoint, written or read by all ranks, with UNIX times in ns."""

    kind: str  # "read" or "write"
    start_ns: int
    end_ns: int
    ranks: list[tuple[int, int]]  # start and end of each rank


@dataclass(frozen=True, slots=True)
class Results:
    """Content of all result files of one DLIO run. Epochs count from 1."""

    summary: dict[str, Any]
    ranks: list[dict[int, list[Block]]]
    times: dict[int, list[tuple[int, int]]]  # start and end of each block by epoch, UNIX time in ns
    checkpoints: list[Moved]

    @property
    def metric(self) -> dict[str, Any]:
        """Metrics that DLIO computed itself, as stored in ``summary.json``."""
        metrics: dict[str, Any] = self.summary.get("metric") or {}
        return metrics

    @property
    def compute_is_measured(self) -> bool:
        """Whether compute times were measured; DLIO up to 2.0.0 stores the configured time."""
        every = [b.compute for epochs in self.ranks for blocks in epochs.values() for b in blocks]
        values = np.concatenate(every) if every else np.empty(0)
        return len(values) < 2 or bool(np.ptp(values) > 0)


def is_result_file(name: str) -> bool:
    """Return whether a file name is one of DLIO's result files."""
    return name == "summary.json" or bool(_OUTPUT.fullmatch(name) or _STATS.fullmatch(name))


def is_rank_file(name: str) -> bool:
    """Return whether a file with this name contains a rank's step times."""
    return bool(_OUTPUT.fullmatch(name))


def read_results(files: Mapping[str, bytes]) -> Results:
    """Parse DLIO's result files, given as contents by name.

    Raises:
        DlioFormatError: A file is missing or malformed; the error names file and field.
    """
    documents = {
        name: _document(name, data) for name, data in files.items() if is_result_file(name)
    }
    if "summary.json" not in documents:
        raise DlioFormatError("summary.json", "is missing: the run was not completed")
    summary = documents["summary.json"]
    outputs = {int(m[1]): d for n, d in documents.items() if (m := _OUTPUT.fullmatch(n))}
    stats = {int(m[1] or 0): d for n, d in documents.items() if (m := _STATS.fullmatch(n))}
    ranks = [_rank(f"{rank}_output.json", outputs[rank]) for rank in sorted(outputs)]
    expected = summary.get("num_accelerators")
    if any(ranks) and isinstance(expected, int) and len(ranks) != expected:
        raise DlioFormatError(
            "<rank>_output.json", f"exists for only {len(ranks)} of {expected} accelerators"
        )
    times = _times(stats.get(0, {}))
    for epoch in {n for epochs in ranks for n in epochs}:
        if any(len(epochs.get(epoch, [])) != len(times.get(epoch, [])) for epochs in ranks):
            raise DlioFormatError(
                f"per_epoch_stats.json: {epoch}",
                "has another number of blocks than <rank>_output.json",
            )
    return Results(summary, ranks, times, _checkpoints(stats))


def _document(name: str, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise DlioFormatError(name, f"is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DlioFormatError(name, "is not a JSON object")
    return document


def _rank(name: str, document: dict[str, Any]) -> dict[int, list[Block]]:
    by_epoch: dict[int, list[Block]] = {}
    for key, epoch in document.items():
        if not key.isdigit() or not isinstance(epoch, dict):
            continue
        try:
            names = sorted((n for n in epoch["load"] if _BLOCK.fullmatch(n)), key=_number)
            blocks = [_block(epoch, block) for block in names]
        except (KeyError, TypeError, ValueError) as error:
            raise DlioFormatError(
                f"{name}: {key}", f"is in none of DLIO's known formats: {error}"
            ) from error
        if steps := [block for block in blocks if len(block.load)]:
            by_epoch[int(key)] = steps  # epochs with checkpoints only have empty lists
    return by_epoch


def _number(name: str) -> int:
    match = _BLOCK.fullmatch(name)
    return int(match[1]) if match else 0


def _block(epoch: dict[str, Any], name: str) -> Block:
    load, proc, compute = (
        np.asarray(epoch[phase][name], dtype=np.float64) for phase in ("load", "proc", "compute")
    )
    if not len(load) == len(proc) == len(compute):
        counts = f"{len(load)}, {len(proc)} and {len(compute)}"
        raise ValueError(f"{name} has unequal numbers of load, proc and compute values: {counts}")
    if not all(np.isfinite(seconds).all() for seconds in (load, proc, compute)):
        raise ValueError(f"{name} has a step whose duration is not a finite number")
    rate = epoch.get("throughput", {}).get(name)
    return Block(load, proc, compute, number(rate) or 0.0)


def _times(document: dict[str, Any]) -> dict[int, list[tuple[int, int]]]:
    times: dict[int, list[tuple[int, int]]] = {}
    for key, epoch in document.items():
        if key.isdigit() and isinstance(epoch, dict):
            names = sorted((n for n in epoch if _BLOCK.fullmatch(n)), key=_number)
            if names:
                times[int(key)] = [_begin_end(epoch[n], f"{key}.{n}") for n in names]
    return times


def _begin_end(entry: Any, where: str) -> tuple[int, int]:
    try:
        return time_ns(entry["start"]), time_ns(entry["end"])
    except (KeyError, TypeError, ValueError) as error:
        what = f"has no valid start and end: {error}"
        raise DlioFormatError(f"per_epoch_stats.json: {where}", what) from error


def time_ns(text: str) -> int:
    """Convert ISO 8601 to UNIX time in ns; without a zone, UTC is assumed. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - _START) // timedelta(microseconds=1) * 1000


def _checkpoints(stats: Mapping[int, dict[str, Any]]) -> list[Moved]:
    """Return all checkpoints; each lasts from its first rank's start to its last rank's end."""
    pieces: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for rank in sorted(stats):
        for key, epoch in stats[rank].items():
            for name, entry in epoch.items() if isinstance(epoch, dict) else ():
                if key.isdigit() and _CHECKPOINT.fullmatch(name):
                    times = _begin_end(entry, f"{key}.{name}")
                    pieces.setdefault((int(key), name), []).append(times)
    moved = [
        Moved(
            kind="read" if name.startswith("load_") else "write",
            start_ns=min(start for start, _ in ranks),
            end_ns=max(end for _, end in ranks),
            ranks=ranks,
        )
        for (_, name), ranks in pieces.items()
    ]
    return sorted(moved, key=lambda piece: piece.start_ns)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Epochs and steps of a run with times on the run's clock, from which metrics are computed."""

    epochs: list[dict[str, Any]]  # with the native engine's field names
    events: list[Events]
    spans: list[Span]

    @property
    def window(self) -> tuple[int, int]:
        """Start of the first epoch and end of the last epoch, in ns."""
        starts, ends = [s.start_ns for s in self.spans], [s.end_ns for s in self.spans]
        return min(starts, default=0), max(ends, default=0)


def timeline(results: Results, offset_ns: int, batch: int, sample_bytes: float) -> Timeline:
    """Compute when each training step ran.

    DLIO records start and end only of blocks of steps; those of rank 0 are used. The steps of a
    block are laid end to end, and the time left over, which was spent in barriers, is spread evenly
    over them. Checkpoints between blocks do not count as an accelerator's time.

    Args:
        results: DLIO's results.
        offset_ns: Run's clock minus UNIX time.
        batch: The number of samples in a step.
        sample_bytes: The mean size of a sample.
    """
    epochs: list[dict[str, Any]] = []
    spans: list[Span] = []
    waits: list[Ints] = []
    reads: list[Ints] = []
    for epoch in sorted(results.times):
        times = [(begin + offset_ns, end + offset_ns) for begin, end in results.times[epoch]]
        own = [epochs_of[epoch] for epochs_of in results.ranks if epochs_of.get(epoch)]
        if not times or not own:
            continue
        accelerators = []
        for rank, blocks in enumerate(own):
            measured = [_computed(block, results.compute_is_measured) for block in blocks]
            accelerators.append(_accelerator(rank, times, blocks, measured, batch * sample_bytes))
            for block, span in zip(blocks, times, strict=True):
                ends, wait = _placed(block, span)
                waits.append(np.stack([ends, wait, np.zeros_like(ends)], axis=1))
                sizes = np.full(len(ends) * batch, round(sample_bytes), dtype=np.int64)
                reads.append(np.stack([np.repeat(ends, batch), sizes, sizes], axis=1))
        moved = sum(accelerator["bytes"] for accelerator in accelerators)
        start_ns, end_ns = times[0][0], times[-1][1]
        name = f"epoch {epoch}"
        spans.append(Span(kind="epoch", name=name, start_ns=start_ns, end_ns=end_ns, bytes=moved))
        epochs.append(
            {
                "number": epoch,
                "start_ns": start_ns,
                "end_ns": end_ns,
                "bytes": moved,
                "samples": sum(accelerator["steps"] for accelerator in accelerators) * batch,
                "device_read_bytes": None,
                "accelerators": accelerators,
            }
        )
    return Timeline(epochs, _events(waits, reads), spans)


def _events(waits: Sequence[Ints], reads: Sequence[Ints]) -> list[Events]:
    if not waits:
        return []
    read = np.concatenate(reads)
    return [
        Events("read", read[:, 0], read[:, 2], NONE),
        Events.of_rows("step", np.concatenate(waits)),
    ]


def _computed(block: Block, measured: bool) -> Floats:
    """Return each step's compute seconds; if not measured, its duration minus its batch wait."""
    return block.compute if measured else np.maximum(block.proc - block.load, 0)


def _placed(block: Block, span: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return when the batch of each step arrived, and how long the step waited for it, in ns."""
    rest = max(0.0, (span[1] - span[0]) / NS_PER_S - float(block.proc.sum()))
    begin = np.concatenate([[0.0], np.cumsum(block.proc + rest / len(block.proc))[:-1]])
    ends = span[0] + np.rint((begin + block.load) * NS_PER_S).astype(np.int64)
    waits = np.rint(block.load * NS_PER_S).astype(np.int64)
    return np.minimum(ends, span[1]), waits


def _accelerator(
    rank: int,
    times: Sequence[tuple[int, int]],
    blocks: Sequence[Block],
    compute: Sequence[Floats],
    batch_bytes: float,
) -> dict[str, Any]:
    steps = sum(len(block.load) for block in blocks)
    length_ns = sum(end - begin for begin, end in times)
    start_ns = times[0][0]
    busy_s = sum(float(block.proc.sum()) for block in blocks)
    return {
        "accelerator": rank,
        "steps": steps,
        "start_ns": start_ns,
        "first_end_ns": start_ns + _ns(blocks[0].proc[0]),
        "end_ns": start_ns + length_ns,
        "compute_ns": sum(_ns(values.sum()) for values in compute),
        "first_compute_ns": _ns(compute[0][0]),
        "wait_ns": sum(_ns(block.load.sum()) for block in blocks),
        "first_wait_ns": _ns(blocks[0].load[0]),
        "barrier_ns": max(0, length_ns - _ns(busy_s)),
        "bytes": round(steps * batch_bytes),
    }


def _ns(seconds: float) -> int:
    return round(float(seconds) * NS_PER_S)


def nominal_bytes(results: Results) -> int | None:
    """Return the nominal bytes of a sample: DLIO's "MB/s" (really MiB/s) divided by samples/s.

    Returns None if DLIO reports no rates.
    """
    rate, samples = _rates(results)
    return round(rate * MIB / samples) if rate > 0 and samples > 0 else None


def _rates(results: Results) -> tuple[float, float]:
    """Return DLIO's "MB/s" and samples/s; 0 for a rate that is missing or not finite."""
    names = ("train_io_mean_MB_per_second", "train_throughput_mean_samples_per_second")
    rate, samples = (number(results.metric.get(name)) or 0.0 for name in names)
    return rate, samples


def number(value: Any) -> float | None:
    """Return the value as float if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def defects(results: Results) -> list[str]:
    """Return notes on why DLIO's own metrics of the run differ from storlab's."""
    rate, samples = _rates(results)
    sentences = []
    if rate > 0 and samples > 0:
        odd = "; and it divides the samples of all but two steps by the time of all but one"
        sentences.append(
            f"DLIO's own summary reports {significant(rate, 5)} MB/s and {significant(samples, 5)} "
            "samples/s: the former is samples x nominal size, not bytes read, and is in MiB/s"
            + (odd if results.compute_is_measured else "")
        )
    au = number(results.metric.get("train_au_mean_percentage"))
    if au is not None:
        odd = ", and uses the configured compute time instead of the measured one"
        sentences.append(
            f"DLIO's own summary reports AU {au:.4g} %: it omits the first step of each epoch"
            + ("" if results.compute_is_measured else odd)
        )
    return sentences
