"""Single runs, each on one time axis: a few that dip, folded until they are asked for, and those
that somebody chose.
"""

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
from storlab.brief.claims import Claim
from storlab.brief.model import Drawing, ExtraSection, FigureGroup
from storlab.brief.text import plural
from storlab.contracts.registry import FAMILIES
from storlab.figures.common import place_at
from storlab.figures.figure import Figure
from storlab.figures.foot import with_foot
from storlab.figures.svg import render
from storlab.figures.timeline import timeline_figure

MOST_READ = 24  # runs whose samples are read
MOST_DRAWN = 4
LEAST_OF_CHOSEN = 2  # intervals

_Place = tuple[Section, WorkloadPoint, str, RunData]


def timelines_section(
    comparison: Comparison, claims: Sequence[Claim], drawn: Collection[str] = ()
) -> ExtraSection | None:
    """The section; None where no run of those that were looked at dips.

    Looked at are runs behind the findings, then flagged ones, spread evenly where they are many.
    ``drawn`` are the names of figures that stand elsewhere.
    """
    wanted = _candidates(comparison, claims)
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
        title="Why did this dip?",
        short="Dips",
        lead=[
            f"{len(dipping)} of {plural(len(timed), 'run')} behind the findings or with flags "
            f"{'has' if len(dipping) == 1 else 'have'} intervals below {100 * DIP:.0f} % of "
            "the run’s own median throughput."
        ],
        groups=[
            FigureGroup(
                "timeline",
                "Single runs on one time axis",
                "The runs with the deepest dips. The stronger the colour, the more operations of "
                "that moment had such a latency. Shaded: the dips; a column with one has its least "
                "throughput. Flags stand where they held, as far as that is known of moments, else "
                "over the whole run; errors where they happened.",
                drawings,
                folded=True,
            )
        ],
    )


def chosen_section(
    whole: Comparison, page: Comparison, run_ids: Sequence[str]
) -> ExtraSection | None:
    """The runs of these ids, whether they dip or not; None without one.

    ``page`` is what the page shows of the whole: links lead to its points only. Raises what
    :func:`run_figures` does.
    """
    figures = [figure for run_id in dict.fromkeys(run_ids) for figure in run_figures(whole, run_id)]
    if not figures:
        return None
    known = {cell.point_id for row in page.rows.values() for cell in row.cells.values()}
    linked = [replace(f, point_ids=[p for p in f.point_ids if p in known]) for f in figures]
    lead = "The runs that were chosen for this brief."
    words = (
        "The stronger the colour, the more operations of that moment had such a latency. Shaded: "
        "dips, where there are any."
    )
    drawings = [Drawing(figure, render(figure)) for figure in linked]
    group = FigureGroup("timeline", "Chosen runs on one time axis", words, drawings)
    return ExtraSection("single-runs", "Single runs", "Single runs", [lead], groups=[group])


def run_figures(comparison: Comparison, run_id: str) -> list[Figure]:
    """A run on one time axis; of several directories that of each that has a run of this id.

    Raises UsageError where there is no such run, it did not finish, or it is too short to be drawn.
    """
    names = {(r.record.run_id, r.directory_name) for r in comparison.dataset.all_runs()}
    if not any(run_id in name for name in names):
        what = "is no run of these results"
        raise UsageError(run_id, what, "name one of those in the directory runs/")
    figures = []
    for place in _places(comparison):
        run = place[3]
        if run_id in (run.record.run_id, run.directory_name):
            known = timeline(run, LEAST_OF_CHOSEN)
            if known is None:
                what = "has fewer than two intervals, or none that moved anything"
                raise UsageError(run_id, what, "choose a longer run, or a shorter [study] interval")
            figures.append(_figure(comparison, *place, known))
    if not figures:
        raise UsageError(run_id, "did not finish: it has no time axis", "choose a finished run")
    return figures


def _places(comparison: Comparison) -> Iterator[_Place]:
    """Every finished run, and where it belongs."""
    for section in comparison.sections:
        for point in section.points:
            for target, cell in comparison.row(point).cells.items():
                yield from ((section, point, target, run) for run in cell.runs)


def _candidates(comparison: Comparison, claims: Sequence[Claim]) -> list[_Place]:
    told = {run_id for claim in claims for run_id in claim.run_ids}
    # Stages of fixed work come and go by design.
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
