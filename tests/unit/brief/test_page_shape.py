"""Which figures are in the main part of a brief, and which in the appendix of its page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from storlab.brief.main_figures import MOST, count, main_figures
from storlab.brief.model import ExtraSection, FigureGroup, SectionBlock


def group(name: str, figures: int, *, main: bool = True) -> FigureGroup:
    return FigureGroup(name, name, "", [None] * figures, main)  # type: ignore[list-item]


def mix(title: str, *groups: FigureGroup, clients: int | None = None) -> tuple[Any, SectionBlock]:
    block = SectionBlock(title, title, [], list(groups), [], title, "")
    return SimpleNamespace(points=[SimpleNamespace(clients=clients)]), block


def shown(mixes: list[tuple[Any, SectionBlock]], extras: Any = ()) -> list[list[str]]:
    """Return the kinds of figures that each mix has in the main part."""
    blocks, _, _ = main_figures(mixes, [], extras)
    for (_, before), after in zip(mixes, blocks, strict=True):
        kinds = [g.kind for g in (*after.groups, *after.more)]
        assert sorted(kinds) == sorted(g.kind for g in before.groups), "a figure is lost"
    return [[g.kind for g in block.groups] for block in blocks]


def test_minor_kinds_are_in_the_appendix() -> None:
    groups = [group("major", 1), group("minor", 3, main=False)]
    extra = ExtraSection("power", "Power", "Power", [], groups)
    assert shown([mix("one", *groups)]) == [["major"]]
    _, _, (split,) = main_figures([], [], [extra])
    assert [[g.kind for g in part] for part in (split.groups, split.more)] == [["major"], ["minor"]]


def test_last_kinds_of_all_mixes_go_first() -> None:
    kinds = [group("throughput", 1), group("latency", 2)]
    mixes = [mix(str(number), *kinds) for number in range(5)]
    assert shown(mixes) == [["throughput", "latency"]] * 5
    extra = ExtraSection("power", "Power", "Power", [], [group("power", 2)])
    assert shown(mixes, [extra]) == [["throughput"]] * 5


def test_too_many_mixes_are_spread_evenly() -> None:
    mixes = [mix(str(number), group("throughput", 2)) for number in range(15)]
    kept = [number for number, kinds in enumerate(shown(mixes)) if kinds]
    assert kept == [0, 2, 4, 6, 8, 10, 12, 14]
    assert 2 * len(kept) == MOST


def test_one_mix_stays_however_many_figures_it_has() -> None:
    mixes = [mix("large", group("throughput", 3 * MOST)), mix("next", group("throughput", 1))]
    blocks, _, _ = main_figures(mixes, [], [])
    assert [count(block.groups) for block in blocks] == [3 * MOST, 0]


def test_of_a_cluster_the_mixes_of_all_clients_are_shown() -> None:
    mixes = [mix(str(n), group("throughput", 2), clients=n) for n in (1, 3, 6)]
    assert shown(mixes) == [[], [], ["throughput"]]
