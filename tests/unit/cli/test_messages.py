"""Errors name the path or value as the user wrote it, and their fix works."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
import typer

from storlab.base.errors import ExitCode
from storlab.cli.campaign import conclude
from storlab.cli.main import app, main, verbs
from storlab.lab.run.campaign import Summary
from storlab.model.result import Failure, RunRecord
from storlab.process import cgroups
from storlab.results.store import ResultStore
from storlab.stores import devices
from storlab.stores.devices import Device
from storlab.stores.medium import Medium
from support.error_documents import STUDY, Error
from support.large_campaign import large_campaign

SOURCES = Path(__file__).parents[3] / "python" / "storlab"
FAILURE = Failure(message="no room on the target", fix="free 3 GiB there")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a result directory in which all repeats after the first have failed."""

    def fail(record: RunRecord) -> RunRecord:
        changes = {"status": "failed", "failure": FAILURE}
        return record.model_copy(update=changes) if record.repeat > 1 else record

    place = tmp_path_factory.mktemp("messages") / "r"
    large_campaign(place, runs=8, repeats=2, draw=random.Random(1), change=fail)
    return place


READERS = (
    ["status"],
    ["compare"],
    ["report", "--no-pdf"],
    ["export"],
    ["gate"],
    ["verify"],
    ["resume"],
    ["clean"],
    ["history", "--out", "site"],
)


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_a_path_that_is_no_directory_is_called_what_it_is(
    words: list[str], error: Error, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    for name, kind in {
        "missing": "does not exist",
        "file": "is a file",
        "pipe": "is a pipe",
        "file/below": "does not exist",
        "empty": "result.json",
    }.items():
        found = error(words[0], tmp_path / name, *words[1:], code=ExitCode.RESULT)
        assert (found["where"], kind in found["what"]) == (str(tmp_path / name), True), found
        assert "storlab run" in found["fix"]
    found = error(words[0], tmp_path / "dangling", *words[1:], code=ExitCode.RESULT)
    assert "does not exist" in found["what"]
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("verb", ["run", "crosscheck"])
def test_a_campaign_is_resumed_only_where_there_is_one(
    verb: str, study: Path, made: Path, error: Error, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").touch()
    for place, kind in {study: "is a file", tmp_path / "full": "not empty"}.items():
        found = error(verb, study, "--out", place, code=ExitCode.RESULT)
        assert (found["where"], kind in found["what"]) == (str(place), True)
        assert "resume" not in found["fix"]
    found = error(verb, study, "--out", made, code=ExitCode.RESULT)
    assert f"storlab resume {made}" in found["fix"]


def writers(made: Path, path: str) -> list[list[str]]:
    """Return commands of every verb that writes a file or site to a user's path."""
    return [
        ["report", str(made), "--no-pdf", "--out", f"{path}.html"],
        ["export", str(made), "--output", f"{path}.csv"],
        ["history", str(made), "--out", path],
        ["init", f"{path}.toml"],
        ["schema", "--output", f"{path}.json"],
    ]


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_an_output_that_cannot_be_made_says_what_is_wrong_with_its_path(
    place: int, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    # The kernel's own files, and a file instead of a folder.
    for folder in ("/proc", str(tmp_path / "file")):
        words = writers(made, f"{folder}/storlab-b")[place]
        assert main(words) == ExitCode.USAGE, words
        told = capsys.readouterr().err
        what, fix = told.split("fix: ")
        assert f"{folder}/storlab-b" in what
        assert ".tmp" not in what
        assert folder in fix
        assert "--out" not in fix
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_missing_folders_of_an_output_are_made_as_the_help_says(
    place: int, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = writers(made, str(tmp_path / "new" / "folder" / "b"))[place]
    assert main(words) == ExitCode.OK
    assert list((tmp_path / "new" / "folder").iterdir())
    capsys.readouterr()
    assert main([words[0], "--help"]) == ExitCode.OK
    assert "Missing folders are made." in " ".join(capsys.readouterr().out.split())


def test_a_site_does_not_replace_a_file(made: Path, error: Error, tmp_path: Path) -> None:
    (tmp_path / "site").write_text("mine")
    found = error("history", made, "--out", tmp_path / "site", code=ExitCode.USAGE)
    assert f"{tmp_path}/site is a file" in found["what"]
    assert (tmp_path / "site").read_text() == "mine"


@pytest.mark.parametrize("verb", ["status", "compare"])
def test_failed_runs_are_shown_with_their_fix_once(
    verb: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, str(made)]) == ExitCode.OK
    printed = capsys.readouterr().out
    failed = sum(record.status == "failed" for record in ResultStore.open(made).records())
    assert failed > 1
    assert printed.count(FAILURE.message) == failed
    assert printed.count(FAILURE.fix) == 1


def test_a_session_ends_with_the_fix_of_what_failed(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ResultStore.open(made)
    with pytest.raises(typer.Exit) as ended:
        conclude(store, Summary(made, 8), as_json=False, report=False)
    assert ended.value.exit_code == ExitCode.RUN_FAILED
    assert capsys.readouterr().err.count(FAILURE.fix) == 1


def test_audit_of_a_study_names_what_audit_takes(study: Path, error: Error) -> None:
    found = error("audit", study, code=ExitCode.USAGE)
    assert (found["where"], "is a study" in found["what"]) == (str(study), True)
    assert "result directory" in found["fix"]
    assert "CSV" in found["fix"]


def test_the_plan_names_limits_of_control_groups(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group, block = tmp_path / "job", tmp_path / "sys" / "vda"
    group.mkdir()
    block.mkdir(parents=True)
    (tmp_path / "block").mkdir()
    (tmp_path / "block" / "254:0").symlink_to(block)
    medium = Medium(devices=(Device(os.makedev(254, 0)),))
    monkeypatch.setattr(devices, "_SYS_BLOCK", tmp_path / "block")
    monkeypatch.setattr("storlab.lab.preflight.limits.medium_of", lambda _: medium)
    monkeypatch.setattr(cgroups, "groups_of", lambda *_: [group])
    text = STUDY.replace('"null:"', f'"{tmp_path}/data"\nsize = "4MiB"')
    study.write_text(text)
    assert main(["plan", str(study)]) == ExitCode.OK
    assert str(group) not in capsys.readouterr().out  # without a limit
    (group / "memory.max").write_text("419430400\n")
    (group / "cpu.max").write_text("1000 100000\n")
    (group / "io.max").write_text("254:0 rbps=4000000 wbps=max riops=max wiops=1000\n")
    assert main(["plan", str(study)]) == ExitCode.OK
    printed = capsys.readouterr().out
    limits = [line for line in printed.splitlines() if str(group) in line]
    assert len(limits) == 4
    assert any("0.01 of" in line for line in limits)
    assert any("419 MB" in line for line in limits)
    assert any("reads of vda (254:0) to 4 MB/s" in line for line in limits)
    assert any("writes of vda (254:0) to 1,000 operations/s" in line for line in limits)


def test_commands_that_messages_advise_exist() -> None:
    """Check that commands in messages and all of their options exist."""
    quoted = re.compile(r"(?<!`)`storlab ([a-z]+)([^`]*)`(?!`)")
    group = typer.main.get_command(app)
    found = 0
    for path in SOURCES.rglob("*.py"):
        for verb, rest in quoted.findall(re.sub(r'"\s+f?"', "", path.read_text())):
            assert verb in verbs(), f"{path}: {verb}"
            command = group.get_command(None, verb)  # type: ignore[attr-defined, arg-type]
            known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
            for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest):
                assert option in known | {"--help"}, f"{path}: storlab {verb} {option}"
            found += 1
    assert found > 30
