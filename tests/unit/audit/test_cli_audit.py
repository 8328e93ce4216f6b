"""Output of ``storlab audit`` and ``storlab published``, as text and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from storlab.audit import RULES, from_claims, from_results
from storlab.base.errors import ExitCode
from storlab.brief import published
from storlab.brief.audit_input import directory_rules
from storlab.cli.main import main
from storlab.model.published import COLUMNS, published_names

HEAD = "id,config,metric,value,unit,kind,compare_config\n"
GOOD = HEAD + "1,A,power_efficiency,150.5,MB/s/W,measured,\n2,A,TB/kWh,541.7,TB/kWh,measured,\n"
BAD = GOOD.replace("541.7", "521.9") + "3,A,slower_iops,135,%,ratio_claim,B\n"


def _table(directory: Path, text: str) -> str:
    path = directory / "t.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("results/nowhere", "give a result directory, a CSV file or a shipped table: micron-"),
        ("absent.csv", "give a result directory, a CSV file or a shipped table: micron-"),
        (f"{published_names()[0]}x", f'did you mean "{published_names()[0]}"?'),
    ],
)
def test_what_is_not_there_is_said_to_be(
    path: str, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", path]) == ExitCode.RESULT
    told = capsys.readouterr().err
    assert f"{path}: does not exist" in told
    assert fix in told


WIDE = "config,workload,rw_mix,block_size,op,metric,value,unit,kind,compare_config,printed\n"
TTFB = "HDD,warp,90/10,4MiB,GET,ttfb,289,ms,measured,,289\n"
RATIO = "SSD,,,,,ttfb_ratio_max,96,x,ratio_claim,HDD,96x\n"
NODES = "A,,,,,drives_per_node,8,count,config,,8\nA,,,,,drive_capacity,30.72,TB,config,,30.72\n"


@pytest.mark.parametrize(
    "rows",
    [
        f"SSD,warp,90/10,4MiB,GET,ttfb,1,ms,measured,,~1\n{TTFB}{RATIO}",
        f"SSD,warp,90/10,4MiB,GET,ttfb,0,ms,measured,,0\n{TTFB}{RATIO}",
        f"A,,,,,storage_per_node,0,TB,config,,~0\n{NODES}",
        f"A,,,,,storage_per_node,-245,TB,config,,-245\n{NODES}",
        "HDD array,,,,,drive_count,0,count,config,,0\n"
        "HDD array,seq,100/0,1MB,read,throughput,240,MB/s,measured,,240\n",
    ],
)
def test_what_is_about_nothing_or_less_is_audited_too(rows: str, tmp_path: Path) -> None:
    path = _table(tmp_path, WIDE + rows)
    assert main(["audit", path, "--json"]) in (ExitCode.OK, ExitCode.DISAGREE)


def test_errors_give_exit_code_10_and_all_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["audit", _table(tmp_path, BAD), "--json", "--severity", "error"])
    assert code == ExitCode.DISAGREE == 10
    report = json.loads(capsys.readouterr().out)
    found = {f["rule"]: f for f in report["findings"]}
    assert set(found) == {"identities", "percent_language"}
    assert found["identities"]["rows"] == ["2", "1"]
    assert set(found["identities"]) == {
        *("rule", "severity", "rows", "printed", "recomputed", "why")
    }
    assert report["counts"]["error"] == 2


def test_no_errors_give_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", _table(tmp_path, GOOD), "--rule", "identities"]) == ExitCode.OK
    assert "2 rows" in capsys.readouterr().out


def test_the_exit_code_is_that_of_all_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _table(tmp_path, BAD)
    assert main(["audit", path, "--rule", "totals", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert main(["audit", path, "--rule", "identities"]) == ExitCode.DISAGREE
    text = capsys.readouterr().out
    assert "521.9 TB/kWh" in text
    assert "1 error, 0 warnings, 0 notes" in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["audit", "none.csv"], ExitCode.RESULT, "none.csv"),
        (["audit", "micron-6600-ion-vs-16-hdd"], ExitCode.RESULT, "did you mean"),
        (["audit", "t.csv", "--rule", "totls"], ExitCode.USAGE, 'did you mean "totals"'),
        (["audit", "t.csv", "--severity", "eror"], ExitCode.USAGE, 'did you mean "error"'),
        (["published", "shwo"], ExitCode.USAGE, 'did you mean "show"'),
        (["published", "show"], ExitCode.USAGE, "name of a table is missing"),
        (["published", "show", "nothing"], ExitCode.RESULT, "ships with storlab"),
    ],
)
def test_wrong_calls_say_what_to_do(
    arguments: list[str], code: ExitCode, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rule", "meant"),
    [("totls", "totals"), ("failed_run", "failed_runs"), ("own_clam", "own_claim")],
)
def test_a_directory_has_no_rule_of_that_name_either(
    rule: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(tmp_path), "--rule", rule]) == ExitCode.USAGE
    assert f'did you mean "{meant}"' in capsys.readouterr().err
    # The message names the right kind of directory.
    assert main(["audit", str(tmp_path), "--rule", meant]) == ExitCode.RESULT


def test_every_finding_of_a_directory_has_a_rule_that_can_be_named() -> None:
    for module in (from_results, from_claims, published):
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        assert set(re.findall(r'(?:rule=|^RULE = )"(\w+)"', source, re.M)) <= set(directory_rules())
    assert {"client_bound", "outputs_differ", *RULES} <= set(directory_rules())


def test_shipped_tables_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["published", "list"]) == ExitCode.OK
    text = capsys.readouterr().out
    names = published_names()
    assert len(names) >= 5
    assert all(name in text for name in names)
    assert main(["published"]) == ExitCode.OK
    assert capsys.readouterr().out == text
    assert main(["published", "list", "--json"]) == ExitCode.OK
    listed = json.loads(capsys.readouterr().out)["tables"]
    assert [t["name"] for t in listed] == names
    assert main(["published", "show", names[0], "--json"]) == ExitCode.OK
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == next(t["rows"] for t in listed if t["name"] == names[0])
    assert set(rows[0]) == set(COLUMNS)
    assert main(["published", "show", names[0]]) == ExitCode.OK
    assert rows[0]["printed"] in capsys.readouterr().out
