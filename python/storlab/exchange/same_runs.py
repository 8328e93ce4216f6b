"""Find runs that are in two imported files, because a tool reports them in several formats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from urllib.parse import urlsplit

from storlab.base.units import NS_PER_S
from storlab.contracts.exchange import UNKNOWN_START, ImportedRun

_START_S = 3.0  # largest difference of starts: aggregates may exclude the first seconds
# Time zones differ by multiples of 15 min, at most from UTC-12 to UTC+14.
_ZONE_S, _ZONED_START_S = 900.0, 0.5
_MOST_ZONES_S = 26 * 3600
# Largest relative difference of rates: windows differ by the first and last operations.
_RATE = 0.10


def same_runs(runs: Sequence[ImportedRun], files: Sequence[str]) -> dict[int, int]:
    """Return the index of each run that repeats another one, with the other's index.

    Two results are the same run if the same tool wrote them in different formats, and they have the
    same devices or store, the same start and the same rates. If the time zone of only one of them
    is assumed, and their files are in one folder, starts may differ by a time zone; then a run is
    the same as at most one run of each other format. The result with more samples is kept, or the
    first if they have equally many.

    Args:
        runs: Imported runs.
        files: File of each run; runs of one file are not compared.
    """
    order = sorted(range(len(runs)), key=lambda index: -len(runs[index].outcome.samples))
    folders = [PurePath(file).parent for file in files]
    kept: dict[tuple[object, ...], list[int]] = {}
    found: dict[int, int] = {}
    for index in order:
        run = runs[index]
        if not run.form or run.started_at == UNKNOWN_START:
            continue
        kept_there = kept.setdefault(_place(run), [])
        alike = [
            other
            for other in kept_there
            if runs[other].form != run.form
            and files[other] != files[index]
            and _same_rates(run, runs[other])
        ]
        same = [other for other in alike if _apart_s(run, runs[other]) <= _START_S]
        same = same or [
            other
            for other in alike
            if folders[other] == folders[index]
            and _a_zone_apart(run, runs[other])
            and all(runs[each].form != run.form for each, to in found.items() if to == other)
        ]
        if same:
            found[index] = same[0]
        else:
            kept_there.append(index)
    return found


def _apart_s(run: ImportedRun, other: ImportedRun) -> float:
    """Return the difference of two starts in seconds."""
    starts = [datetime.fromisoformat(each.started_at) for each in (run, other)]
    return abs((starts[0] - starts[1]).total_seconds())


def _a_zone_apart(run: ImportedRun, other: ImportedRun) -> bool:
    """Return whether starts differ by a time zone, and the zone of only one of them is assumed."""
    apart_s = _apart_s(run, other)
    rest_s = abs(apart_s - _ZONE_S * round(apart_s / _ZONE_S))
    return (
        run.zone_assumed != other.zone_assumed
        and apart_s <= _MOST_ZONES_S
        and rest_s <= _ZONED_START_S
    )


def _same_rates(run: ImportedRun, other: ImportedRun) -> bool:
    rates, others = _rates(run), _rates(other)
    return set(rates) == set(others) and all(
        abs(rate - others[kind]) <= _RATE * others[kind] for kind, rate in rates.items()
    )


def _place(run: ImportedRun) -> tuple[object, ...]:
    """Return a key that is equal for runs of the same devices or store.

    The key of a store is its endpoint, because warp's aggregates may lack the bucket.
    """
    store = urlsplit(run.s3).netloc if run.s3 else run.target
    return run.kind, run.engine, run.label, store, *run.locations


def _rates(run: ImportedRun) -> dict[str, float]:
    window_s = (run.outcome.window_end_ns - run.outcome.window_start_ns) / NS_PER_S
    return {
        kind: total.operations / max(window_s, 1e-9)
        for kind, total in run.outcome.totals.items()
        if total.operations
    }
