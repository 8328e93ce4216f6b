"""Find runs of which one file has only aggregates, while another file has all operations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

from storlab.base.units import NS_PER_S
from storlab.contracts.exchange import UNKNOWN_START, ImportedRun

_START_S = 3.0  # aggregates may exclude the first seconds
_RATE = (
    0.10  # relative difference of rates, because windows differ by the first and last operations
)


def aggregates_of_others(runs: Sequence[ImportedRun], files: Sequence[str]) -> dict[int, int]:
    """Return the index of each run that is an aggregate of another one, with the other's index.

    That is the case if both are results of the same tool from the same devices or store, started at
    the same time with the same rates, and only the other one has a time series.

    Args:
        runs: Imported runs.
        files: File of each run; runs of one file are not compared.
    """
    detailed = [index for index, run in enumerate(runs) if run.outcome.samples]
    found: dict[int, int] = {}
    for index, run in enumerate(runs):
        if run.outcome.samples or run.started_at == UNKNOWN_START:
            continue
        for other in detailed:
            if files[index] != files[other] and _is_same(run, runs[other]):
                found[index] = other
                break
    return found


def _is_same(run: ImportedRun, other: ImportedRun) -> bool:
    if _place(run) != _place(other) or other.started_at == UNKNOWN_START:
        return False
    starts = [datetime.fromisoformat(each.started_at) for each in (run, other)]
    if abs((starts[0] - starts[1]).total_seconds()) > _START_S:
        return False
    rates, others = _rates(run), _rates(other)
    return set(rates) == set(others) and all(
        abs(rate - others[kind]) <= _RATE * others[kind] for kind, rate in rates.items()
    )


def _place(run: ImportedRun) -> tuple[str, str, str, list[str]]:
    """Return what must be equal; aggregates of warp may lack the bucket."""
    store = urlsplit(run.s3).netloc if run.s3 else run.target
    return run.kind, run.engine, store, run.locations


def _rates(run: ImportedRun) -> dict[str, float]:
    window_s = (run.outcome.window_end_ns - run.outcome.window_start_ns) / NS_PER_S
    return {
        kind: total.operations / max(window_s, 1e-9)
        for kind, total in run.outcome.totals.items()
        if total.operations
    }
