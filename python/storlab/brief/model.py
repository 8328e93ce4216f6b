"""What a brief says, independent of how it is set: HTML and PDF are made from the same model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storlab.analysis.answer import Verdict
from storlab.audit.finding import Finding
from storlab.brief.claims import Claim, cards
from storlab.brief.flags import Mark
from storlab.figures.figure import Figure
from storlab.lab.study.logo import Logo

CARDS = 4  # claims with a large number; the others are listed


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a table: linked to the runs it rests on, with marks beside it."""

    text: str
    spread: str = ""
    point_id: str | None = None
    marks: tuple[Mark, ...] = ()
    missing: bool = False
    strong: bool = False
    fact: bool = False  # declared or printed: no run of this campaign is behind it


@dataclass(frozen=True, slots=True)
class TargetCard:
    """One target on the cover. ``index`` decides its colour everywhere."""

    label: str
    index: int
    baseline: bool
    facts: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with its SVG, colours as roles."""

    figure: Figure
    svg: str


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """The figures of one kind in one section."""

    kind: str
    heading: str
    lead: str
    drawings: list[Drawing]
    folded: bool = False  # until it is asked for


@dataclass(frozen=True, slots=True)
class HeatCell:
    """How many times better one side is. ``index`` is that side's; None: not decided."""

    text: str
    spread: str
    index: int | None
    sign: str  # of the better side
    step: int  # how strong its colour is, from 0
    point_id: str | None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One mix, of one target against the baseline."""

    title: str
    target: str
    index: int
    cells: list[HeatCell | None]  # None: not compared


@dataclass(frozen=True, slots=True)
class HeatTable:
    """A family's mixes by its quantities and small multiples."""

    caption: str
    head: str
    groups: list[tuple[str, int]]  # quantities, with the number of columns that each has
    columns: list[str]  # small multiples; empty texts where there are none
    rows: list[HeatRow]
    shared: list[tuple[Mark, ...]]  # by quantity, what all of its cells are marked with
    signs: list[tuple[str, int, str]]  # targets with their numbers and signs
    several: bool  # targets beside the baseline
    baseline: str
    chance: str  # how many comparisons these are, and that none of them counts the others


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row; ``heads`` are the row's headings with how many rows they span (0: none here)."""

    heads: list[tuple[str, int]]
    target: str
    index: int
    numbers: list[Number]
    first: bool  # begins a group of rows
    links: list[tuple[str, str]]  # words and the point whose runs they lead to
    chip: str = ""  # provenance of the whole row, where it is not measured
    note: str = ""  # where it is from, where no runs are behind it


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table of numbers."""

    caption: str
    head: list[str]  # headings of the row heads
    columns: list[tuple[str, str]]  # name, unit
    rows: list[TableRow]
    marks: list[Mark] = field(default_factory=list)

    @property
    def has_runs(self) -> bool:
        """True where a row leads to runs, or says where it is from."""
        return any(row.links or row.note for row in self.rows)


@dataclass(frozen=True, slots=True)
class SectionBlock:
    """One workload mix, or all mixes of a family together."""

    anchor: str
    title: str
    use_cases: list[tuple[str, str]]  # name, block size or the like
    groups: list[FigureGroup]
    tables: list[DataTable]
    short: str  # in the navigation
    numbers: str  # heading of the tables
    folded: bool = False  # its figures, until they are asked for


@dataclass(frozen=True, slots=True)
class ExtraSection:
    """A section that stands once for the whole campaign: power, density, published results."""

    anchor: str
    title: str
    short: str  # in the navigation
    lead: list[str]
    groups: list[FigureGroup] = field(default_factory=list)
    tables: list[DataTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MappingRow:
    """One row of the workload mapping table."""

    use_cases: str
    values: list[str]
    anchor: str


@dataclass(frozen=True, slots=True)
class Mapping:
    """What each measured point of a family stands for."""

    head: list[str]
    rows: list[MappingRow]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in the appendix."""

    run_id: str
    repeat: int
    status: str
    started: str
    values: list[str]
    flags: list[Mark]
    failure: str
    href: str  # of its directory, relative to the brief
    errors: str = ""  # what failed in it, by operation and kind


@dataclass(frozen=True, slots=True)
class PointRuns:
    """The runs of one point, which numbers link to."""

    point_id: str
    target: str
    index: int
    where: str
    planned: int
    runs: list[RunRow]


@dataclass(frozen=True, slots=True)
class RunTable:
    """All runs of a family."""

    caption: str
    columns: list[tuple[str, str]]  # name, unit
    points: list[PointRuns]


@dataclass(frozen=True, slots=True)
class FactTable:
    """Names and values under a heading: configuration, environment."""

    heading: str
    rows: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Publisher:
    """Set in the templates where it has something to say."""

    byline: str = ""
    name: str = ""  # of whom the logo is
    logo: Logo | None = None
    introduction: list[str] = field(default_factory=list)  # paragraphs
    conclusion: list[str] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)
    legal: list[str] = field(default_factory=list)
    components: list[tuple[str, list[str]]] = field(default_factory=list)  # name, by target
    left_out: str = ""  # a sentence


@dataclass(frozen=True, slots=True)
class Contrast:
    """One quantity in which the winner is ahead of another target, or behind it."""

    what: str  # "p99 read latency"
    other: str  # empty where there is only one
    amount: str  # 1.47 times, with the sign
    where: str  # "at 3 of 16 points, such as 70/30 read/write, 4 MiB, 8 jobs"
    point_id: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question, as it stands on the first screen and over the findings."""

    title: str
    winner: str  # empty where there is none
    index: int  # its colour
    amount: str  # 1.47 times, with the sign
    against: str  # "over Disk", "better than Disk" of what is better the less there is of it
    sure: str  # the ends of its interval
    sentences: list[str]  # at most three sentences; the first is the answer
    basis: str
    points: list[tuple[str, str]]  # words and the point whose runs they lead to
    see: tuple[str, str] | None  # where its figure or table is: words, anchor
    better: list[Contrast]
    worse: list[Contrast]
    marks: list[Mark]
    leader: str = ""  # whose sides ``better`` and ``worse`` are: the winner, else who is ahead most
    outcome: str = "No winner"  # where there is none
    worse_title: str = "Where it is worse"
    warnings: list[str] = field(default_factory=list)  # those sentences that speak against it
    as_under: tuple[str, int] | None = None  # an earlier answer whose sides are the same
    # What answers in words, in place of the winner: target, words, its colour.
    told: list[tuple[str, str, int | None]] = field(default_factory=list)

    @property
    def large(self) -> bool:
        """Whether its number stands large over the findings."""
        return bool(self.winner) and not self.told


@dataclass(slots=True)
class Brief:
    """The whole brief."""

    title: str
    subtitle: str
    date: str
    study: str
    baseline: str
    plan_hash: str
    version: str
    generated: str
    provenance: str
    status: str  # empty when every planned run finished
    targets: list[TargetCard]
    warnings: list[str]  # before all answers: why the numbers must not be compared
    verdicts: list[Verdict]  # as they were found: what is said beside the page rests on them
    answers: list[Answer]  # to the questions, in their order
    not_compared: str  # what nobody can answer, and why; empty where there is nothing
    differing: list[str]  # what differed among its campaigns, where there are several
    summary: list[str]  # how often each target is ahead, and how far
    of_families: list[str]  # what only the families of the study can say
    claims: list[Claim]
    undecided: list[str]
    rule: str  # how the claims were chosen
    mappings: list[Mapping]
    sections: list[SectionBlock]
    overview: list[FigureGroup]
    ratios: list[DataTable]
    configuration: list[FactTable]
    environment: list[FactTable]
    method: list[tuple[str, str]]
    caveats: list[str]
    legend: list[Mark]
    run_tables: list[RunTable]
    failed: list[tuple[str, RunRow]]
    data: dict[str, Any]
    audit: list[Finding] = field(default_factory=list)
    told: frozenset[str] = frozenset()  # rules of the audit that its findings say by themselves
    extras: list[ExtraSection] = field(default_factory=list)
    publisher: Publisher = field(default_factory=Publisher)
    heat: list[HeatTable] = field(default_factory=list)
    beside: dict[str, bytes] = field(default_factory=dict)  # files that lie beside the page

    @property
    def cards(self) -> list[Claim]:
        """The claims with a large number; what answers rest on stands large over them already."""
        large = [{point for _, point in answer.points} for answer in self.answers if answer.large]
        return cards(self.claims, self.verdicts, large)[:CARDS]

    @property
    def appendix(self) -> list[PointRuns]:
        """Every point with its runs, of all families."""
        return [point for table in self.run_tables for point in table.points]

    def audit_points(self, finding: Finding) -> list[str]:
        """The points in the appendix whose runs a finding of the audit is about."""
        known = {point.point_id for point in self.appendix}
        named = (row.split(":")[0].rpartition("-r")[0] or row.split(":")[0] for row in finding.rows)
        return [point for point in dict.fromkeys(named) if point in known]

    @property
    def drawings(self) -> list[Drawing]:
        """Every figure, in the order of the page."""
        groups = [*self.overview, *(group for s in self.sections for group in s.groups)]
        groups += [group for extra in self.extras for group in extra.groups]
        return [drawing for group in groups for drawing in group.drawings]
