"""Run of a preprocess job by a data frame library: child process, checks and outcome."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from storlab.model.result import EngineInfo, Failure, RunOutcome, Span
from storlab.process.child import Launch
from storlab.process.events import Events
from storlab.process.storlab_child import OwnChildRun
from storlab.workloads.preprocess.job import STAGES, PreprocessJob

_TOTALS = ("rows", "lines", "input_bytes", "malformed", "device_counters")


class DataframeRun(OwnChildRun):
    """Preprocessing run in a child process. Every method may be called from any thread."""

    fix = "read raw/stderr.txt; signal 9 usually means that memory ran out"

    def __init__(
        self, job: PreprocessJob, launch: Launch, info: EngineInfo, notes: list[str]
    ) -> None:
        self._job = job
        super().__init__(launch, info, notes)

    def finish(self) -> RunOutcome:
        """Return the outcome of a child process that has ended; check its output files."""
        document = self.result()
        stages = [stage for stage in document.get("stages", []) if "end_ns" in stage]
        window = (self.ended_ns, self.ended_ns)
        if stages:
            window = (stages[0]["start_ns"], stages[-1]["end_ns"])
        events = [
            Events.of_rows(name, np.array(document["events"][name], dtype=np.int64).reshape(-1, 3))
            for name in STAGES
            if _is_accounted(document, name)
        ]
        outcome = self.measured(events, window, self._job.interval_ns, self._job.workers)
        outcome.notes = list(self._notes)
        if stages:
            outcome.details = self._details(document, stages)
            outcome.spans = [_span(stage) for stage in stages]
        outcome.conclude(self.failure_in(document, outcome))
        if outcome.status == "finished":
            outcome.conclude(self._check(document, outcome))
        outcome.raw = self.raw()
        return outcome

    def _details(self, document: dict[str, Any], stages: list[dict[str, Any]]) -> dict[str, Any]:
        by_name = {stage["name"]: stage for stage in stages}
        return {
            "stages": stages,
            **{name: document[name] for name in _TOTALS},
            "parquet_bytes": document.get("parquet_bytes"),
            "output_bytes": by_name.get("encode", {}).get("output_bytes"),
            "resumed_parts": sum(stage["resumed_parts"] for stage in stages),
            "memory_limit_bytes": self._job.memory_bytes,
            "peak_memory_bytes": max(stage["peak_memory_bytes"] for stage in stages),
        }

    def _check(self, document: dict[str, Any], outcome: RunOutcome) -> Failure | None:
        """Read the whole output, record its digests, and compare its counts with the result's.

        Returns the failure if the output is unreadable or the counts differ, else None.
        """
        from storlab import _native

        fix = "keep the output and report this: it is a defect of storlab or of the storage"
        try:
            digests = json.loads(_native.check_split_binary(self._job.directory))
        except (OSError, ValueError, RuntimeError, AttributeError) as error:
            message = f"{self._job.directory}: the output could not be checked: {error}"
            return Failure(message=message, fix=fix)
        outcome.details["output"] = digests
        for name in ("rows", "cardinalities"):
            if digests[name] != document[name]:
                found = f"the output has {name} {digests[name]}, but {document[name]} were counted"
                return Failure(message=f"{self._job.directory}: {found}", fix=fix)
        return None


def _is_accounted(document: dict[str, Any], name: str) -> bool:
    """Return whether the stage ``name`` has events and the bytes of all of them are final."""
    events = document.get("events", {}).get(name, [])
    return bool(events) and all(len(event) == 3 for event in events)


def _span(stage: dict[str, Any]) -> Span:
    return Span(
        kind=stage["name"],
        name=stage["name"],
        start_ns=stage["start_ns"],
        end_ns=stage["end_ns"],
        bytes=stage.get("input_bytes", 0),
    )
