"""Families' declarations of figures, pieces and findings refer to existing names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from storlab.analysis.columns import columns_of
from storlab.brief.family_additions import FamilyAdditions
from storlab.contracts.figure import Bars, Drawn, FigureKind, OverSweep, WorkerBars
from storlab.contracts.hook import load
from storlab.contracts.registry import FAMILIES
from storlab.figures.campaign import EVERY as CAMPAIGN

EVERY = [(name, kind) for name, family in FAMILIES.items() for kind in family.figures]


@pytest.mark.parametrize(("family", "kind"), EVERY, ids=lambda v: getattr(v, "name", v))
def test_a_figure_is_of_quantities_that_its_family_has(family: str, kind: FigureKind) -> None:
    page = FAMILIES[family].page
    columns = {column.key for column in columns_of(page)}
    assert bool(kind.parts) != bool(kind.place)
    assert kind.scope != "campaign"
    for part in kind.parts:
        match part:
            case Bars():
                assert set(part.keys.values()) <= columns
                assert part.ratio in {"", *part.keys.values()}
            case OverSweep():
                assert set(part.keys) <= columns
                assert all(callable(load(hook)) for hook in (part.rings, part.title) if hook)
            case WorkerBars():
                assert part.pieces in {piece.kind for piece in page.work_items}
            case Drawn():
                assert callable(load(part.place))
    if kind.place:
        assert callable(load(kind.place))


def test_names_of_figures_are_their_own() -> None:
    kinds = {kind.name: kind for _, kind in EVERY} | {kind.name: kind for kind in CAMPAIGN}
    assert all(kinds[kind.name] is kind for _, kind in EVERY)
    places = [k.place for k in CAMPAIGN if k.place]
    places += [p.place for k in CAMPAIGN for p in k.parts if isinstance(p, Drawn)]
    assert all(callable(load(place)) for place in places)
    assert all(bool(kind.place) != bool(kind.parts) for kind in CAMPAIGN)
    assert all(kind.scope == "campaign" and kinds[kind.name] is kind for kind in CAMPAIGN)


@pytest.mark.parametrize("family", FAMILIES)
def test_parts_of_a_figure_have_files_of_their_own(family: str) -> None:
    for kind in FAMILIES[family].figures:
        for when in ("swept", "single"):
            drawn = [part for part in kind.parts if part.when in ("always", when)]
            names = [getattr(part, "name", "") or kind.name for part in drawn if part_named(part)]
            assert len(set(names)) == len(names)


def part_named(part: object) -> bool:
    return not isinstance(part, Drawn)


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_rest_on_metrics_and_what_a_brief_adds_can_be_loaded(family: str) -> None:
    page = FAMILIES[family].page
    metrics = {column.name for column in columns_of(page)}
    for piece in page.work_items:
        assert {column.flagged for column in piece.columns} - {""} <= metrics
    assert set(page.metrics.run_line) <= {quantity.key for quantity in page.metrics.quantities}
    assert not page.audit or callable(load(page.audit))
    if page.additions:
        assert issubclass(load(page.additions), FamilyAdditions)
    of_all = {"", "latency", "intended_latency"}
    assert {time.name for time in page.metrics.times} >= {
        q.time for q in page.metrics.quantities
    } - of_all


def test_a_family_is_known_without_what_draws_and_writes() -> None:
    program = (
        "import sys; from storlab.contracts.registry import FAMILIES; "
        "[family.figures for family in FAMILIES.values()]; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "storlab.workloads.common.figure_kinds" in loaded
    assert not loaded & {"altair", "storlab.figures", "storlab.brief", "storlab.analysis"}
