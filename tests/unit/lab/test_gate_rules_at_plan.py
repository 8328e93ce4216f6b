"""``plan`` and ``run`` refuse ``[[gate]]`` tables that no result of the study could match."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from support.error_documents import STUDY

RULE = '[[gate]]\nmetric = "latency_p99"\nat_most = "2ms"\n'


def planned(tmp_path: Path, rule: str) -> int:
    study = tmp_path / "study.toml"
    study.write_text(STUDY + rule)
    return main(["plan", str(study)])


@pytest.mark.parametrize(
    "rule",
    [
        RULE,
        RULE.replace("latency_p99", "efficiency_mb_s_w").replace('"2ms"', "5"),
        RULE.replace("2ms", "1.1 x baseline"),
        RULE + 'target = "n"\nat = { jobs = 1 }\n',
    ],
)
def test_rules_that_results_can_match_are_planned(tmp_path: Path, rule: str) -> None:
    assert planned(tmp_path, rule) == ExitCode.OK


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (RULE.replace("latency_p99", "latency_q99"), "metric"),
        (RULE.replace("2ms", "2MB/s"), "at_most"),
        (RULE + 'target = "m"\n', "target"),
        (RULE + 'workload = "other"\n', "workload"),
        (RULE + "at = { jobs = 2 }\n", "at"),
        (RULE + 'at_least = "3ms"\n', "at_least"),
        (RULE.replace("2ms", "1 x baseline") + 'at_least = "2 x baseline"\n', "at_least"),
    ],
)
def test_rules_that_match_nothing_are_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str, field: str
) -> None:
    assert planned(tmp_path, rule) == ExitCode.STUDY
    assert f"study.toml: [[gate]] 1: {field}:" in capsys.readouterr().err
