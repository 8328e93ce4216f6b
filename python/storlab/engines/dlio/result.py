"""DLIO's result files: every rank's steps, and what they come to.

Files of one run: ``summary.json``, ``<rank>_output.json`` (seconds of each step: ``load`` waits for
a batch, ``compute`` computes, ``proc`` is both), ``<rank>_per_epoch_stats.json`` (when blocks of
steps and checkpoints began and ended, in local time; the release on PyPI writes rank 0's without
its rank). A number in them may be a bare NaN or Infinity, which is no JSON, but which Python reads.
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

from storlab.base.units import MIB, NS_PER_S, significant
from storlab.model.result import Span
from storlab.process.events import NONE, Events, Ints

Floats = npt.NDArray[np.float64]
_OUTPUT = re.compile(r"(\d+)_output\.json")
_STATS = re.compile(r"(?:(\d+)_)?per_epoch_stats\.json")
_BLOCK = re.compile(r"block(\d+)")
_CHECKPOINT = re.compile(r"(save_|load_)?ckpt(\d+)")
_START = datetime(1970, 1, 1, tzinfo=UTC)


class DlioFormatError(ValueError):
    """A file that is not as DLIO writes it: which field, and what of it."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"{field} {what}")
        self.field = field
        self.what = what


@dataclass(frozen=True, slots=True)
class Block:
    """Steps between two checkpoints, of one rank; seconds."""

    load: Floats
    proc: Floats
    compute: Floats
    throughput: float  # samples/s, as DLIO has it


@dataclass(frozen=True, slots=True)
class Moved:
    """One checkpoint written or read, over all ranks; UNIX time in ns."""

    kind: str  # write, read
    start_ns: int
    end_ns: int
    ranks: list[tuple[int, int]]  # start and end of each


@dataclass(frozen=True, slots=True)
class Results:
    """All files of one run. Epochs are numbered from 1, blocks are in order."""

    summary: dict[str, Any]
    ranks: list[dict[int, list[Block]]]
    times: dict[int, list[tuple[int, int]]]  # of the blocks of an epoch, UNIX time in ns
    checkpoints: list[Moved]

    @property
    def metric(self) -> dict[str, Any]:
        """DLIO's own figures."""
        metrics: dict[str, Any] = self.summary.get("metric") or {}
        return metrics

    @property
    def compute_is_measured(self) -> bool:
        """False where the file holds the configured time of every step in place of a measured one.

        So it is in the release on PyPI (2.0.0) and all before it.
        """
        every = [b.compute for epochs in self.ranks for blocks in epochs.values() for b in blocks]
        values = np.concatenate(every) if every else np.empty(0)
        return len(values) < 2 or bool(np.ptp(values) > 0)


def is_result_file(name: str) -> bool:
    """Whether a file of that name belongs to a run's results."""
    return name == "summary.json" or bool(_OUTPUT.fullmatch(name) or _STATS.fullmatch(name))


def read_results(files: Mapping[str, bytes]) -> Results:
    """The results in these files, by name. Raises DlioFormatError naming the file and field."""
    documents = {
        name: _document(name, data) for name, data in files.items() if is_result_file(name)
    }
    if "summary.json" not in documents:
        raise DlioFormatError("summary.json", "is missing: the run did not end")
    summary = documents["summary.json"]
    outputs = {int(m[1]): d for n, d in documents.items() if (m := _OUTPUT.fullmatch(n))}
    stats = {int(m[1] or 0): d for n, d in documents.items() if (m := _STATS.fullmatch(n))}
    ranks = [_rank(f"{rank}_output.json", outputs[rank]) for rank in sorted(outputs)]
    expected = summary.get("num_accelerators")
    if any(ranks) and isinstance(expected, int) and len(ranks) != expected:
        raise DlioFormatError(
            "<rank>_output.json", f"is there for {len(ranks)} of {expected} accelerators"
        )
    times = _times(stats.get(0, {}))
    for epoch in {n for epochs in ranks for n in epochs}:
        if any(len(epochs.get(epoch, [])) != len(times.get(epoch, [])) for epochs in ranks):
            raise DlioFormatError(
                f"per_epoch_stats.json: {epoch}", "tells of other blocks than the ranks do"
            )
    return Results(summary, ranks, times, _checkpoints(stats))


def _document(name: str, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise DlioFormatError(name, f"is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DlioFormatError(name, "is no object")
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
            raise DlioFormatError(f"{name}: {key}", f"is not as DLIO writes it: {error}") from error
        if steps := [block for block in blocks if len(block.load)]:
            by_epoch[int(key)] = steps  # an epoch of checkpoints alone has lists without a step
    return by_epoch


def _number(name: str) -> int:
    match = _BLOCK.fullmatch(name)
    return int(match[1]) if match else 0


def _block(epoch: dict[str, Any], name: str) -> Block:
    load, proc, compute = (
        np.asarray(epoch[phase][name], dtype=np.float64) for phase in ("load", "proc", "compute")
    )
    if not len(load) == len(proc) == len(compute):
        raise ValueError(f"{name} has {len(load)} loads, {len(proc)} proc, {len(compute)} compute")
    if not all(np.isfinite(seconds).all() for seconds in (load, proc, compute)):
        raise ValueError(f"{name} has a step whose seconds are no number")
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
        raise DlioFormatError(f"per_epoch_stats.json: {where}", f"has no times: {error}") from error


def time_ns(text: str) -> int:
    """ISO 8601 as UNIX time in ns; what names no zone is taken for UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - _START) // timedelta(microseconds=1) * 1000


def _checkpoints(stats: Mapping[int, dict[str, Any]]) -> list[Moved]:
    """Each checkpoint from its first rank's start to its last rank's end."""
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
    """A run's steps on its clock: what the family's metrics are made of."""

    epochs: list[dict[str, Any]]  # as the native engine tells them
    events: list[Events]
    spans: list[Span]

    @property
    def window(self) -> tuple[int, int]:
        """From the first epoch's start to the last one's end."""
        starts, ends = [s.start_ns for s in self.spans], [s.end_ns for s in self.spans]
        return min(starts, default=0), max(ends, default=0)


def timeline(results: Results, offset_ns: int, batch: int, sample_bytes: float) -> Timeline:
    """Steps placed in time. ``offset_ns`` leads from UNIX time to the run's clock.

    Only blocks are stamped, by rank 0. Within one, steps follow each other; what is left of it is
    spread evenly over them, for it was spent in barriers. A checkpoint between blocks is in no
    accelerator's time.
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
    """Seconds of computing of each step; from what is left of a step where only set times are."""
    return block.compute if measured else np.maximum(block.proc - block.load, 0)


def _placed(block: Block, span: tuple[int, int]) -> tuple[Ints, Ints]:
    """When each step's batch was there, and how long it was waited for; ns."""
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
    """Bytes of a sample as configured: its rate in "MB" (MiB) over its rate in samples."""
    rate, samples = _rates(results)
    return round(rate * MIB / samples) if rate > 0 and samples > 0 else None


def _rates(results: Results) -> tuple[float, float]:
    """DLIO's "MB/s" and samples/s; 0 where they are missing, or no numbers."""
    names = ("train_io_mean_MB_per_second", "train_throughput_mean_samples_per_second")
    rate, samples = (number(results.metric.get(name)) or 0.0 for name in names)
    return rate, samples


def number(value: Any) -> float | None:
    """A number as such; None for anything else, a NaN and an infinite one included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def defects(results: Results) -> list[str]:
    """Notes on what DLIO prints of the same run, beside the numbers here."""
    rate, samples = _rates(results)
    sentences = []
    if rate > 0 and samples > 0:
        odd = "; and the samples of all but two steps are divided by the time of all but one"
        sentences.append(
            f"DLIO's own summary says {significant(rate, 5)} MB/s and {significant(samples, 5)} "
            "samples/s: that is "
            "samples x nominal size, not bytes moved, in MiB"
            + (odd if results.compute_is_measured else "")
        )
    au = number(results.metric.get("train_au_mean_percentage"))
    if au is not None:
        odd = ", and with the configured compute time where a measured one is meant"
        sentences.append(
            f"DLIO's own summary says AU {au:.4g} %: without the first step of each epoch"
            + ("" if results.compute_is_measured else odd)
        )
    return sentences
