"""Preconditioning of a target: fill it, then overwrite it randomly until throughput is steady."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from storlab.base.clock import monotonic_ns
from storlab.base.seeds import derive_seed
from storlab.base.steady import steady_verdict
from storlab.base.units import MB, NS_PER_S, format_bytes_si
from storlab.contracts.engine import Engine, RunHandle
from storlab.contracts.registry import get_engine
from storlab.contracts.reporter import Reporter
from storlab.contracts.services import fills_members
from storlab.lab.prepare.dataset import GRAIN, PrepareError, fill
from storlab.model.job import Job, Member
from storlab.model.study import Precondition, Target
from storlab.process.execution import StopRequest, finish

if TYPE_CHECKING:  # imports Arrow, which clients do not need because they keep no results
    from storlab.results.store import ResultStore


def target_slug(name: str) -> str:
    """Return a readable and unique file name for a target's name."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{readable or 'target'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


class PreconditionData(Protocol):
    """Interface to a target's data during preconditioning, on this machine or on all clients."""

    def fill(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Write all data; return the files or devices, and bytes and ``duration_ns``."""
        ...

    def overwrite(self, number: int) -> float:
        """Run one round of random overwrite and return its throughput in MB/s."""
        ...


def precondition(
    target: Target, ground: PreconditionData, store: ResultStore, reporter: Reporter
) -> dict[str, Any]:
    """Bring a target to steady state, and store a record as ``prepare/<slug>.json``.

    If an earlier session has stored a complete record, nothing is done. Code that writes the data
    again must remove the record first.

    Returns:
        Record with ``complete``, ``fill``, each round's throughput in MB/s, and ``verdict``, which
        is missing if the study asks for no rounds.

    Raises:
        PrepareError: Filling or overwriting failed.
        Interrupted: A stop was requested.
    """
    spec = _spec(target)
    name = target_slug(target.name)
    earlier = store.prepare(name)
    if earlier is not None and earlier["complete"]:
        return earlier
    members, filled = ground.fill()
    record: dict[str, Any] = {
        "schema_version": 1,
        "target": target.name,
        "members": members,
        "settings": spec.dump(),
        "complete": spec.max_rounds == 0,
        "rounds": [],
        "fill": filled,
    }
    if not spec.max_rounds:
        store.write_prepare(name, record)
        return record
    values: list[float] = []
    for number in range(1, spec.max_rounds + 1):
        reporter.step(
            f"preconditioning {target.name}: round {number} of at most {spec.max_rounds}",
            float(spec.round),
        )
        values.append(ground.overwrite(number))
        verdict = steady_verdict(values, spec.slope_percent, spec.excursion_percent)
        record["rounds"].append({"round": number, "throughput_mb_s": values[-1]})
        record["verdict"] = asdict(verdict)
        record["complete"] = verdict.steady or number == spec.max_rounds
        store.write_prepare(name, record)
        if verdict.steady:
            return record
    reporter.note(
        f"{target.name}: not steady after {spec.max_rounds} rounds; its runs will be flagged"
    )
    return record


def is_ready(record: dict[str, Any]) -> bool:
    """Return whether a target was preconditioned as asked: to steady state, or filled only."""
    return "verdict" not in record or bool(record["verdict"]["verdict"] == "steady")


def _spec(target: Target) -> Precondition:
    if target.precondition is None:
        raise ValueError(f"target {target.name} has no precondition table in the study")
    return target.precondition


Start = Callable[[Engine, Job, Path], RunHandle]


@dataclass(frozen=True, slots=True)
class Members:
    """Files and devices of this machine to precondition; implements ``PreconditionData``."""

    target: Target
    members: Sequence[Member]
    seed: int
    start: Start  # starts the load of a round
    stop: StopRequest
    reporter: Reporter

    def fill(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Write all files and devices as often as asked, except for an incomplete last block."""
        target, spec = self.target, _spec(self.target)
        whole = [m.model_copy(update={"size": m.size // GRAIN * GRAIN}) for m in self.members]
        size = sum(m.size for m in whole)
        started_ns = monotonic_ns()
        written = 0
        for number in range(1, spec.fills + 1):
            which = "fill" if spec.fills == 1 else f"fill {number} of {spec.fills}"
            text = f"preconditioning {target.name}: {which} ({format_bytes_si(size)})"
            self.reporter.step(text, float(size))
            written += fill(
                whole,
                direct=target.direct,
                seed=self.seed if number == 1 else derive_seed(self.seed, "fill", number),
                stop=self.stop,
                reporter=self.reporter,
                block=spec.fill_block_size,
            )
        told = [{"name": m.name, "size": m.size, "offset": m.offset} for m in self.members]
        return told, {"bytes": written, "duration_ns": monotonic_ns() - started_ns}

    def overwrite(self, number: int) -> float:
        """Run one round of random overwrite with the native engine; return MB/s."""
        target, spec = self.target, _spec(self.target)
        seed = derive_seed(self.seed, "precondition", target.name, number)
        job = fills_members().overwrite_job(target, spec, self.members, seed)
        outcome = finish(
            self.start(get_engine("native"), job, Path()),
            self.stop,
            lambda snapshot: self.reporter.step_progress(float(snapshot.elapsed_ns), snapshot),
        )
        if outcome.failure is not None:
            raise PrepareError(target.name, outcome.failure)
        seconds = (outcome.window_end_ns - outcome.window_start_ns) / NS_PER_S
        return outcome.totals["write"].bytes / MB / seconds
