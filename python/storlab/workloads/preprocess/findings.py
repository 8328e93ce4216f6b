"""Findings, section and facts on preprocessing for a brief: bottleneck, outputs, bad lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from storlab.analysis import digits
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.dataset import RunData
from storlab.analysis.points import Section, WorkloadPoint
from storlab.brief.family_additions import FamilyAdditions
from storlab.brief.flags import legend
from storlab.brief.model import DataTable, ExtraSection, FactTable, Number, TableRow
from storlab.brief.tables import Leaf, Scale, known_columns, mean_words, number_of, table_of
from storlab.figures.common import place_of
from storlab.words.outcomes import OUTCOMES, UNDECIDED
from storlab.words.text import (
    MISSING,
    and_list,
    breakable,
    named,
    plural,
    sentence_case,
)
from storlab.workloads.preprocess.audit import RULE, differences
from storlab.workloads.preprocess.details import MalformedLine, PreprocessDetails
from storlab.workloads.preprocess.job import STAGES
from storlab.workloads.preprocess.outputs import SameWork, outputs_of
from storlab.workloads.preprocess.params import PreprocessParams
from storlab.workloads.preprocess.saturation import (
    NOT_SWEPT,
    Saturation,
    Step,
    saturations,
    verdict_words,
)

KIND = "preprocess"
NONE = Number("–", missing=True)
SAMPLES = 8  # malformed lines that the brief prints
TEXT = 80  # printed characters of each
STAGE_COLUMNS = {
    "completion_time_s": ("time", "s"),
    "worker_busy_percent": ("workers on CPU", "%"),
    "device_mb_s": ("the device moved", "MB/s"),
}
COLUMNS = (*STAGE_COLUMNS, "energy_wh")
BOUND = {
    "device": "the device",
    "waiting": "unknown: workers wait",
    "cpu": "the CPU",
    "parts": "too few parts",
    "open": "no limit reached",
    "others": "unknown: other programs used the cores",
    "too near": "unknown: too few numbers of workers",
    "one run": OUTCOMES["one run"],
    "within noise": UNDECIDED,
    "not swept": "unknown",
    "not measured": MISSING,
}
_FIELDS = ("label", *(f"I{n}" for n in range(1, 14)), *(f"C{n}" for n in range(1, 27)))
_Place = tuple[Section, Any]


def _places(comparison: Comparison) -> Iterator[_Place]:
    for section in comparison.kinds.get(KIND, ()):
        for facet in section.facets():
            yield section, facet


def bottlenecks(comparison: Comparison) -> list[str]:
    """Return sentences on whether storage or the CPU is the bottleneck of each workload."""
    places: dict[str, list[str]] = {}  # by verdict
    for place in _places(comparison):
        compared = saturations(comparison, *place)
        if compared:
            verdict = f"{verdict_words(compared)}.{_held_back(comparison, place, compared)}"
            places.setdefault(verdict, []).append(place_of(*place))
    return [
        f"{sentence_case('; '.join(names))}, by workers: {verdict}"
        for verdict, names in places.items()
    ]


def saturation_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return which of storage and CPU is the bottleneck of runs and stages, as plain values."""
    return [
        {"where": place_of(*place), "stage": stage, **saturation.as_dict()}
        for place in _places(comparison)
        for stage in ("all", *STAGES)
        for saturation in saturations(comparison, *place, stage)
    ]


def _held_back(comparison: Comparison, place: _Place, compared: Sequence[Saturation]) -> str:
    """Return a sentence on single stages in which storage is the bottleneck; empty without any.

    Targets whose storage is the bottleneck of the whole run are left out.
    """
    stages: dict[str, list[str]] = {
        saturation.target: [] for saturation in compared if saturation.verdict != "device"
    }
    for stage in STAGES:
        for saturation in saturations(comparison, *place, stage):
            if saturation.verdict == "device" and saturation.target in stages:
                stages[saturation.target].append(
                    f"{stage} at {plural(saturation.workers or 0, 'worker')}"
                )
    parts = [f"{and_list(names)} on {named(target)}" for target, names in stages.items() if names]
    return f" Stage by stage, the device saturates in {'; in '.join(parts)}." if parts else ""


def wrong_outputs(comparison: Comparison) -> list[str]:
    """Return warnings about runs with equal input and options whose outputs differ."""
    return [
        f"Outputs differ. {sentence_case(work.name)}: {work.text}. {differences(work)}. "
        "Training data of one side is wrong: compare no times before it is known whose."
        for work in outputs_of(comparison)
        if work.different
    ]


def bottleneck_section(comparison: Comparison, scale: Scale) -> ExtraSection | None:
    """Build the section on the bottleneck of preprocessing; None if none was run."""
    works = outputs_of(comparison)
    places = list(_places(comparison))
    tables = [table for place in places for table in _tables(comparison, place, scale)]
    malformed = [table for work in works if (table := _malformed(comparison, work)) is not None]
    if not tables and not works:
        return None
    return ExtraSection(
        anchor="bottleneck",
        title="Does storage hold preprocessing back?",
        short="Bottleneck",
        lead=[*wrong_outputs(comparison), *(bottlenecks(comparison) or [NOT_SWEPT])],
        tables=[*tables, *malformed],
        notes=[f"{sentence_case(work.name)}: {work.text}." for work in works],
    )


def _tables(comparison: Comparison, place: _Place, scale: Scale) -> Iterator[DataTable]:
    section, facet = place
    compared = saturations(comparison, section, facet)
    if compared:
        yield _by_workers(comparison, section, facet, compared, scale)
        yield _by_stage(comparison, section, facet, compared, scale)


def _by_workers(
    comparison: Comparison,
    section: Section,
    facet: Any,
    compared: Sequence[Saturation],
    scale: Scale,
) -> DataTable:
    columns = known_columns(comparison, [section], [f"{name}.all" for name in COLUMNS])
    least = min(saturation.steps[0].workers for saturation in compared)
    leaves = []
    for point in section.of_facet(facet):
        for saturation in compared:
            step = _step(saturation, point)
            cell = comparison.row(point).cells[saturation.target]
            numbers = [number_of(cell, column, scale) for column in columns]
            leaves.append(
                Leaf(
                    [f"{_workers(point):,}"],
                    cell,
                    [
                        numbers[0],
                        _speedup(saturation, step, cell, least),
                        *numbers[1:],
                        _word(saturation, step, cell),
                    ],
                )
            )
    heads = [(column.short, scale.of(column)[0]) for column in columns]
    return table_of(
        comparison,
        f"What each number of workers brings, {place_of(section, facet)}: {mean_words(leaves)}",
        ["workers"],
        [heads[0], (f"speed-up over {plural(least, 'worker')}", ""), *heads[1:], ("verdict", "")],
        leaves,
    )


def _step(saturation: Saturation, point: WorkloadPoint) -> Step | None:
    return next((s for s in saturation.steps if s.workers == _workers(point)), None)


def _workers(point: WorkloadPoint) -> int:
    return PreprocessParams.of(point.params).workers


def _speedup(saturation: Saturation, step: Step | None, cell: Cell, least: int) -> Number:
    if step is None or saturation.steps[0].workers != least:
        return NONE
    ratio = saturation.speedup(step)
    spread = "" if step is saturation.steps[0] else digits.ends_text(ratio)
    return Number(digits.times(ratio), spread, cell.point_id)


def _word(saturation: Saturation, step: Step | None, cell: Cell) -> Number:
    if step is None:
        return NONE
    saturates = saturation.verdict == "device" and step.workers == saturation.workers
    return Number(saturation.word(step), "", cell.point_id, strong=saturates)


def _by_stage(
    comparison: Comparison,
    section: Section,
    facet: Any,
    compared: Sequence[Saturation],
    scale: Scale,
) -> DataTable:
    """Build a table of the stages at the largest number of workers, with their bottlenecks."""
    last = max(saturation.steps[-1].workers for saturation in compared)
    point = next(p for p in section.of_facet(facet) if _workers(p) == last)
    names = [name for name in STAGE_COLUMNS if comparison.column(f"{name}.{STAGES[0]}") is not None]
    leaves = []
    for stage in STAGES:
        columns = {name: comparison.column(f"{name}.{stage}") for name in names}
        verdicts = {
            saturation.target: saturation
            for saturation in saturations(comparison, section, facet, stage)
        }
        for saturation in compared:
            cell = comparison.row(point).cells[saturation.target]
            numbers = [
                NONE if column is None else number_of(cell, column, scale)
                for column in columns.values()
            ]
            bound = _bound(verdicts.get(saturation.target), cell)
            leaves.append(Leaf([stage], cell, [*numbers, bound]))
    return table_of(
        comparison,
        f"Bottleneck of each stage, {place_of(section, facet)}: its numbers at "
        f"{plural(last, 'worker')}, and the verdict on all numbers of workers",
        ["stage"],
        [*(STAGE_COLUMNS[name] for name in names), ("bottleneck", "")],
        leaves,
    )


def _bound(saturation: Saturation | None, cell: Cell) -> Number:
    if saturation is None:
        return NONE
    at = (
        f", from {plural(saturation.workers or 0, 'worker')}"
        if saturation.verdict == "device"
        else ""
    )
    return Number(
        BOUND[saturation.verdict] + at, "", cell.point_id, strong=saturation.verdict == "device"
    )


def _malformed(comparison: Comparison, work: SameWork) -> DataTable | None:
    """Build a table of the first malformed lines of an input; None if it has none."""
    every = ((run, PreprocessDetails.of(run.record)) for run in work.runs)
    pair = next(
        ((run, told) for run, told in every if told.malformed and told.malformed.count), None
    )
    if pair is None or (malformed := pair[1].malformed) is None:
        return None
    run, told = pair
    shown = malformed.samples[:SAMPLES]
    if not shown:
        return None
    by_reason = malformed.by_reason.items()
    reasons = ", ".join(f"{name}: {count:,}" for name, count in by_reason if count)
    rows = [
        _sample(comparison, run, sample, first=number == 0) for number, sample in enumerate(shown)
    ]
    return DataTable(
        f"Malformed lines, left out: {malformed.count:,} of {told.lines:,} ({reasons}); the "
        f"first {len(shown):,}",
        ["file", "line", "reason"],
        [("field", ""), ("text", "")],
        rows,
        legend(()),
    )


def _sample(comparison: Comparison, run: RunData, line: MalformedLine, *, first: bool) -> TableRow:
    text = line.text
    cut = f"{text[:TEXT]}…" if len(text) > TEXT else text
    field = "–" if line.field is None else _FIELDS[line.field - 1]
    heads = [(breakable(line.file), 1), (f"{line.line:,}", 1), (line.reason, 1)]
    numbers = [Number(field, fact=True), Number(cut, fact=True)]
    index = comparison.targets.index(run.target)
    links = [(run.record.run_id, run.record.point_id)]
    return TableRow(heads, run.target, index, numbers, first, links)


def output_facts(comparison: Comparison) -> list[FactTable]:
    """Return tables with the digests of outputs, by which others can check their own runs."""
    return [
        FactTable(
            f"Output of {work.name}",
            [
                ("Runs", work.text.partition(":")[0]),
                ("Rows", f"{work.output.rows:,}"),
                ("Rows digest", work.output.rows_digest),
                ("Dictionary digest", work.output.dictionary_digest),
            ],
        )
        for work in outputs_of(comparison)
    ]


class Findings(FamilyAdditions):
    """Warnings, findings, section and facts about preprocessing, for a brief."""

    rules = (RULE,)

    def warnings(self, comparison: Comparison) -> list[str]:
        """Return warnings about runs of the same input whose outputs differ."""
        return wrong_outputs(comparison)

    def findings(self, comparison: Comparison) -> list[str]:
        """Return sentences on whether storage or the CPU is the bottleneck."""
        return bottlenecks(comparison)

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """Build the section on whether storage is the bottleneck."""
        return bottleneck_section(comparison, scale)

    def facts(self, comparison: Comparison) -> list[FactTable]:
        """Return tables with the digests of outputs."""
        return output_facts(comparison)

    def data(self, comparison: Comparison) -> dict[str, Any]:
        """Return for runs and stages whether storage is the bottleneck."""
        return {"saturation": saturation_data(comparison)}
