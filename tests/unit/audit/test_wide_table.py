"""Wide tables: what their columns are taken for, and which are not audited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlab.audit.wide_table import WideColumn, is_wide, read_wide_table
from storlab.base.errors import ExitCode, ResultError, UsageError
from storlab.cli.main import main
from storlab.model.published import Row

WIDE = """\
Device,Workload,QD,Read IOPS,BW (MB/s),p99 (us),Power [W],MB/s/W,Notes
SSD A,4K random read,32,"1,000,000",4096,95,20,204.8,new
SSD B,4K random read,32,800k,3277,~120.5,18,182.1,
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path: Path, text: str, *assigned: str) -> tuple[dict[str, Row], dict[str, WideColumn]]:
    table, columns = read_wide_table(written(tmp_path, text), assigned)
    return {row.id: row for row in table.rows}, {column.column: column for column in columns}


def test_columns_and_cells(tmp_path: Path) -> None:
    rows, columns = read(tmp_path, WIDE)
    meanings = {name: column.meaning for name, column in columns.items()}
    assert (meanings["Device"], meanings["Workload"], meanings["QD"]) == ("config", "workload", "x")
    assert columns["BW (MB/s)"].unit == "MB/s"
    assert meanings["p99 (us)"] == "latency_p99"
    assert meanings["Notes"] == ""
    assert columns["Notes"].option == "--column 'Notes=config'"
    iops = rows["3:Read IOPS"]
    assert (iops.config, iops.value, iops.op, iops.block_size) == ("SSD B", 800e3, "read", "4K")
    assert (iops.x_name, iops.x_value) == ("QD", "32")
    late = rows["3:p99 (us)"]
    assert (late.value, late.unit, late.qualifier, late.kind) == (120.5, "us", "approx", "measured")
    assert len(rows) == 10


def test_wrong_numbers_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, WIDE)
    assert main(["audit", str(path), "--severity", "error"]) == ExitCode.OK
    assert "column Power [W]: Power, W" in capsys.readouterr().out
    path = written(tmp_path, WIDE.replace("204.8", "150.5").replace("3277", "2000"))
    assert main(["audit", str(path), "--json", "--severity", "error"]) == ExitCode.DISAGREE
    document = json.loads(capsys.readouterr().out)
    rows = {row for finding in document["findings"] for row in finding["rows"]}
    assert {"2:MB/s/W", "2:BW (MB/s)", "2:Power [W]", "3:BW (MB/s)", "3:Read IOPS"} <= rows
    taken = {column["column"]: column["meaning"] for column in document["columns"]}
    assert taken["p99 (us)"] == "latency_p99"


@pytest.mark.parametrize(
    ("header", "cells", "option"),
    [
        ("p99", "95", "p99=latency_p99 us"),
        ("Throughput", "4096", "Throughput=throughput MB/s"),
        ("Latency", "95", "Latency=latency us"),
        ("Power", "20", "Power=power W"),
        ("Colour", "7", "Colour=throughput MB/s"),
        ("Remarks", "fast", "Remarks=config"),
        ("IOPS increase", "20 %", "IOPS increase=ignore"),
    ],
)
def test_an_open_column_is_named_with_its_option(
    tmp_path: Path, header: str, cells: str, option: str
) -> None:
    text = f"Device,IOPS,{header}\nA,1000,{cells}\n"
    rows, columns = read(tmp_path, text)
    assert set(rows) == {"2:IOPS"}
    assert columns[header].problem
    assert columns[header].option == f"--column '{option}'"
    read(tmp_path, text, option)  # the option can be given as it is printed


def test_an_option_settles_a_column(tmp_path: Path) -> None:
    text = "Device,p99,Comment\nA,95,x\n"
    rows, columns = read(tmp_path, text, "p99=latency_p99 µs", "Comment=ignore")
    assert (rows["2:p99"].metric, rows["2:p99"].unit) == ("latency_p99", "us")
    assert columns["Comment"] == WideColumn("Comment", "ignore")


def test_units_in_cells_and_cells_without_a_number(tmp_path: Path) -> None:
    text = "drive;Throughput;IOPS\nA;1.2 GB/s;-\nB;900 MB/s;TBD\nC;>1 GB/s;1,000\nD;1 GB/s;2000\n"
    rows, columns = read(tmp_path, text)
    assert (rows["2:Throughput"].value, rows["2:Throughput"].unit) == (1.2, "GB/s")
    assert (rows["3:Throughput"].value, rows["3:Throughput"].unit) == (900, "MB/s")
    assert rows["4:Throughput"].qualifier == "more_than"
    assert "3:IOPS" not in rows
    assert 'line 3: "TBD"' in columns["IOPS"].problem


def test_the_swept_parameter_is_the_one_with_most_values(tmp_path: Path) -> None:
    text = "Device,Jobs,QD,IOPS\nA,4,1,1000\nA,4,2,2000\n"
    rows, columns = read(tmp_path, text)
    assert (columns["QD"].meaning, columns["Jobs"].meaning) == ("x", "workload")
    assert (rows["3:IOPS"].x_value, rows["3:IOPS"].workload) == ("2", "Jobs 4")


def test_the_configuration_column(tmp_path: Path) -> None:
    _, columns = read(tmp_path, "Candidate,IOPS\nA,1000\n")
    assert columns["Candidate"].meaning == "config"
    with pytest.raises(UsageError) as caught:
        read(tmp_path, "Candidate,Colour,IOPS\nA,red,1000\n")
    assert "'Candidate=config'" in str(caught.value)
    assert "'Colour=config'" in str(caught.value)


@pytest.mark.parametrize(
    "assigned", ["p99", "p98=latency_p98 us", "p99=warmth", "p99=latency_p99 parsecs", "p99="]
)
def test_wrong_options_are_refused(tmp_path: Path, assigned: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, "Device,IOPS,p99\nA,1,95\n", assigned)
    assert caught.value.where == "--column"


def test_a_table_without_a_known_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, "Device,p99\nA,95\n")
    assert "--column 'p99=latency_p99 us'" in str(caught.value)


@pytest.mark.parametrize("text", ["Device,IOPS\nA\n", "Device,IOPS,IOPS\nA,1,2\n"])
def test_malformed_tables_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ResultError):
        read(tmp_path, text)


def test_long_tables_are_not_wide(tmp_path: Path) -> None:
    text = "config,metric,value\nA,iops,1\n"
    path = written(tmp_path, text)
    assert not is_wide(path)
    assert is_wide(written(tmp_path, WIDE))
    written(tmp_path, text)
    assert main(["audit", str(path), "--column", "metric=config"]) == ExitCode.USAGE
