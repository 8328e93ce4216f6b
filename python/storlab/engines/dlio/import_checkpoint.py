"""Import of the checkpoints of a DLIO run.

DLIO records the start and end of each checkpoint, or only mean durations. Since version 2.0 it
also records a checkpoint's size; without the size, checkpoints become phases of the training run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from storlab.base.units import GIB, MB, NS_PER_S, significant
from storlab.contracts.exchange import ImportedRun
from storlab.engines.dlio import layout
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.imported_run import engine_info, imported_run, time_of
from storlab.engines.dlio.result import DlioFormatError, Moved, Results
from storlab.engines.dlio.settings import Settings
from storlab.model.result import OperationTotals, RunOutcome, Span
from storlab.workloads.checkpoint.profiles import profile_names

_SIZE = "checkpoint_size_GB"


def checkpoint_bytes(results: Results) -> int | None:
    """Return the size of one checkpoint; None if DLIO did not record it."""
    gib = dlio_result.number(results.metric.get(_SIZE))
    return None if gib is None or gib <= 0 else round(gib * GIB)


def checkpoint_spans(moved: Iterable[Moved], first_ns: int, size: int = 0) -> list[Span]:
    """Return checkpoints as spans of a run.

    Args:
        moved: The checkpoints in order.
        first_ns: Start of the run, as UNIX time in ns.
        size: Bytes of each checkpoint; 0 if unknown.
    """
    return [
        Span(
            kind="restore" if piece.kind == "read" else "write",
            name=f"checkpoint {number}",
            start_ns=piece.start_ns - first_ns,
            end_ns=piece.end_ns - first_ns,
            bytes=size,
        )
        for number, piece in enumerate(moved, 1)
    ]


def checkpoint_phases(results: Results) -> list[Moved]:
    """Return the checkpoints if their size is unknown; they become phases of a training."""
    return results.checkpoints if checkpoint_bytes(results) is None else []


def phase_notes(moved: Sequence[Moved]) -> list[str]:
    """Return a note on checkpoints that are kept only as phases; empty if there are none."""
    if not moved:
        return []
    seconds = ", ".join(
        significant((piece.end_ns - piece.start_ns) / NS_PER_S, 3) for piece in moved[:10]
    )
    more = f" and {len(moved) - 10} more" if len(moved) > 10 else ""
    return [
        f"DLIO also wrote or read checkpoints, {len(moved)} in all, in {seconds} s{more}: they are "
        "phases of this run without a throughput, because DLIO did not record their size"
    ]


def import_checkpoint(directory: Path, results: Results, settings: Settings) -> ImportedRun:
    """Convert the checkpoints of a DLIO run to a run of a checkpoint workload.

    Raises:
        DlioFormatError: The size or all durations of checkpoints are missing.
    """
    size = checkpoint_bytes(results)
    if size is None:
        raise DlioFormatError(f"metric.{_SIZE}", "is missing")
    moved = results.checkpoints or _means(results)
    if not moved:
        raise DlioFormatError("metric", "has no duration of a checkpoint")
    first_ns = min(piece.start_ns for piece in moved)
    outcome = RunOutcome(
        status="finished",
        engine=engine_info(results),
        window_start_ns=0,
        window_end_ns=max(piece.end_ns for piece in moved) - first_ns,
        samples=[],
        totals=_totals(moved, size),
        cpu=None,
        notes=_notes(results),
        details=_details(moved, size, first_ns),
        spans=checkpoint_spans(moved, first_ns, size),
    )
    model = layout.model_name(directory) or settings.model or "imported"
    fields: dict[str, Any] = {
        "profile": model if model in profile_names() else f"{model}.toml",
        "writes": max(1, sum(piece.kind == "write" for piece in moved)),
        "restores": sum(piece.kind == "read" for piece in moved),
        "sync": "none",
    }
    began_ns = first_ns if results.checkpoints else time_of("start", results)
    return imported_run("checkpoint", directory, results, settings, fields, outcome, began_ns)


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


def _totals(moved: Iterable[Moved], size: int) -> dict[str, OperationTotals]:
    counted: dict[str, int] = {}
    for piece in moved:
        counted[piece.kind] = counted.get(piece.kind, 0) + 1
    return {
        kind: OperationTotals(operations=count, bytes=count * size)
        for kind, count in counted.items()
    }


def _details(moved: Iterable[Moved], size: int, first_ns: int) -> dict[str, Any]:
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


def _notes(results: Results) -> list[str]:
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
