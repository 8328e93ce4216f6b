"""Metrics, concurrency and flags of one run; docs/method/example.md defines them."""

from __future__ import annotations

from collections.abc import Iterator

from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.workloads.common import metrics as common
from storlab.workloads.common.proof import PAGE_CACHE, Evidence, flags_by, layer_evidence
from storlab.workloads.example.job import PHASES
from storlab.workloads.example.params import ExampleParams


def run_concurrency(params: ExampleParams, outcome: RunOutcome) -> Concurrency:
    """Return the number of workers, as configured and at work on average by Little's law."""
    implied = common.implied_outstanding(outcome, PHASES)
    return Concurrency(configured=float(params.workers), implied=implied)


def run_metrics(params: ExampleParams, outcome: RunOutcome) -> list[Metric]:
    """Compute all metrics of a run; empty if no phase was completed."""
    return [
        *common.busy_rate_metrics(outcome, common.span_ns(outcome), "files_s"),
        *common.time_metrics(outcome, PHASES),
        *common.cpu_per_gb(outcome.cpu, common.bytes_moved(outcome, PHASES)),
        *common.concurrency_metric(run_concurrency(params, outcome).implied),
    ]


def run_flags(params: ExampleParams, outcome: RunOutcome) -> list[Flag]:
    """Return the flags of a run: warnings that a brief shows beside its numbers."""
    flags = [common.client_flag(outcome), common.note_flag(outcome)]
    return [
        *(flag for flag in flags if flag is not None),
        *flags_by(medium_evidence(outcome)),
        *common.machine_flags(outcome, params.workers),
    ]


def medium_evidence(outcome: RunOutcome) -> Iterator[Evidence]:
    """Yield evidence that memory, not the medium, may have served the I/O."""
    text = "files were read soon after they had been written: memory may have served the reads"
    yield Evidence(PAGE_CACHE, "unproven", text)
    yield from layer_evidence(outcome, counted=False)
