"""Content of a brief independent of its format: HTML and PDF are made from the same model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storlab.audit.finding import Finding
from storlab.brief.claims import Claim, cards
from storlab.brief.flags import Mark
from storlab.figures.figure import Figure
from storlab.lab.study.logo import Logo
from storlab.model.decision import Verdict
from storlab.words.answers import AnswerText

CARDS = 4  # claims with a large number; further ones are listed


@dataclass(frozen=True, slots=True)
class Number:
    """Number in a table, with its marks and the point whose runs it is based on."""

    text: str
    spread: str = ""
    point_id: str | None = None
    marks: tuple[Mark, ...] = ()
    missing: bool = False
    strong: bool = False
    fact: bool = False  # declared or printed: no run of this campaign supports it


@dataclass(frozen=True, slots=True)
class TargetCard:
    """Card of a target on the cover; ``index`` decides its colour everywhere."""

    label: str
    index: int
    baseline: bool
    facts: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Figure with its SVG, in which colours are given as roles."""

    figure: Figure
    svg: str


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """Figures of one kind in one section of a brief."""

    kind: str
    heading: str
    lead: str
    drawings: list[Drawing]
    folded: bool = False  # collapsed until opened by the reader


@dataclass(frozen=True, slots=True)
class HeatCell:
    """Factor by which one side is better; ``index`` is that side's, None if undecided."""

    text: str
    spread: str
    index: int | None
    sign: str  # sign that stands for the better side
    step: int  # strength of its colour, from 0
    point_id: str | None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One mix, for one target against the baseline."""

    title: str
    target: str
    index: int
    cells: list[HeatCell | None]  # None: not compared at this place


@dataclass(frozen=True, slots=True)
class HeatTable:
    """Heat table of a workload family: mixes by quantities and small multiples."""

    caption: str
    head: str
    groups: list[tuple[str, int]]  # quantities with their numbers of columns
    columns: list[str]  # texts of the small multiples; empty if there are none
    rows: list[HeatRow]
    shared: list[tuple[Mark, ...]]  # marks shared by all cells of a quantity
    signs: list[tuple[str, int, str]]  # targets with their indices and signs
    several: bool  # whether there are several targets other than the baseline
    baseline: str
    chance: str  # note on the number of comparisons, which their intervals do not account for


@dataclass(frozen=True, slots=True)
class TableRow:
    """Row of a table; ``heads`` are its headings with the number of rows each spans, 0 if none."""

    heads: list[tuple[str, int]]
    target: str
    index: int
    numbers: list[Number]
    first: bool  # whether the row begins a group of rows
    links: list[tuple[str, str]]  # texts, each with the point whose runs it links to
    chip: str = ""  # provenance of the whole row, unless measured
    note: str = ""  # source of the row, if it is not based on runs


@dataclass(frozen=True, slots=True)
class DataTable:
    """Table of numbers in a brief."""

    caption: str
    head: list[str]  # headings of the columns of row headings
    columns: list[tuple[str, str]]  # name and unit of each column
    rows: list[TableRow]
    marks: list[Mark] = field(default_factory=list)

    @property
    def has_runs(self) -> bool:
        """Whether any row links to runs or names its source."""
        return any(row.links or row.note for row in self.rows)


@dataclass(frozen=True, slots=True)
class SectionBlock:
    """Section of one workload mix, or of all mixes of a workload family."""

    anchor: str
    title: str
    use_cases: list[tuple[str, str]]  # name, and its block size or other parameter
    groups: list[FigureGroup]
    tables: list[DataTable]
    short: str  # title in the navigation
    numbers: str  # heading of the tables
    folded: bool = False  # whether its figures are collapsed at first


@dataclass(frozen=True, slots=True)
class ExtraSection:
    """Section that appears once per campaign, such as power, density or published results."""

    anchor: str
    title: str
    short: str  # title in the navigation
    lead: list[str]
    groups: list[FigureGroup] = field(default_factory=list)
    tables: list[DataTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MappingRow:
    """Row of the table that maps use cases to parameters."""

    use_cases: str
    values: list[str]
    anchor: str


@dataclass(frozen=True, slots=True)
class Mapping:
    """Table of the use cases that the measured points of a workload family represent."""

    head: list[str]
    rows: list[MappingRow]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in the appendix of a brief."""

    run_id: str
    repeat: int
    status: str
    started: str
    values: list[str]
    flags: list[Mark]
    failure: str
    href: str  # link to its directory, relative to the brief
    errors: str = ""  # failed operations by operation and kind


@dataclass(frozen=True, slots=True)
class PointRuns:
    """Runs of one point, to which numbers link."""

    point_id: str
    target: str
    index: int
    where: str
    planned: int
    runs: list[RunRow]


@dataclass(frozen=True, slots=True)
class RunTable:
    """All runs of a workload family, for the appendix of a brief."""

    caption: str
    columns: list[tuple[str, str]]  # name and unit of each column
    points: list[PointRuns]


@dataclass(frozen=True, slots=True)
class FactTable:
    """Names and values under a heading, such as configuration or environment."""

    heading: str
    rows: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publisher's additions; templates show only the fields that are not empty."""

    byline: str = ""
    name: str = ""  # name that goes with the logo
    logo: Logo | None = None
    introduction: list[str] = field(default_factory=list)  # paragraphs of the introduction
    conclusion: list[str] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)
    legal: list[str] = field(default_factory=list)
    # name of a component, and one text per target
    components: list[tuple[str, list[str]]] = field(default_factory=list)
    left_out: str = ""  # sentence on what was left out


@dataclass(frozen=True, slots=True)
class Contrast:
    """Quantity in which the winner is ahead of or behind another target."""

    what: str  # quantity, such as "p99 read latency"
    other: str  # other target; empty if there is only one
    amount: str  # multiple with its sign, such as 1.47 times
    where: str  # such as "at 3 of 16 points, such as 70/30 read/write, 4 MiB, 8 jobs"
    point_id: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to one question, shown on the first screen above the findings."""

    verdict: Verdict
    text: AnswerText
    index: int  # index of the winner, which decides its colour; 0 without a winner
    see: tuple[str, str] | None  # text and anchor of the section with its figure or table
    better: list[Contrast]
    worse: list[Contrast]
    marks: list[Mark]
    # Textual answers that replace the winner: target, text, colour index.
    texts: list[tuple[str, str, int | None]]
    as_under: tuple[str, int] | None = None  # earlier answer with the same better and worse

    @property
    def points(self) -> list[tuple[str, str]]:
        """Targets of the headline, each with the point whose runs it links to."""
        at = self.verdict.headline
        return [] if at is None else list(zip(at.sides, at.points, strict=False))

    @property
    def is_large(self) -> bool:
        """Whether its number is printed large above the findings."""
        return bool(self.verdict.winner) and not self.texts


@dataclass(frozen=True, slots=True)
class Head:
    """Title of a brief, and what was measured, when and by which version of storlab."""

    title: str
    subtitle: str
    date: str
    study: str
    baseline: str
    plan_hash: str
    version: str
    generated: str
    provenance: str
    status: str  # empty if every planned run finished


@dataclass(frozen=True, slots=True)
class Summary:
    """Answers to the questions of the study, shown first."""

    warnings: list[str]  # shown before all answers: why the numbers must not be compared
    verdicts: list[Verdict]  # for all questions, even if there is only one target
    answers: list[Answer]  # in the order of the questions; empty if there is only one target
    not_compared: str  # questions that cannot be answered, with reasons; may be empty
    differing: list[str]  # differences between campaigns, if there are several


@dataclass(frozen=True, slots=True)
class Findings:
    """Statements about single comparisons, and the caveats of all of them."""

    of_targets: list[str]  # number of points at which each target is ahead, and by how much
    of_families: list[str]  # findings that only the workload families of the study provide
    claims: list[Claim]
    undecided: list[str]
    rule: str  # rule by which the claims were chosen
    heat: list[HeatTable]
    caveats: list[str]


@dataclass(frozen=True, slots=True)
class Body:
    """Figures and tables of numbers."""

    mappings: list[Mapping]
    sections: list[SectionBlock]
    overview: list[FigureGroup]
    ratios: list[DataTable]
    extras: list[ExtraSection]


@dataclass(frozen=True, slots=True)
class Reference:
    """How it was measured, on what, and what the marks mean."""

    configuration: list[FactTable]
    environment: list[FactTable]
    method: list[tuple[str, str]]
    legend: list[Mark]


@dataclass(frozen=True, slots=True)
class Runs:
    """Appendix of all runs."""

    tables: list[RunTable]

    @property
    def points(self) -> list[PointRuns]:
        """All points with their runs, over all workload families."""
        return [point for table in self.tables for point in table.points]

    @property
    def failed(self) -> list[tuple[str, RunRow]]:
        """Runs that did not finish, each with its target."""
        rows = ((point.target, run) for point in self.points for run in point.runs)
        return [(target, run) for target, run in rows if run.status != "finished"]


@dataclass(frozen=True, slots=True)
class Audit:
    """Result of the audit of the brief's own numbers."""

    findings: list[Finding]
    stated_rules: frozenset[str]  # rules whose findings the warnings already state

    @property
    def unstated(self) -> list[Finding]:
        """Findings that the warnings of the brief do not state."""
        return [finding for finding in self.findings if finding.rule not in self.stated_rules]


@dataclass(frozen=True, slots=True)
class Brief:
    """Complete content of a brief."""

    head: Head
    targets: list[TargetCard]
    summary: Summary
    findings: Findings
    body: Body
    reference: Reference
    runs: Runs
    audit: Audit
    data: dict[str, Any]
    files: dict[str, bytes]  # content of files to write next to the page, by name
    publisher: Publisher

    @property
    def cards(self) -> list[Claim]:
        """Claims with a large number, except those covered by an answer with a large number."""
        answers = self.summary.answers
        large = [{point for _, point in answer.points} for answer in answers if answer.is_large]
        return cards(self.findings.claims, self.summary.verdicts, large)[:CARDS]

    def audit_points(self, finding: Finding) -> list[str]:
        """Return the points in the appendix whose runs a finding of the audit refers to."""
        known = {point.point_id for point in self.runs.points}
        named = (row.split(":")[0].rpartition("-r")[0] or row.split(":")[0] for row in finding.rows)
        return [point for point in dict.fromkeys(named) if point in known]

    @property
    def drawings(self) -> list[Drawing]:
        """All figures of the brief, in page order."""
        groups = [*self.body.overview, *(g for s in self.body.sections for g in s.groups)]
        groups += [group for extra in self.body.extras for group in extra.groups]
        return [drawing for group in groups for drawing in group.drawings]
