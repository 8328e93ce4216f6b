"""Latencies of several families in one brief: each family has its own unit."""

from __future__ import annotations

import pytest

from integration.brief.brief_fixture import build_store
from integration.checkpoint.checkpoint_fixture import build_checkpoint_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.brief.tables import run_tables, scales_of


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    place = tmp_path_factory.mktemp("families")
    block = build_store(place / "block", repeats=2, mixes=(30,), states=(100.0, 100.0))
    checkpoint = build_checkpoint_store(place / "checkpoint")
    return compare(load_dataset([block, checkpoint]))


def means(comparison: Comparison, kind: str, key: str) -> list[float]:
    cells = [
        cell
        for section in comparison.kinds[kind]
        for point in section.points
        for cell in comparison.row(point).cells.values()
    ]
    return [cell.values[key].estimate for cell in cells if key in cell.values]


def test_each_family_has_the_unit_that_its_latencies_need(both: Comparison) -> None:
    column = both.column("latency_mean_ns.write")
    assert column is not None
    scales = scales_of(both)
    units = {kind: scale.of(column)[0] for kind, scale in scales.items()}
    assert units["block"] != units["checkpoint"]
    for kind, scale in scales.items():
        smallest = min(means(both, kind, column.key))
        assert 0.1 <= smallest / scale.of(column)[1] < 1000


def test_no_latency_of_a_run_is_printed_as_a_fraction_of_its_unit(both: Comparison) -> None:
    hrefs = dict.fromkeys((id(store) for store in both.dataset.stores), "")
    for table in run_tables(both, scales_of(both), hrefs):
        places = [i for i, (_, unit) in enumerate(table.columns) if unit in ("ns", "µs", "ms", "s")]
        for row in (run for point in table.points for run in point.runs):
            shown = [row.values[i].split()[0] for i in places]
            assert not [text for text in shown if text.startswith("0.00")]
