"""``storlab report`` and ``compare`` read results under other settings than those of the study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.brief.power_fixture import build_power_store
from storlab.analysis.compare import compare
from storlab.analysis.verdict import verdicts
from storlab.base.errors import ExitCode, UsageError
from storlab.brief.settings import Settings, load_with
from storlab.cli.main import main
from storlab.results.store import ResultStore
from storlab.words import caveats

SSD, HDD = "1x SSD", "16x HDD"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("settings") / "run"
    return build_power_store(
        place, {SSD: "device", HDD: "wall"}, repeats=2, mixes=(30, 70)
    ).directory


def reread(directory: Path, **settings: Any) -> tuple[Any, list[str]]:
    data, changes = load_with([ResultStore.open(directory)], Settings(**settings))
    return compare(data), changes


def test_without_other_settings_nothing_changes(directory: Path) -> None:
    found, changes = reread(directory)
    assert changes == []
    assert found.baseline == HDD
    _, changes = reread(directory, baseline=HDD, accept_unequal_boundaries=False)
    assert changes == []


def test_refused_power_is_compared_once_the_boundaries_are_accepted(directory: Path) -> None:
    refused, changes = reread(directory, questions=["efficiency"])
    assert [verdict.kind for verdict in verdicts(refused)] == ["refused"]
    assert len(changes) == 1
    accepted, changes = reread(
        directory, questions=["efficiency"], accept_unequal_boundaries=True, baseline=SSD
    )
    (verdict,) = verdicts(accepted)
    assert (verdict.kind, accepted.baseline, len(changes)) == ("winner", SSD, 3)
    assert verdict.caveat is not None and verdict.caveat.kind == "unequal boundaries"


def test_questions_are_compared_with_those_of_all_studies(directory: Path, tmp_path: Path) -> None:
    sides = {SSD: "device", HDD: "wall"}
    more = build_power_store(tmp_path / "more", sides, repeats=2, mixes=(30, 70))
    stores = [ResultStore.open(directory), ResultStore.open(more.directory)]
    for store, asked in zip(stores, ("efficiency", "throughput"), strict=True):
        header = store.study.study.model_copy(update={"question": [asked]})
        store.study = store.study.model_copy(update={"study": header})
    _, changes = load_with(stores, Settings(questions=["efficiency"]))
    assert changes == [caveats.other_questions(["efficiency"], ["efficiency", "throughput"])]
    assert all(store.study.study.question == ["efficiency"] for store in stores)


def test_only_the_selected_points_are_read(directory: Path) -> None:
    every, _ = reread(directory)
    found, changes = reread(directory, points=["read_percent=30,jobs=1"])
    assert 0 < len(found.rows) < len(every.rows)
    params = [row.point.params for row in found.rows.values()]
    assert {(p["read_percent"], p["jobs"]) for p in params} == {(30, 1)}
    assert len(changes) == 1


@pytest.mark.parametrize(
    "settings",
    [{"questions": ["speed"]}, {"baseline": "tape"}, {"points": ["jobs=77"]}],
)
def test_unknown_settings_are_refused(settings: dict[str, Any], directory: Path) -> None:
    with pytest.raises(UsageError):
        reread(directory, **settings)


def test_the_brief_names_the_settings_that_were_changed(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "brief.html"
    command = ["report", str(directory), "--out", str(out), "--no-pdf", "--json"]
    command += ["--question", "efficiency", "--accept-unequal-boundaries", "--baseline", SSD]
    assert main(command) == ExitCode.OK
    document = json.loads(capsys.readouterr().out)
    assert len(document["changed_settings"]) == 3
    assert [verdict["kind"] for verdict in document["verdicts"]] == ["winner"]
    page = out.read_text()
    assert all(change in page for change in document["changed_settings"])
    unchanged = json.loads((directory / "plan.json").read_text())
    assert unchanged["study_name"]
    assert ResultStore.open(directory).study.study.question == []


def test_compare_takes_the_settings_of_report(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", str(directory), "--json", "--question", "efficiency"]
    assert main(command) == ExitCode.OK
    refused = json.loads(capsys.readouterr().out)
    assert [verdict["kind"] for verdict in refused["verdicts"]] == ["refused"]
    assert main([*command, "--accept-unequal-boundaries", "--baseline", SSD]) == ExitCode.OK
    accepted = json.loads(capsys.readouterr().out)
    assert [verdict["kind"] for verdict in accepted["verdicts"]] == ["winner"]
    assert (accepted["baseline"], len(accepted["changed_settings"])) == (SSD, 3)


def test_compare_prints_the_answer_alone(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that --answer prints the study, the answer and the brief, and no table."""
    assert main(["compare", str(directory)]) == ExitCode.OK
    whole = capsys.readouterr().out
    brief = directory / "brief.html"
    for briefs in ([], [f"brief: {brief}"]):
        assert main(["compare", str(directory), "--answer"]) == ExitCode.OK
        name, *answer = capsys.readouterr().out.splitlines()
        assert name == ResultStore.open(directory).study.study.name
        assert answer[len(answer) - len(briefs) :] == briefs
        sentences = "\n".join(answer[: len(answer) - len(briefs)])
        assert sentences and whole.rstrip().endswith(sentences)
        brief.touch()


@pytest.mark.parametrize("option", ["--json", "--all", "--metric=iops", "--top=3"])
def test_options_that_the_answer_would_ignore_are_refused(
    directory: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["compare", str(directory), "--answer", option]) == ExitCode.USAGE
    assert "--answer" in "".join(capsys.readouterr())  # with --json the error is a document
