"""Records for the content of a brief, from which both HTML and PDF are rendered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from storlab.audit.finding import Finding
from storlab.audit.from_claims import Assertion, StatedValue
from storlab.brief.flags import Mark, general
from storlab.figures.figure import Figure
from storlab.lab.study.logo import Logo
from storlab.words.openings import Piece
from storlab.words.state import StateWord
from storlab.words.text import plural

MOST_TILES = 4  # tiles on the cover; answers to further questions are sentences


@dataclass(frozen=True, slots=True)
class Number:
    """Number in a table, with its marks and the point whose runs it was computed from."""

    text: str
    spread: str = ""
    point_id: str | None = None
    marks: tuple[Mark, ...] = ()
    missing: bool = False
    strong: bool = False
    fact: bool = False  # declared or published, so not computed from runs of this campaign

    def without(self, kinds: Collection[str]) -> Number:
        """Return the number without marks of these kinds."""
        return replace(self, marks=tuple(m for m in self.marks if m.kind not in kinds))


@dataclass(frozen=True, slots=True)
class TargetCard:
    """Card with facts about a target; ``index`` decides the target's colour in all figures."""

    label: str
    index: int
    baseline: bool
    facts: list[tuple[str, str, bool]]  # name, value, and whether the study declares it
    state: list[StateWord]  # state of drives and machine in the runs of the target


@dataclass(frozen=True, slots=True)
class Drawing:
    """Figure with its SVG, which contains names of colours instead of their values."""

    figure: Figure
    svg: str


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """Figures of one kind in one section of a brief."""

    kind: str
    heading: str
    lead: str
    drawings: list[Drawing]
    main: bool = True  # whether in the main part of a brief; else in the appendix of its page


@dataclass(frozen=True, slots=True)
class HeatCell:
    """Cell of a heat table: the factor by which one target is better than the other.

    ``index`` is the index of the better target; None if no target is better.
    """

    text: str
    spread: str
    index: int | None
    sign: str  # sign of the better target
    step: int  # strength of the colour, from 0
    point_id: str | None  # None without a ratio
    marks: tuple[Mark, ...] = ()
    note: str = ""  # reason why there is no ratio


@dataclass(frozen=True, slots=True)
class HeatRow:
    """Row of a heat table: one mix, compared between one target and the baseline."""

    title: str
    target: str
    index: int
    cells: list[HeatCell | None]  # None if not compared


@dataclass(frozen=True, slots=True)
class HeatTable:
    """Heat table of a workload family: a row per mix, a column per quantity and block size."""

    caption: str
    head: str
    groups: list[tuple[str, int]]  # quantities with their numbers of columns
    columns: list[str]  # block sizes (or other facets); empty texts if there are none
    rows: list[HeatRow]
    shared: list[tuple[Mark, ...]]  # further marks shared by all cells of a quantity
    everywhere: tuple[Mark, ...]  # marks shared by all cells
    signs: list[tuple[str, int, str]]  # targets with their indices and signs
    several: bool  # whether there are several targets other than the baseline
    baseline: str
    chance: str  # note that some of this many comparisons are coloured by chance


@dataclass(frozen=True, slots=True)
class FindingRow:
    """Row of the key findings: one target better than the other in a quantity, or neither.

    The example is the point with the median lead of the better target. If the targets are not
    compared, ``outcome`` says so, ``where`` has the reason, and there are no values.
    """

    quantity: str
    span: int  # rows of the same quantity from here on; 0 if a row above has its name
    better: str  # target; empty if neither is better
    index: int | None  # index of the better target, which decides its colour
    outcome: str  # shown if neither is better
    lead: str  # such as 3.3 times
    bounds: str  # interval of the lead at the example
    won: int  # points at which the better target is significantly better
    lost: int
    undecided: int
    where: str  # workload of the example
    values: tuple[tuple[str, str], ...]  # of both targets at the example, each with its point
    marks: tuple[Mark, ...] = ()
    finding: Assertion | None = None  # for the audit; None if not compared


@dataclass(frozen=True, slots=True)
class FindingTable:
    """Key findings about two targets: a row for each quantity that was compared."""

    caption: str
    sides: tuple[str, str]
    rows: list[FindingRow]
    shared: tuple[Mark, ...]  # marks of all rows, to print once


@dataclass(frozen=True, slots=True)
class TableRow:
    """Row of a table; ``heads`` are its headings, each with the number of rows that it spans.

    A heading that a row above already shows spans 0 rows.
    """

    heads: list[tuple[str, int]]
    target: str
    index: int
    numbers: list[Number]
    first: bool  # whether the row begins a group of rows
    links: list[tuple[str, str]]  # texts, each with the point whose runs it links to
    chip: str = ""  # provenance of all numbers of the row, unless measured
    note: str = ""  # source of the row, if it is not based on runs

    @property
    def marks(self) -> dict[str, list[Mark]]:
        """Marks of all numbers that are present, by kind."""
        by_kind: dict[str, list[Mark]] = {}
        for number in self.numbers:
            for marked in () if number.missing else number.marks:
                by_kind.setdefault(marked.kind, []).append(marked)
        return by_kind

    @property
    def common(self) -> tuple[Mark, ...]:
        """Marks of more than half of the row's numbers, if these are at least two."""
        present = sum(not number.missing for number in self.numbers)
        least = max(2, present // 2 + 1)
        return tuple(same[0] for same in self.marks.values() if len(same) >= least)


@dataclass(frozen=True, slots=True)
class DataTable:
    """Table of numbers in a brief."""

    caption: str
    head: list[str]  # headings of the columns of row headings
    columns: list[tuple[str, str]]  # name and unit of each column
    rows: list[TableRow]
    marks: list[Mark] = field(default_factory=list)
    everywhere: tuple[Mark, ...] = ()  # marks of all rows, to print once for the whole table

    @property
    def has_runs(self) -> bool:
        """Whether any row links to runs or names a source."""
        return any(row.links or row.note for row in self.rows)

    def condensed(self, *, by_row: bool = False) -> DataTable:
        """Return the table with marks that several numbers have in common printed only once.

        Marks of most numbers of a row stand in a last column, and those of all rows in
        ``everywhere``.

        Args:
            by_row: Whether all marks of a row stand in the last column.
        """
        common = [
            tuple(same[0] for same in row.marks.values()) if by_row else row.common
            for row in self.rows
        ]
        kinds = [{m.kind for m in own} for own in common]
        filled = [
            own
            for own, row in zip(kinds, self.rows, strict=True)
            if not all(number.missing for number in row.numbers)
        ]
        shared = set.intersection(*filled) if len(filled) > 1 else set()
        own = [tuple(m for m in marks if m.kind not in shared) for marks in common]
        rows = [
            replace(
                row,
                numbers=[
                    *(number.without(of_row) for number in row.numbers),
                    *([Number("", marks=marks, fact=True)] if any(own) else []),
                ],
            )
            for row, of_row, marks in zip(self.rows, kinds, own, strict=True)
        ]
        of_all = {m.kind: general(m) for marks in common for m in marks if m.kind in shared}
        columns = [*self.columns, *([("caveats", "")] if any(own) else [])]
        return replace(self, columns=columns, rows=rows, everywhere=tuple(of_all.values()))


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text about one block size (or other facet) of a section."""

    head: str  # use cases; often empty
    profile: str  # load in words, such as "random I/O, 256 KiB, queue depth 8"
    sentences: list[list[Piece]]


@dataclass(frozen=True, slots=True)
class Opening:
    """Text that opens the section of a workload mix, with the numbers for the audit to check."""

    paragraphs: list[Paragraph]
    closing: list[str]  # caveats of all paragraphs
    marks: list[Mark]  # of all numbers
    checked: list[Assertion | StatedValue]


@dataclass(frozen=True, slots=True)
class SectionBlock:
    """Section of one workload mix, or of all mixes of a workload family."""

    anchor: str
    title: str
    opening: Opening | None
    groups: list[FigureGroup]  # figures of the main part
    tables: list[DataTable]
    short: str  # title in the navigation
    numbers: str  # heading above the tables
    more: list[FigureGroup] = field(default_factory=list)  # figures of the page's appendix


@dataclass(frozen=True, slots=True)
class ExtraSection:
    """Section that appears once per campaign, such as power, density or published results."""

    anchor: str
    title: str
    short: str  # title in the navigation
    lead: list[str]
    groups: list[FigureGroup] = field(default_factory=list)  # figures of the main part
    more: list[FigureGroup] = field(default_factory=list)  # figures of the page's appendix
    tables: list[DataTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunRow:
    """Row of one run in the appendix of a brief."""

    run_id: str
    repeat: int
    status: str
    started: str
    values: list[str]
    flags: list[Mark]
    failure: str
    href: str  # link to the run's directory, relative to the brief
    errors: str = ""  # failed operations by operation and kind


@dataclass(frozen=True, slots=True)
class PointRuns:
    """Runs of one point in the appendix of a brief; numbers link to them."""

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
    """Table of names and values under a heading, such as configuration or environment."""

    heading: str
    rows: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Publisher:
    """Byline, logo and texts that the publisher of a brief adds; empty ones are not shown."""

    byline: str = ""
    name: str = ""  # name that goes with the logo
    logo: Logo | None = None
    introduction: list[str] = field(default_factory=list)  # paragraphs of the introduction
    conclusion: list[str] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)
    legal: list[str] = field(default_factory=list)
    # name of a component such as the CPU, and its description on each target
    components: list[tuple[str, list[str]]] = field(default_factory=list)
    left_out: str = ""  # sentence that names omitted parts of the brief


@dataclass(frozen=True, slots=True)
class Tile:
    """Tile on the cover of a brief: the answer to a question, or a main number of one target."""

    title: str
    name: str  # target that is better; empty without a winner
    index: int | None  # index of that target, which decides the tile's colour
    texts: list[tuple[str, str, int | None]]  # textual answers: target, text and colour index
    amount: str  # lead, value or outcome
    beside: str  # what the lead refers to
    detail: str
    point_id: str | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """Top of a brief: title, what was measured and when, and the version of storlab."""

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
    """Part of a brief that answers the questions of the study, shown first."""

    warnings: list[str]  # shown before all answers: why the numbers must not be compared
    sentences: list[str]  # the first answer, at most two sentences; empty with one target
    tiles: list[Tile]  # at most ``MOST_TILES``
    basis: str  # what the intervals of the tiles are; empty without intervals
    more: list[str]  # answers to further questions, a sentence each
    not_compared: list[str]  # sentences on power and price if not compared in them; often empty
    differing: list[str]  # differences between campaigns, if there are several
    changed: str = ""  # sentence on settings that replace those of the study; often empty


@dataclass(frozen=True, slots=True)
class FlagRow:
    """Row of the table of caveats: a mark, and the targets and points with it."""

    mark: Mark
    where: str  # empty for marks that do not stand for a flag of runs


@dataclass(frozen=True, slots=True)
class Findings:
    """Part of a brief with the key findings, and the caveats of all of its numbers."""

    of_families: list[str]  # sentences that workload families add
    tables: list[FindingTable]  # empty if there is only one target
    best: list[DataTable]  # best values by workload if there is only one target
    rule: str  # points that the cover and the overview are about
    heat: list[HeatTable]
    caveats: list[str]
    flags: list[FlagRow]  # table of caveats: flags and other marks beside numbers


@dataclass(frozen=True, slots=True)
class Body:
    """Part of a brief with figures and tables of numbers."""

    main_values: list[DataTable]
    sections: list[SectionBlock]
    overview: list[FigureGroup]  # ratios of all mixes
    ratios: list[DataTable]
    extras: list[ExtraSection]

    @property
    def main(self) -> list[Drawing]:
        """Figures of the main part, in page order."""
        groups = [group for section in self.sections for group in section.groups]
        groups += [group for group in self.overview if group.main]
        groups += [group for extra in self.extras for group in extra.groups]
        return [drawing for group in groups for drawing in group.drawings]

    @property
    def appendix(self) -> list[tuple[str, str, list[FigureGroup]]]:
        """Figures of the page's appendix: anchor and title of each section, and its groups."""
        own = [(section.anchor, section.title, section.more) for section in self.sections]
        own += [(extra.anchor, extra.title, extra.more) for extra in self.extras]
        own += [("ratios", "Ratios", [group for group in self.overview if not group.main])]
        return [place for place in own if place[2]]


@dataclass(frozen=True, slots=True)
class Reference:
    """Part of a brief on configuration, environment and method."""

    configuration: list[FactTable]
    environment: list[FactTable]
    method: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Appendix of all runs."""

    tables: list[RunTable]

    @property
    def points(self) -> list[PointRuns]:
        """Points of all workload families with their runs."""
        return [point for table in self.tables for point in table.points]

    @property
    def failed(self) -> list[tuple[str, RunRow]]:
        """Runs that did not finish, each after the name of its target."""
        rows = ((point.target, run) for point in self.points for run in point.runs)
        return [(target, run) for target, run in rows if run.status != "finished"]


@dataclass(frozen=True, slots=True)
class Audit:
    """Result of the audit of a brief's numbers."""

    findings: list[Finding]
    stated_rules: frozenset[str]  # rules whose findings the warnings already state

    @property
    def unstated(self) -> list[Finding]:
        """Findings that the warnings of the brief do not state."""
        return [finding for finding in self.findings if finding.rule not in self.stated_rules]

    @property
    def counts(self) -> str:
        """Numbers of findings by severity, such as ``2 warnings, 7 notes``; empty without any."""
        by_severity = Counter(finding.severity for finding in self.findings)
        return ", ".join(plural(count, severity) for severity, count in by_severity.items())


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

    def audit_points(self, finding: Finding) -> list[str]:
        """Return ids of the points in the appendix whose runs a finding of the audit is about."""
        known = {point.point_id for point in self.runs.points}
        named = (row.split(":")[0].rpartition("-r")[0] or row.split(":")[0] for row in finding.rows)
        return [point for point in dict.fromkeys(named) if point in known]

    @property
    def number_rows(self) -> int:
        """Number of rows of all tables in the appendix, without runs."""
        tables = [table for section in self.body.sections for table in section.tables]
        return sum(len(t.rows) for t in (*self.body.main_values, *tables, *self.body.ratios))

    @property
    def drawings(self) -> list[Drawing]:
        """All figures of the brief, in page order."""
        more = (group for _, _, groups in self.body.appendix for group in groups)
        return [*self.body.main, *(drawing for group in more for drawing in group.drawings)]
