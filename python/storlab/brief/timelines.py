"""Sections that draw single runs over time: those with the deepest dips, or those users chose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from storlab.analysis.compare import Comparison
from storlab.analysis.dataset import RunData
from storlab.analysis.dips import DIP
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.timeline import Timeline, timeline
from storlab.audit.screening import spread
from storlab.base.errors import UsageError
from storlab.base.nearest import suggest
from storlab.brief.key_findings import assertions
from storlab.brief.model import Drawing, ExtraSection, FigureGroup, FindingTable
from storlab.contracts.registry import FAMILIES
from storlab.figures.common import place_at
from storlab.figures.figure import Figure
from storlab.figures.footer import with_foot
from storlab.figures.svg import render
from storlab.figures.timeline import timeline_figure
from storlab.words.text import plural

MOST_READ = 24  # runs whose samples are read
MOST_DRAWN = 4
LEAST_OF_CHOSEN = 2  # fewest intervals of a run that can be drawn

_Place = tuple[Section, WorkloadPoint, str, RunData]


def timelines_section(
    comparison: Comparison, findings: Sequence[FindingTable], drawn: Collection[str] = ()
) -> ExtraSection | None:
    """Build the section with the runs whose throughput dipped the most; None if no run dipped.

    The runs of the key findings' examples are examined first, then flagged runs. If there are many,
    only an evenly spread selection is examined.

    Args:
        comparison: Comparison that the page shows.
        findings: Key findings whose runs are examined first.
        drawn: Names of figures that another section already shows.
    """
    wanted = _candidates(comparison, findings)
    timed = [(place, known) for place in wanted if (known := timeline(place[3])) is not None]
    dipping = [(place, known) for place, known in timed if known.dips]
    deepest = sorted(dipping, key=lambda dipped: -dipped[1].depth)[:MOST_DRAWN]
    figures = [_figure(comparison, *place, known) for place, known in deepest]
    drawings = [
        Drawing(drawn_one, render(drawn_one))
        for drawn_one in figures
        if drawn_one.name not in drawn
    ]
    if not drawings:
        return None
    return ExtraSection(
        anchor="dips",
        title="Throughput dips",
        short="Dips",
        lead=[
            f"In {len(dipping)} of {plural(len(timed), 'run')} examined, throughput fell below "
            f"{100 * DIP:.0f} % of the run’s median. Examined were the runs of the findings and "
            "runs with flags."
        ],
        groups=[
            FigureGroup(
                "timeline",
                "Single runs on one time axis",
                "The runs with the deepest dips. The stronger the colour, the more operations had "
                "that latency at that time. Dips are shaded; a column with a dip shows its least "
                "throughput. Flags are drawn at the times they apply to, or over the whole run if "
                "these are unknown; errors at the times they occurred.",
                drawings,
                main=False,
            )
        ],
    )


def chosen_section(
    whole: Comparison, page: Comparison, run_ids: Sequence[str]
) -> ExtraSection | None:
    """Build the section with runs that the user chose, each over time; None without a run.

    Args:
        whole: Comparison with all points.
        page: Comparison with the points that the page shows; only figures of these get links.
        run_ids: Ids of the chosen runs.

    Raises:
        UsageError: A run does not exist, did not finish, or is too short to draw.
    """
    figures = [figure for run_id in dict.fromkeys(run_ids) for figure in run_figures(whole, run_id)]
    if not figures:
        return None
    known = {cell.point_id for row in page.rows.values() for cell in row.cells.values()}
    linked = [replace(f, point_ids=[p for p in f.point_ids if p in known]) for f in figures]
    lead = "Runs chosen for this brief."
    words = (
        "The stronger the colour, the more operations had that latency at that time. Dips are "
        "shaded."
    )
    drawings = [Drawing(figure, render(figure)) for figure in linked]
    group = FigureGroup("timeline", "Chosen runs on one time axis", words, drawings)
    return ExtraSection("single-runs", "Single runs", "Single runs", [lead], groups=[group])


def run_figures(comparison: Comparison, run_id: str) -> list[Figure]:
    """Draw a run over time, once for each result directory that has a run with this id.

    Raises:
        UsageError: There is no such run, it did not finish, or it is too short to draw.
    """
    names = {(r.record.run_id, r.directory_name) for r in comparison.dataset.all_runs()}
    if not any(run_id in name for name in names):
        what = "is not a run of these results"
        raise UsageError(run_id, what, suggest(run_id, sorted(run for run, _ in names)))
    figures = []
    for place in _places(comparison):
        run = place[3]
        if run_id in (run.record.run_id, run.directory_name):
            known = timeline(run, LEAST_OF_CHOSEN)
            if known is None:
                what = "has fewer than two intervals, or moved no data: it cannot be drawn"
                raise UsageError(run_id, what, "choose a longer run, or a shorter [study] interval")
            figures.append(_figure(comparison, *place, known))
    if not figures:
        raise UsageError(run_id, "did not finish: it cannot be drawn", "choose a finished run")
    return figures


def _places(comparison: Comparison) -> Iterator[_Place]:
    """Yield every finished run with its section, point and target."""
    for section in comparison.sections:
        for point in section.points:
            for target, cell in comparison.row(point).cells.items():
                yield from ((section, point, target, run) for run in cell.runs)


def _candidates(comparison: Comparison, findings: Sequence[FindingTable]) -> list[_Place]:
    told = {run for row in assertions(findings) for _, runs in row.sides for run in runs}
    # The throughput of fixed work varies by design between its stages, so dips mean nothing.
    places = [p for p in _places(comparison) if not FAMILIES[p[0].kind].fixed_work]
    first = [place for place in places if place[3].record.run_id in told]
    rest = [p for p in places if p[3].record.run_id not in told and p[3].record.flags]
    room = MOST_READ - len(first)
    more = [rest[at] for at in spread(len(rest), room)] if room > 1 else []
    return [*(first[at] for at in spread(len(first), MOST_READ)), *more]


def _figure(
    comparison: Comparison,
    section: Section,
    point: WorkloadPoint,
    target: str,
    run: RunData,
    known: Timeline,
) -> Figure:
    facet = point.params.get(section.axes.facet or "")
    where = f"{target}, {place_at(section, facet, point)}, run {run.record.repeat}"
    ids = [run.record.point_id]
    figure = timeline_figure(known, comparison.targets.index(target), where, ids)
    return with_foot(comparison, [section], figure, run.record.run_id)
