"""Preconditioning: fill, then rounds of random overwrite until throughput is steady."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns
from storlab.base.seeds import derive_seed
from storlab.base.steady import steady_verdict
from storlab.base.units import MB, NS_PER_S, format_bytes_si
from storlab.contracts.offers import fills_members
from storlab.contracts.registry import get_engine
from storlab.contracts.reporter import Reporter
from storlab.lab.prepare.dataset import GRAIN, PrepareError, fill
from storlab.lab.results.store import ResultStore
from storlab.model.job import Member
from storlab.model.study import Precondition, Target
from storlab.process.execution import StopRequest, finish


def target_slug(name: str) -> str:
    """A file name for a target: readable, and different for different names."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{readable or 'target'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def precondition(
    target: Target,
    members: Sequence[Member],
    *,
    seed: int,
    store: ResultStore,
    stop: StopRequest,
    reporter: Reporter,
) -> dict[str, Any]:
    """Bring a target to steady state, and store how it went as ``prepare/<slug>.json``.

    Returns that record: ``complete``, ``fill``, every round's throughput in MB/s, and ``verdict``.
    A complete record of an earlier session stands. Raises PrepareError, or Interrupted.
    """
    spec = target.precondition
    if spec is None:
        raise ValueError(f"{target.name} asks for no preconditioning")
    name = target_slug(target.name)
    earlier = store.prepare(name)
    if earlier is not None and earlier["complete"]:
        return earlier
    record: dict[str, Any] = {
        "schema_version": 1,
        "target": target.name,
        "members": [{"name": m.name, "size": m.size, "offset": m.offset} for m in members],
        "settings": spec.dump(),
        "complete": False,
        "rounds": [],
    }
    record["fill"] = _fill(target, members, seed, stop, reporter)
    _rounds(record, target, spec, members, seed, stop, reporter, store, name)
    return record


def _fill(
    target: Target, members: Sequence[Member], seed: int, stop: StopRequest, reporter: Reporter
) -> dict[str, int]:
    whole = [m.model_copy(update={"size": m.size // GRAIN * GRAIN}) for m in members]
    size = sum(m.size for m in whole)
    reporter.step(f"preconditioning {target.name}: fill ({format_bytes_si(size)})", float(size))
    started_ns = monotonic_ns()
    fill(whole, direct=target.direct, seed=seed, stop=stop, reporter=reporter)
    return {"bytes": size, "duration_ns": monotonic_ns() - started_ns}


def _rounds(
    record: dict[str, Any],
    target: Target,
    spec: Precondition,
    members: Sequence[Member],
    seed: int,
    stop: StopRequest,
    reporter: Reporter,
    store: ResultStore,
    name: str,
) -> None:
    engine, family = get_engine("native"), fills_members()
    values: list[float] = []
    for number in range(1, spec.max_rounds + 1):
        reporter.step(
            f"preconditioning {target.name}: round {number} of at most {spec.max_rounds}",
            float(spec.round),
        )
        job = family.overwrite_job(
            target, spec, members, derive_seed(seed, "precondition", target.name, number)
        )
        outcome = finish(
            engine.start(job, Path()),
            stop,
            lambda snapshot: reporter.step_progress(float(snapshot.elapsed_ns), snapshot),
        )
        if outcome.failure is not None:
            raise PrepareError(target.name, outcome.failure)
        seconds = (outcome.window_end_ns - outcome.window_start_ns) / NS_PER_S
        written = outcome.totals["write"].bytes
        values.append(written / MB / seconds)
        verdict = steady_verdict(values, spec.slope_percent, spec.excursion_percent)
        record["rounds"].append({"round": number, "throughput_mb_s": values[-1]})
        record["verdict"] = verdict.as_dict()
        record["complete"] = verdict.steady or number == spec.max_rounds
        store.write_prepare(name, record)
        if verdict.steady:
            return
    reporter.note(f"{target.name}: not steady after {spec.max_rounds} rounds; its runs say so")
