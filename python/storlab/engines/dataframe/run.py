"""One preprocessing run by a data frame library, from its process to an outcome."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from storlab.model.result import EngineInfo, Failure, RunOutcome, Span
from storlab.process.child import ChildRun, Launch
from storlab.process.events import Events
from storlab.workloads.preprocess.job import STAGES, PreprocessJob

_SAID = ("rows", "lines", "input_bytes", "malformed", "device_counters")
_FIX = "see raw/stderr.txt; processes that end by signal 9 lack memory"


class DataframeRun(ChildRun):
    """A run in progress. Every method may be called from any thread."""

    def __init__(
        self, job: PreprocessJob, launch: Launch, info: EngineInfo, notes: list[str]
    ) -> None:
        self._job = job
        self._notes = notes
        super().__init__(launch, info)

    def finish(self) -> RunOutcome:
        """The outcome of a child that has ended; of one that succeeded, its output is checked."""
        said = self._result()
        stages = [stage for stage in said.get("stages", []) if "end_ns" in stage]
        window = (self.ended_ns, self.ended_ns)
        if stages:
            window = (stages[0]["start_ns"], stages[-1]["end_ns"])
        events = [
            Events.of_rows(name, np.array(said["events"][name], dtype=np.int64).reshape(-1, 3))
            for name in STAGES
            if _is_accounted(said, name)
        ]
        outcome = self.measured(events, window, self._job.interval_ns, self._job.workers)
        outcome.notes = list(self._notes)
        if stages:
            outcome.details = self._details(said, stages)
            outcome.spans = [_span(stage) for stage in stages]
        outcome.failure = self._why(said, outcome)
        if outcome.failure is None and outcome.status == "finished":
            outcome.failure = self._check(said, outcome)
        if outcome.failure is not None:
            outcome.status = "failed"
        outcome.raw = {
            **self.raw(),
            "order.json": (self.launch.work_dir / "order.json").read_bytes(),
        }
        return outcome

    def _result(self) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads((self.launch.work_dir / "result.json").read_bytes())
        except OSError:
            return {}  # it ended before the first stage did
        return said

    def _details(self, said: dict[str, Any], stages: list[dict[str, Any]]) -> dict[str, Any]:
        by_name = {stage["name"]: stage for stage in stages}
        return {
            "stages": stages,
            **{name: said[name] for name in _SAID},
            "parquet_bytes": said.get("parquet_bytes"),
            "output_bytes": by_name.get("encode", {}).get("output_bytes"),
            "resumed_parts": sum(stage["resumed_parts"] for stage in stages),
            "memory_limit_bytes": self._job.memory_bytes,
            "peak_memory_bytes": max(stage["peak_memory_bytes"] for stage in stages),
        }

    def _why(self, said: dict[str, Any], outcome: RunOutcome) -> Failure | None:
        failure = said.get("failure")
        if failure is not None and not self.cancelled and not self.hung:
            return Failure.model_validate({"fix": _FIX, **failure})
        ended = self.failure(_FIX)
        if ended is None and outcome.status == "finished" and not outcome.spans:
            return Failure(message=f"{self.launch.name} ended without a result", fix=_FIX)
        return ended

    def _check(self, said: dict[str, Any], outcome: RunOutcome) -> Failure | None:
        """Read the whole output, note its digests, and compare it with what was counted."""
        from storlab import _native

        fix = "this is a fault of storlab or of the storage: keep the output, and report it"
        try:
            found = json.loads(_native.check_split_binary(self._job.directory))
        except (OSError, ValueError, RuntimeError, AttributeError) as error:
            return Failure(message=f"the output cannot be checked: {error}", fix=fix)
        outcome.details["output"] = found
        for name in ("rows", "cardinalities"):
            if found[name] != said[name]:
                message = f"the output has other {name} than were counted"
                return Failure(message=f"{message}: {found[name]}, not {said[name]}", fix=fix)
        return None


def _is_accounted(said: dict[str, Any], name: str) -> bool:
    """Whether the bytes of all events are known: they are where the child came to its end."""
    events = said.get("events", {}).get(name, [])
    return bool(events) and all(len(event) == 3 for event in events)


def _span(stage: dict[str, Any]) -> Span:
    return Span(
        kind=stage["name"],
        name=stage["name"],
        start_ns=stage["start_ns"],
        end_ns=stage["end_ns"],
        bytes=stage.get("input_bytes", 0),
    )
