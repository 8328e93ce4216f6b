"""Compare by digests the outputs of runs with equal input and options.

Preprocessing is deterministic: equal raw lines must give equal rows in equal order and equal
vocabularies, with any engine, number of workers and target. If outputs of two runs differ, one of
them is wrong, and their times must not be compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.dataset import RunData
from storlab.analysis.points import describe, page_of
from storlab.workloads.preprocess.details import OutputDigests, PreprocessDetails
from storlab.workloads.preprocess.params import PreprocessParams

SAME = ("rows", "files", "data_seed", "input", "threshold", "modulo", "numerical", "malformed")
"""Parameters that determine the output; all others affect only how it is made."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Run whose output differs from that of most runs."""

    run: RunData
    what: tuple[str, ...]  # such as "rows digest 0123… instead of 4567…"


@dataclass(frozen=True, slots=True)
class SameWork:
    """Runs that must have equal outputs, with the output that most of them have."""

    name: str  # workloads, with the parameters that differ within the comparison
    params: Mapping[str, Any]  # parameters in ``SAME``
    runs: tuple[RunData, ...]
    output: OutputDigests
    different: tuple[Difference, ...]

    @property
    def text(self) -> str:
        """Summary: ``all 30 runs gave the same output: 400,000,000 rows, rows digest …``."""
        digests = (
            f"{self.output.rows:,} rows, rows digest {self.output.rows_digest}, "
            f"dictionary {self.output.dictionary_digest}"
        )
        count = len(self.runs)
        if count == 1:
            return f"one run, which nothing is compared with: {digests}"
        if not self.different:
            return f"all {count:,} runs gave the same output: {digests}"
        return (
            f"{len(self.different):,} of {count:,} runs gave another output than the others, which "
            f"gave {digests}"
        )


def same_work(runs: Iterable[RunData]) -> list[SameWork]:
    """Group finished runs by the parameters that determine their output.

    Runs without digests are left out.
    """
    groups: dict[str, list[tuple[RunData, OutputDigests]]] = {}
    for run in runs:
        output = PreprocessDetails.of(run.record).output if run.finished else None
        if output is not None:
            groups.setdefault(_key(run), []).append((run, output))
    every = [_params(group[0][0]) for group in groups.values()]
    swept = [name for name in SAME if any(params[name] != every[0][name] for params in every)]
    return [_compared(group, swept) for group in groups.values()]


def _params(run: RunData) -> dict[str, Any]:
    return PreprocessParams.of(run.record.params).model_dump(include=set(SAME))


def _key(run: RunData) -> str:
    """Return a key that is equal for runs whose outputs must be equal.

    For users' own files it includes the workload, as each workload may have other files.
    """
    is_generated = PreprocessParams.of(run.record.params).input is None
    producer = None if is_generated else run.record.workload
    return json.dumps([producer, _params(run)], sort_keys=True, default=str)


def _compared(group: Sequence[tuple[RunData, OutputDigests]], swept: Sequence[str]) -> SameWork:
    usual = Counter(output.identity for _, output in group).most_common(1)[0][0]
    most = next(output for _, output in group if output.identity == usual)
    runs = [run for run, _ in group]
    differing = (
        Difference(run, tuple(_differences(output, most)))
        for run, output in group
        if output.identity != usual
    )
    workloads = " and ".join(dict.fromkeys(run.record.workload for run in runs))
    params = _params(runs[0])
    told = describe(page_of(runs[0].record.kind), params, swept)
    return SameWork(
        name=", ".join(text for text in (workloads, told) if text),
        params=params,
        runs=tuple(runs),
        output=most,
        different=tuple(differing),
    )


def _differences(output: OutputDigests, most: OutputDigests) -> Iterator[str]:
    if output.rows != most.rows:
        yield f"{output.rows:,} rows instead of {most.rows:,}"
    for words, digest, usual in (
        ("rows digest", output.rows_digest, most.rows_digest),
        ("dictionary", output.dictionary_digest, most.dictionary_digest),
    ):
        if digest != usual:
            yield f"{words} {digest} instead of {usual}"
    columns = {*output.columns, *most.columns}
    changed = [c for c in columns if output.columns.get(c) != most.columns.get(c)]
    if changed:
        order = output.rows_digest == most.rows_digest
        yield f"{len(changed)} of {len(columns)} columns{' in another order' if order else ''}"


def outputs_of(comparison: Comparison) -> list[SameWork]:
    """Group the runs of a comparison that must have equal outputs."""
    return same_work(comparison.dataset.all_runs())
