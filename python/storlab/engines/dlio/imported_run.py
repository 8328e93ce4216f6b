"""Records of imported DLIO runs: the parts that training and checkpoint runs share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from storlab.base.units import GIB, NS_PER_S
from storlab.contracts.exchange import ImportedRun
from storlab.engines.dlio import layout
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.result import Results
from storlab.engines.dlio.settings import Settings
from storlab.model.result import EngineInfo, Failure, Metric, RunOutcome

_NO_DIRECT = (
    "it is unknown whether reads bypassed the page cache: the directory has no configuration file"
)

_WARM_UP = (
    "this is the first of six runs: MLPerf Storage v3.0 leaves it out as a warm-up, but here it is "
    "a repeat like the others; to leave it out, import the other run directories by name"
)


def imported_run(
    kind: str,
    directory: Path,
    results: Results,
    settings: Settings,
    fields: dict[str, Any],
    outcome: RunOutcome,
    began_ns: int,
    *,
    params: dict[str, Any] | None = None,
    metrics: list[Metric] | None = None,
) -> ImportedRun:
    """Return an imported run of a training or checkpoint workload.

    Args:
        kind: Kind of the workload.
        directory: Directory of the run's results.
        results: Results of the run.
        settings: Settings of the run.
        fields: Fields of the workload.
        outcome: Outcome of the run, to which notes are added.
        began_ns: Start of the run, as UNIX time in ns.
        params: Further parameters of the point.
        metrics: Metrics that DLIO states.
    """
    is_training = kind == "training"
    direct = settings.direct if is_training else None
    if outcome.window_end_ns <= outcome.window_start_ns:
        fix = "read DLIO's log, dlio.log, for the cause"
        outcome.conclude(Failure(message="the run has a duration of 0", fix=fix))
    outcome.notes.append("DLIO records local times without a zone; UTC is assumed")
    if settings.store is not None:
        outcome.notes.append(f"the data is in an object store: {settings.store}")
    elif is_training and direct is None:
        outcome.notes.append(_NO_DIRECT)
    if layout.is_warm_up(directory):
        outcome.notes.append(_WARM_UP)
    started = datetime.fromtimestamp(began_ns / NS_PER_S, UTC)
    return ImportedRun(
        kind=kind,
        fields=fields,
        label=None,
        target=layout.target_name(directory, settings.model),
        locations=["imported"],
        direct=direct,
        engine="dlio",
        outcome=outcome,
        metrics=metrics or [],
        started_at=started.isoformat(timespec="milliseconds"),
        ramp_ns=0,
        runtime_ns=max(1, outcome.window_end_ns - outcome.window_start_ns),
        params=params or {},
        clients=_host_count(results) if is_training else None,
    )


def engine_info(results: Results) -> EngineInfo:
    """Return the engine of a run: DLIO, whose version the results do not record."""
    features = ["measured compute"] if any(results.ranks) and results.compute_is_measured else []
    return EngineInfo(name="dlio", version="unknown", features=features, clock="wall")


def memory_bytes(results: Results) -> int | None:
    """Return the sum of all hosts' memory in bytes; None if it is not recorded."""
    gib = results.summary.get("host_memory_GB")
    values = [dlio_result.number(value) for value in (gib if isinstance(gib, list) else [gib])]
    known = [value for value in values if value is not None]
    return round(sum(known) * GIB) if known and len(known) == len(values) else None


def time_of(event: Literal["start", "end"], results: Results) -> int:
    """Return when DLIO started or ended, as UNIX time in ns; 0 if it is not recorded."""
    try:
        return dlio_result.time_ns(str(results.summary.get(event)))
    except ValueError:
        return 0


def _host_count(results: Results) -> int | None:
    """Return the number of hosts if it is more than one, else None."""
    count = results.summary.get("num_hosts")
    return count if isinstance(count, int) and count > 1 else None
