"""Audit rule: runs with equal input and options must have equal output."""

from __future__ import annotations

from collections.abc import Iterator

from storlab.analysis.compare import Comparison
from storlab.audit.finding import Finding
from storlab.workloads.preprocess.outputs import SameWork, outputs_of

RULE = "outputs_differ"
SHOWN = 4  # runs that one finding lists


def outputs_differ(comparison: Comparison) -> Iterator[Finding]:
    """Yield an error for each group of runs with equal input and options but different outputs."""
    for work in outputs_of(comparison):
        if work.different:
            yield Finding(
                rule=RULE,
                severity="error",
                rows=[output.run.record.run_id for output in work.different],
                printed=f"{work.name}: {work.text}",
                recomputed=differences(work),
                why="The same raw lines under the same semantics have one output. Training data of "
                "one side is wrong, and the times are not of the same work.",
            )


def differences(work: SameWork) -> str:
    """List the runs whose output differs, with engine, target, and how it differs."""
    values = [
        f"{output.run.record.run_id} ({output.run.record.engine.name} on {output.run.target}): "
        f"{', '.join(output.what)}"
        for output in work.different
    ]
    more = f"; and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return "; ".join(values[:SHOWN]) + more
