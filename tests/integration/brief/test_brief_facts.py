"""What a brief says of repeats and of published numbers: of the runs, and of the publication."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.brief import facts
from storlab.brief.published import match, printed_wrong, published_section
from storlab.brief.tables import Scale
from storlab.model.published import PublishedTable, read_table

HEADER = "id,config,workload,rw_mix,block_size,op,metric,x_name,x_value,value,unit,kind,printed\n"
MILLION = HEADER + (
    '1,Flash,block,70/30,256KB,read+write,iops,numjobs,8,2300000,IOPS,measured,2.3 million\n'
    '2,Flash,block,70/30,256KB,read+write,iops,numjobs,4,1100000,IOPS,measured,1.1\n'
    '3,Flash,block,70/30,256KB,read+write,throughput,numjobs,8,9000,MB/s,measured,"9,000"\n'
)  # fmt: skip


@pytest.fixture
def few(tmp_path: Path) -> Comparison:
    return compare(load_dataset([build_store(tmp_path / "few", mixes=(70,), repeats=2)]))


def said(comparison: Comparison) -> str:
    store = comparison.dataset.stores[0]
    header = dict(facts.configuration_tables(comparison, store)[0].rows)["Repeats of every point"]
    words = dict(facts.method(comparison))["Intervals"]
    return f"{header}; {words.partition(' with ')[0]}"


def test_repeats_are_those_of_the_cells(few: Comparison) -> None:
    assert said(few) == "2; Means of 2\u00a0repeats"
    assert any("fewer than three" in text for text in facts.caveats(few, few.dataset.stores[0]))
    for row in few.rows.values():  # as crosscheck and capacity do, whatever the study says
        for cell in row.cells.values():
            cell.planned = 6
    assert few.dataset.stores[0].study.study.repeats == 2
    assert said(few) == "6; Means of 6\u00a0repeats"
    assert not any("fewer than three" in text for text in facts.caveats(few, few.dataset.stores[0]))


def test_points_with_unequal_repeats_say_so(few: Comparison) -> None:
    next(iter(few.rows.values())).cells["Disk"].planned = 1
    assert said(few) == "1 to 2; Means of 1 to 2\u00a0repeats"


def published(tmp_path: Path, comparison: Comparison) -> list[PublishedTable]:
    path = tmp_path / "published.csv"
    path.write_text(MILLION)
    tables = [read_table(path)]
    comparison.published = match(comparison, tables)
    return tables


def test_a_number_printed_in_millions_is_no_number_of_ones(few: Comparison, tmp_path: Path) -> None:
    tables = published(tmp_path, few)
    section = published_section(few, tables, [], Scale(few))
    assert section is not None
    cells = [n.text for t in section.tables for row in t.rows if row.chip for n in row.numbers]
    assert cells == ["–", "1,100,000", "9,000", "2,300,000"]
    assert printed_wrong(few) == []


def test_the_audit_stops_a_published_number_that_is_off(few: Comparison, tmp_path: Path) -> None:
    published(tmp_path, few)
    few.published = [replace(cell, printed="2.3") for cell in few.published[:1]]
    (found,) = printed_wrong(few)
    assert found.severity == "error"
    assert (found.printed, found.recomputed) == ("2.3 1/s (Flash (published))", "2.3e+06")
