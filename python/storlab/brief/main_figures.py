"""Choose which figures are in the main part of a brief; the page has the others in an appendix.

The choice depends on the kinds of figures and on their number, never on results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storlab.analysis.points import Section
from storlab.audit.screening import spread
from storlab.brief.model import ExtraSection, FigureGroup, SectionBlock
from storlab.figures.common import clients_of
from storlab.words.figures import TWO_LINES

MOST = 16  # figures in the main part


def main_figures(
    mixes: Sequence[tuple[Section, SectionBlock]],
    wholes: Sequence[SectionBlock],
    extras: Sequence[ExtraSection],
    further: int = 0,
) -> tuple[list[SectionBlock], list[SectionBlock], list[ExtraSection]]:
    """Move figures to the appendix: those of minor kinds, and of too many mixes.

    Args:
        mixes: Sections of mixes.
        wholes: Sections of all mixes of a workload.
        extras: Sections that appear once per campaign.
        further: Number of figures of the main part that are in none of these sections.

    Returns:
        The same sections in the same order, with their figures split.
    """
    blocks = [_split_section(block) for _, block in mixes]
    others = [_split_section(block) for block in wholes]
    once = [_split_extra(extra) for extra in extras]
    taken = sum(count(s.groups) for s in others) + sum(count(e.groups) for e in once) + further
    return _fitting([s for s, _ in mixes], blocks, MOST - taken), others, once


def count(groups: Sequence[FigureGroup]) -> int:
    """Return the number of figures in groups."""
    return sum(len(group.drawings) for group in groups)


def is_narrow(groups: Sequence[FigureGroup]) -> bool:
    """Return whether three figures of these groups fit side by side, with their titles."""
    figures = [drawing.figure for group in groups for drawing in group.drawings]
    longest = max((len(figure.title) for figure in figures), default=0)
    return len(figures) not in (1, 2, 4) and longest <= 1.1 * TWO_LINES


def _split_section(block: SectionBlock) -> SectionBlock:
    main, more = _split(block.groups)
    return replace(block, groups=main, more=more)


def _split_extra(extra: ExtraSection) -> ExtraSection:
    main, more = _split(extra.groups)
    return replace(extra, groups=main, more=more)


def _split(groups: Sequence[FigureGroup]) -> tuple[list[FigureGroup], list[FigureGroup]]:
    return [g for g in groups if g.main], [g for g in groups if not g.main]


def _fitting(
    sections: Sequence[Section], blocks: Sequence[SectionBlock], room: int
) -> list[SectionBlock]:
    """Keep at most ``room`` figures of mixes, but at least the first group of one mix.

    Mixes with fewer than the most clients keep none. Then groups are left out from the last to the
    first, of all mixes alike; if the first groups are still too many, mixes are spread evenly.
    """
    most = max(map(clients_of, sections), default=0)
    kept = [number for number, section in enumerate(sections) if clients_of(section) == most]
    depth = max((len(blocks[number].groups) for number in kept), default=0)

    def size(number: int) -> int:
        return count(blocks[number].groups[:depth])

    while depth > 1 and sum(map(size, kept)) > room:
        depth -= 1
    kept = [number for number in kept if size(number)]
    wanted = len(kept)
    while wanted > 1 and sum(size(kept[place]) for place in _places(len(kept), wanted)) > room:
        wanted -= 1
    shown = {kept[place] for place in _places(len(kept), wanted)}
    return [_cut(block, depth if number in shown else 0) for number, block in enumerate(blocks)]


def _places(number: int, wanted: int) -> list[int]:
    return spread(number, wanted) if wanted > 1 else [0][:number]


def _cut(block: SectionBlock, depth: int) -> SectionBlock:
    return replace(block, groups=block.groups[:depth], more=[*block.groups[depth:], *block.more])
