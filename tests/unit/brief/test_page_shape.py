"""Folded and unfolded parts of a page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from storlab.brief.folding import OPEN, folded, paired
from storlab.brief.model import FigureGroup, SectionBlock


def group(name: str, figures: int, *, tucked: bool = False) -> FigureGroup:
    return FigureGroup(name, name, "", [None] * figures, tucked)  # type: ignore[list-item]


def mix(title: str, figures: int, clients: int | None = None) -> tuple[Any, SectionBlock]:
    block = SectionBlock(title, title, [], [group("any", figures)], [], title, "")
    return SimpleNamespace(points=[SimpleNamespace(clients=clients)]), block


def test_as_many_mixes_are_open_as_a_reader_looks_through() -> None:
    found = folded([mix(str(number), OPEN // 4) for number in range(6)])
    assert [block.folded for block in found] == [False] * 4 + [True] * 2
    assert [block.folded for block in folded([mix("large", 3 * OPEN), mix("next", 1)])] == [
        False,
        True,
    ]


def test_of_a_cluster_the_mixes_of_all_clients_are_open() -> None:
    found = folded([mix(str(clients), 2, clients) for clients in (1, 3, 6)])
    assert [block.folded for block in found] == [True, True, False]


def test_lone_figures_stand_side_by_side() -> None:
    groups = [group("a", 1), group("b", 2), group("c", 1), group("d", 1, tucked=True)]
    assert [each.heading for each in paired(groups)] == ["a", "c", "b", "d"]
