"""Single runs that dip: each on one time axis, a few of them, folded until they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.dataset import RunData
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.timeline import DIP, Timeline, timeline
from storlab.audit.screening import spread
from storlab.brief.claims import Claim
from storlab.brief.model import Drawing, ExtraSection, FigureGroup
from storlab.brief.text import plural
from storlab.contracts.registry import FAMILIES
from storlab.figures.common import place_at
from storlab.figures.foot import with_foot
from storlab.figures.svg import render
from storlab.figures.timeline import timeline_figure

MOST_READ = 24  # runs whose samples are read
MOST_DRAWN = 4

_Place = tuple[Section, WorkloadPoint, str, RunData]


def timelines_section(comparison: Comparison, claims: Sequence[Claim]) -> ExtraSection | None:
    """The section; None where no run of those that were looked at dips.

    Looked at are runs behind the findings, then flagged ones, spread evenly where they are many.
    """
    wanted = _candidates(comparison, claims)
    found = [(place, known) for place in wanted if (known := timeline(place[3])) is not None]
    dipping = [(place, known) for place, known in found if known.dips]
    deepest = sorted(dipping, key=lambda each: -each[1].depth)[:MOST_DRAWN]
    if not deepest:
        return None
    drawings = [_drawing(comparison, *place, known) for place, known in deepest]
    return ExtraSection(
        anchor="dips",
        title="Why did this dip?",
        short="Dips",
        lead=[
            f"{len(dipping)} of {plural(len(found), 'run')} behind the findings or with flags "
            f"{'has' if len(dipping) == 1 else 'have'} intervals below {100 * DIP:.0f} % of "
            "the run’s own median throughput."
        ],
        groups=[
            FigureGroup(
                "timeline",
                "Single runs on one time axis",
                "The runs with the deepest dips. The stronger the colour, the more operations of "
                "that moment had such a latency. Shaded: the dips, with the least throughput of each "
                "column. Flags are of the whole run, errors of the moments when they happened.",
                drawings,
                folded=True,
            )
        ],
    )


def _candidates(comparison: Comparison, claims: Sequence[Claim]) -> list[_Place]:
    told = {run_id for claim in claims for run_id in claim.run_ids}
    places = [
        (section, point, target, run)
        for section in comparison.sections
        if not FAMILIES[section.kind].fixed_work  # its stages come and go by design
        for point in section.points
        for target, cell in comparison.row(point).cells.items()
        for run in cell.runs
    ]
    first = [place for place in places if place[3].record.run_id in told]
    rest = [p for p in places if p[3].record.run_id not in told and p[3].record.flags]
    room = MOST_READ - len(first)
    more = [rest[at] for at in spread(len(rest), room)] if room > 1 else []
    return [*(first[at] for at in spread(len(first), MOST_READ)), *more]


def _drawing(
    comparison: Comparison,
    section: Section,
    point: WorkloadPoint,
    target: str,
    run: RunData,
    known: Timeline,
) -> Drawing:
    facet = point.params.get(section.axes.facet or "")
    where = f"{target}, {place_at(section, facet, point)}, run {run.record.repeat}"
    ids = [run.record.point_id]
    figure = timeline_figure(known, comparison.targets.index(target), where, ids)
    figure = with_foot(comparison, [section], figure, run.record.run_id)
    return Drawing(figure, render(figure))
