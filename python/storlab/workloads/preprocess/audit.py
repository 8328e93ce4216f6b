"""Audit rule for runs of the same preprocessing whose outputs differ."""

from __future__ import annotations

from collections.abc import Iterator

from storlab.analysis.compare import Comparison
from storlab.audit.finding import Finding
from storlab.workloads.preprocess.outputs import SameWork, outputs_of

RULE = "outputs_differ"
SHOWN = 4  # runs that one finding lists


def outputs_differ(comparison: Comparison) -> Iterator[Finding]:
    """Yield an error for each input and semantics whose runs have different outputs."""
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
    """Return which runs differ, with engine and target, and in what."""
    values = [
        f"{output.run.record.run_id} ({output.run.record.engine.name} on {output.run.target}): "
        f"{', '.join(output.what)}"
        for output in work.different
    ]
    more = f"; and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return "; ".join(values[:SHOWN]) + more
