"""Choose which figures of a page are visible at first; readers can open the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storlab.analysis.points import Section
from storlab.brief.model import FigureGroup, SectionBlock
from storlab.figures.common import clients_of

OPEN = 16  # figures of mixes: four mixes with two sizes, throughput and latency


def folded(mixes: Sequence[tuple[Section, SectionBlock]]) -> list[SectionBlock]:
    """Collapse the figures of mixes; those with the most clients stay open, up to ``OPEN`` figures.

    The first mix with the most clients stays open even if it has more figures.
    """
    most = max((clients_of(section) for section, _ in mixes), default=0)
    blocks, left = [], OPEN
    for section, block in mixes:
        count = sum(len(group.drawings) for group in block.groups if not group.folded)
        fits = clients_of(section) == most and (count <= left or left == OPEN)
        left -= count if fits else 0
        blocks.append(replace(block, folded=count > 0 and not fits))
    return blocks


def paired(groups: Sequence[FigureGroup]) -> list[FigureGroup]:
    """Reorder groups of figures so that groups with a single figure can be shown in pairs."""
    waiting, pairs = list(groups), []
    while waiting:
        group = waiting.pop(0)
        pairs.append(group)
        if _single(group):
            other = next((drawing for drawing in waiting if _single(drawing)), None)
            if other is not None:
                waiting.remove(other)
                pairs.append(other)
    return pairs


def _single(group: FigureGroup) -> bool:
    return len(group.drawings) == 1 and not group.folded
