"""``storlab compare`` of a study whose workloads do not all run on every target."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.brief.proofs import TITLE
from storlab.cli.main import main

STUDY = """
[study]
name = "not everything everywhere"
repeats = 2
ramp = 0
runtime = "500ms"  # longer than a busy machine, or one with a quota, keeps a worker waiting
interval = "50ms"
baseline = "first"

[[target]]
name = "first"
path = "null:"

[[target]]
name = "second"
path = "null:"

[[target]]
name = "third, with a name that is longer than others"
path = "null:"

[[workload]]
kind = "block"
name = "on two, and called something that no terminal has room for in one line"
targets = ["first", "second"]

[[workload]]
kind = "block"
name = "on the third"
targets = ["third, with a name that is longer than others"]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("compare")
    (directory / "study.toml").write_text(STUDY)
    out = directory / "out"
    assert main(["run", str(directory / "study.toml"), "--out", str(out), "--no-report"]) == 0
    return out


def test_targets_that_were_never_planned_have_no_rows(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capsys.readouterr()
    monkeypatch.setattr("storlab.cli.terminal.out._width", 300)  # wide enough for any numbers
    assert main(["compare", str(results)]) == ExitCode.OK
    printed = capsys.readouterr().out
    assert "not measured" not in printed
    assert "third, with a name" in printed
    ratios = printed[printed.index("Ratio to first") :].partition(TITLE)[0]
    assert "second" in ratios
    assert "third" not in ratios


def test_labels_are_folded_and_numbers_are_not(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capsys.readouterr()
    monkeypatch.setattr("storlab.cli.terminal.out._width", 50)
    assert main(["compare", str(results)]) == ExitCode.OK
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 50


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("hangups_end_programs")
def test_ctrl_c_while_the_brief_is_written_says_how_to_get_it(
    results: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    capsys.readouterr()
    interrupted = lambda _store, **_options: signal.raise_signal(number)  # noqa: E731
    monkeypatch.setattr("storlab.brief.write_brief", interrupted)
    assert main(["resume", str(results)]) == ExitCode.INTERRUPTED
    printed = capsys.readouterr().out
    assert "6 of 6 runs finished" in printed
    assert f"storlab report {results}" in printed
    assert main(["resume", str(results), "--json"]) == ExitCode.INTERRUPTED
    told = json.loads(capsys.readouterr().out)
    assert (told["exit_code"], told["brief"], told["runs"]["missing"]) == (7, None, 0)
