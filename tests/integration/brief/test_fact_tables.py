"""Statements of a brief on repeats and published numbers match runs and publication."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import USE_CASES, build_store
from integration.brief.kinds import draw
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.base.errors import ResultError
from storlab.brief import fact_tables
from storlab.brief.caveats import caveats
from storlab.brief.published import match, printed_wrong, published_section
from storlab.brief.tables import scales_of
from storlab.figures import published_bars
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


def repeats_text(comparison: Comparison) -> str:
    header = dict(fact_tables.configuration_tables(comparison)[0].rows)["Repeats of every point"]
    words = dict(fact_tables.method(comparison))["Intervals"]
    return f"{header}; {words.partition(' with ')[0]}"


def test_repeats_are_those_of_the_cells(few: Comparison) -> None:
    assert repeats_text(few) == "2; Means of 2\u00a0repeats"
    assert any("fewer than three" in text for text in caveats(few))
    for row in few.rows.values():  # as crosscheck and capacity do, whatever the study asks for
        for cell in row.cells.values():
            cell.planned = 6
    assert few.dataset.stores[0].study.study.repeats == 2
    assert repeats_text(few) == "6; Means of 6\u00a0repeats"
    assert not any("fewer than three" in text for text in caveats(few))


def test_points_with_unequal_repeats_say_so(few: Comparison) -> None:
    next(iter(few.rows.values())).cells["Disk"].planned = 1
    assert repeats_text(few) == "1 to 2; Means of 1 to 2\u00a0repeats"


def published(tmp_path: Path, comparison: Comparison) -> list[PublishedTable]:
    path = tmp_path / "published.csv"
    path.write_text(MILLION)
    tables = [read_table(path)]
    comparison.published = match(comparison, tables)
    return tables


def test_a_number_printed_in_millions_is_no_number_of_ones(few: Comparison, tmp_path: Path) -> None:
    tables = published(tmp_path, few)
    section = published_section(few, tables, [], scales_of(few))
    assert section is not None
    cells = [n.text for t in section.tables for row in t.rows if row.chip for n in row.numbers]
    assert cells == ["–", "1,100,000", "9,000", "2,300,000"]
    assert printed_wrong(few) == []


PURE = HEADER + (
    '1,Flash,rand_read,100/0,256KB,read,iops,numjobs,8,2300000,IOPS,measured,2.3 million\n'
    '2,Flash,seq_read,100/0,256KB,read,iops,numjobs,8,9000000,IOPS,measured,9 million\n'
    '3,Flash,rand_read,100/0,256KB,read,throughput,numjobs,"4,8",9000,MB/s,measured,"9,000"\n'
    '4,Flash,rand_read,100/0,256KB,read,throughput,iodepth,max_over_iodepths,9500,MB/s,measured,\n'
    '5,Other,read only,,256KB,read,throughput,numjobs,8,800,MB/s,measured,800\n'
    '6,Other,mixed,,256KB,read,throughput,numjobs,4,700,MB/s,measured,700\n'
    '7,Other,mixed,,256KB,write,throughput,numjobs,4,300,MB/s,measured,300\n'
    '8,Other,only writes,,256KB,write,throughput,numjobs,8,600,MB/s,measured,600\n'
)  # fmt: skip


@pytest.fixture
def reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Comparison, list[PublishedTable]]:
    monkeypatch.setitem(USE_CASES, 100, ())
    found = compare(load_dataset([build_store(tmp_path / "reads", mixes=(100,), repeats=2)]))
    path = tmp_path / "pure.csv"
    path.write_text(PURE)
    about = 'title = "Reads of drives"\npublisher = "Somebody"\ndate = 2025-11-20\n'
    (tmp_path / "pure.toml").write_text(about)
    tables = [read_table(path)]
    found.published = match(found, tables)
    return found, tables


def test_pure_reads_are_matched_by_order_of_offsets_and_operating_point(
    reads: tuple[Comparison, list[PublishedTable]],
) -> None:
    """Check that the published number of a one-operation workload counts as the total."""
    found, _ = reads
    jobs = {point.key: point.params["jobs"] for s in found.sections for point in s.points}
    placed = {(c.rows[0], jobs[c.point_key], c.key, c.at) for c in found.published}
    assert placed == {
        ("1", 8, "iops.all", ""),
        ("3", 4, "throughput_mb_s.all", ""),
        ("3", 8, "throughput_mb_s.all", ""),
        ("5", 8, "throughput_mb_s.all", ""),
    }


def test_the_source_is_named_with_title_and_date(
    reads: tuple[Comparison, list[PublishedTable]],
) -> None:
    found, tables = reads
    section = published_section(found, tables, [], scales_of(found))
    assert section is not None
    assert section.notes[0] == (
        "Source: Somebody, \u201cReads of drives\u201d, 2025-11-20 "
        "(table pure with 8 printed facts)."
    )


def test_a_source_without_a_date_says_so_and_a_wrong_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pure.csv"
    path.write_text(PURE)
    assert read_table(path).about.text == ""
    path.with_suffix(".toml").write_text('title = "T"\n')
    assert read_table(path).about.text == "\u201cT\u201d, date not given"
    path.with_suffix(".toml").write_text('titel = "T"\n')
    with pytest.raises(ResultError, match="titel") as caught:
        read_table(path)
    assert "title" in caught.value.fix


def test_the_operating_point_that_a_publication_names_is_on_the_axis(
    reads: tuple[Comparison, list[PublishedTable]],
) -> None:
    found, _ = reads
    found.published = [
        replace(cell, at="max over iodepths", stated=False) if cell.rows == ("3",) else cell
        for cell in found.published
    ]
    (figure,) = published_bars.draw(found, found.sections)
    places = [row[0] for row in figure.rows if row[1] == "Flash"]
    assert set(places) == {"max over iodepths"}
    assert "8" in {row[0] for row in figure.rows if row[1] == "Other"}


def test_a_drawing_names_the_publication_whose_numbers_it_has(
    reads: tuple[Comparison, list[PublishedTable]],
) -> None:
    found, _ = reads
    for figure in draw("published_bars", found, found.sections):
        assert any(
            line == "Published: Somebody, \u201cReads of drives\u201d, 2025-11-20"
            for line in figure.foot
        )


def test_the_audit_stops_a_published_number_that_is_off(few: Comparison, tmp_path: Path) -> None:
    published(tmp_path, few)
    few.published = [replace(cell, printed="2.3") for cell in few.published[:1]]
    (found,) = printed_wrong(few)
    assert found.severity == "error"
    assert (found.printed, found.recomputed) == ("2.3 1/s (Flash (published))", "2,300,000")
