"""Every fix that a command prints works: each is carried out here, and must not be refused."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.model.result import Failure
from storlab.results.store import ResultStore
from support.fio_output import write_fio_output

STUDY = """\
[study]
name = "null"
repeats = 2
ramp = "0s"
runtime = "50ms"
interval = "10ms"
settle = "0s"
[[target]]
name = "null"
path = "null:"
[[workload]]
kind = "block"
"""
RULES = '[[gate]]\nmetric = "iops"\nat_least = 1\n'
JUDGED = {ExitCode.OK, ExitCode.DISAGREE, ExitCode.INCONCLUSIVE}
"""Exit codes of commands that ran to their end, whatever their verdict."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder, whose name needs quotes, with results of a run and of an import."""
    place = tmp_path_factory.mktemp("printed fixes")
    (place / "study.toml").write_text(STUDY)
    (place / "rules.toml").write_text(RULES)
    run = ["run", place / "study.toml", "--out", place / "run", "--no-report", "--quiet"]
    assert main(list(map(str, run))) == 0
    for name, reads in (("old", 90_000), ("new", 91_000)):
        files = [
            write_fio_output(place / f"{name}-{number}.json", p99_us=100 + number, reads=reads + n)
            for number, n in enumerate((10, 50, 90))
        ]
        given = ["import", *files, "--target", "drive", "--out", place / name]
        assert main(list(map(str, given))) == 0
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = Path(shutil.copytree(made, tmp_path / "a folder"))
    monkeypatch.chdir(copy)
    return copy


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must be refused, and return the fix that it prints."""
    capsys.readouterr()
    assert main([*words, "--json"]) not in JUDGED
    return str(json.loads(capsys.readouterr().out)["error"]["fix"])


def commands(text: str, **words: str) -> list[list[str]]:
    """Return the commands in backticks of a text, with placeholders replaced by words."""
    found = re.findall(r"`storlab ([^`]*)`", text)
    return [[words.get(word, word) for word in shlex.split(command)] for command in found]


def follow(*words: str) -> None:
    """Run a command, which must not be refused."""
    assert main(list(words)) in JUDGED, words


def set_environment(directory: Path, **facts: str) -> None:
    """Write other facts of the machine into a result directory."""
    store = ResultStore.open(directory)
    changed = store.environment | facts
    other = ResultStore.create(
        directory.with_name("made"), store.study_text, store.study, store.plan, changed
    )
    for name in ("environment.json", "result.json"):
        shutil.copy(other.directory / name, directory / name)
    shutil.rmtree(other.directory)


def fail_first_run(directory: Path) -> None:
    """Replace the first run of a result directory by a failed one."""
    store = ResultStore.open(directory)
    record = store.records()[0]
    failed = record.model_copy(
        update={
            "status": "failed", "failure": Failure(message="a test", fix="none"), "metrics": [],
        }
    )  # fmt: skip
    shutil.rmtree(directory / "runs" / record.run_id)
    store.write_run(failed, [], {})


def test_imports_of_one_version_of_a_tool_were_made_under_equal_conditions(place: Path) -> None:
    follow("gate", "new", "--baseline", "old", "--rules", "rules.toml")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"version": "fio-3.38"}, "engines.fio.version"),
        ({"runtime": "20"}, "settings.runtime"),  # the window is 10 s, as that of the others
        ({"size": "2GiB"}, "targets.drive.size"),
    ],
)
def test_conditions_that_imports_state_are_compared(
    place: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], field: str
) -> None:
    file = write_fio_output(place / "other.json", p99_us=100, **change)
    follow("import", str(file), "--target", "drive", "--out", "other")
    judge = ["gate", "new", "--baseline", "other", "--rules", "rules.toml"]
    fix = refused(capsys, *judge)
    assert f"--accept {field}" in fix
    follow(*judge, *re.findall(r"--accept (?:\S+)", fix)[0].split())


def test_all_differences_are_accepted_at_once(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("run", "elsewhere")
    set_environment(place / "elsewhere", kernel="other", host="other", architecture="other")
    judge = ["gate", "run", "--baseline", "elsewhere", "--rules", "rules.toml"]
    fix = refused(capsys, *judge)
    follow(*judge, *shlex.split(fix[fix.index("--accept") :]))


def test_measured_and_imported_results_are_compared_once_accepted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = ["gate", "run", "--baseline", "old", "--rules", "rules.toml"]
    fix = refused(capsys, *judge)
    assert "settings.seed" not in fix  # which no import states
    follow(*judge, *shlex.split(fix[fix.index("--accept") :]))


def test_a_gate_without_rules_takes_a_file_of_rules(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--rules FILE" in refused(capsys, "gate", "run")
    follow("gate", "run", "--rules", "rules.toml")


def test_a_baseline_that_is_missing_is_saved(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = ["gate", "run", "--rules", "rules.toml", "--baseline", "stable"]
    ((*save,),) = commands(refused(capsys, *judge), RESULTS="elsewhere")
    shutil.copytree("run", "elsewhere")
    follow(*save)
    follow(*judge)
    fail_first_run(place / "elsewhere")  # so the saved baseline has changed
    again = commands(refused(capsys, *judge), RESULTS="old")[0]
    follow(*again)


def test_no_path_is_advised_as_the_name_of_a_baseline(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fix = refused(capsys, "gate", "run", "--rules", "rules.toml", "--baseline", "gone/results")
    assert not commands(fix)


def test_accepting_needs_a_baseline(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = ["gate", "run", "--rules", "rules.toml", "--accept", "kernel"]
    assert "--baseline DIR" in refused(capsys, *judge)
    shutil.copytree("run", "elsewhere")
    set_environment(place / "elsewhere", kernel="other")
    follow(*judge, "--baseline", "elsewhere")


def test_failed_runs_are_measured_again_before_they_become_a_baseline(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_first_run(place / "run")
    save = ["gate", "run", "--save", "stable"]
    (again,) = commands(refused(capsys, *save))
    follow(*again, "--no-report", "--quiet")
    follow(*save)


def test_imported_runs_are_not_advised_to_be_measured_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_first_run(place / "new")
    assert not commands(refused(capsys, "gate", "new", "--save", "stable"))
    assert not commands(refused(capsys, "import", "old-1.json", "--out", "old"))
    run_dir = next((place / "old" / "runs").iterdir())
    (run_dir / "run.json").write_text("{}")
    assert not commands(refused(capsys, "compare", "old"))
    follow("import", "old-1.json", "--out", "another")


def test_a_campaign_that_exists_is_continued(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fix = refused(capsys, "run", "study.toml", "--out", "run", "--no-report")
    (again,) = commands(fix)
    follow(*again, "--no-report", "--quiet")
    follow("run", "study.toml", "--out", "another", "--no-report", "--quiet")


def test_a_damaged_run_is_measured_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = next((place / "run" / "runs").iterdir())
    (run_dir / "run.json").write_text("{}")
    fix = refused(capsys, "compare", "run")
    assert str(run_dir.relative_to(place)) in fix
    shutil.rmtree(run_dir)
    (again,) = commands(fix)
    follow(*again, "--no-report", "--quiet")
    follow("compare", "run")


def test_results_without_runs_are_measured(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run_dir in (place / "run" / "runs").iterdir():
        shutil.rmtree(run_dir)
    export = ["export", "run", "--format", "csv"]
    (again,) = commands(refused(capsys, *export))
    assert main(["status", "run"]) == 0
    assert commands(capsys.readouterr().out) == [again]
    follow(*again, "--no-report", "--quiet")
    follow(*export)


def test_an_import_cannot_be_resumed_but_a_study_can_be_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = commands(refused(capsys, "resume", "old"), STUDY="study.toml")[-1:]
    assert command == ["run", "study.toml"]


def test_exports_have_the_format_of_their_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["export", "run", "--format", "fio-json", "--samples", "--output", "x.json"]
    fix = refused(capsys, *export)
    assert "--format parquet" in fix
    assert ".parquet" in fix
    follow("export", "run", "--format", "parquet", "--samples", "--output", "x.parquet")
    fix = refused(capsys, "export", "run", "--format", "csv", "--output", "x.parquet")
    form = re.findall(r"--format (\w+)", fix)
    follow("export", "run", "--output", "y.parquet", "--format", *form)
    assert "--output" in refused(capsys, "export", "run", "--output", "-")
    follow("export", "run", "--output", "y.csv", "--format", "csv")


def test_a_brief_of_several_results_has_its_own_folder(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = ["report", "old", "new", "--no-pdf"]
    assert "--out DIR" in refused(capsys, *report)
    follow(*report, "--out", "both")


def test_an_existing_study_is_overwritten_by_force(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--force" in refused(capsys, "init", "study.toml")
    capsys.readouterr()
    follow("init", "study.toml", "--force")
    (_, line) = capsys.readouterr().out.rsplit("next: storlab ", 1)
    assert shlex.split(line) == ["plan", "study.toml"]


def test_a_study_is_run_before_it_is_audited(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = commands(refused(capsys, "audit", "study.toml"))
    follow(*command, "--out", "another", "--no-report", "--quiet")
    follow("audit", "another")


def test_a_history_is_made_in_a_new_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "site").mkdir()
    (place / "site" / "mine").write_text("")
    assert "folder" in refused(capsys, "history", "old", "new", "--out", "site")
    follow("history", "old", "new", "--out", "history")


@pytest.mark.parametrize("verb", ["gate", "compare", "import", "history"])
def test_a_wrong_option_names_the_help(
    place: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (command,) = commands(refused(capsys, verb, "--no-such-option"))
    follow(*command)


def test_the_next_step_of_an_import_works(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    follow("import", "old-1.json", "--out", "with space/r")
    (_, line) = capsys.readouterr().out.rsplit("next: storlab ", 1)
    follow(*shlex.split(line))


def test_a_copy_is_not_compared_with_its_original(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("run", "copy")
    assert "once" in refused(capsys, "compare", "run", "copy")
    follow("compare", "run", "old")


def test_a_replaced_baseline_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replaced = []
    for results in ("old", "new"):
        capsys.readouterr()
        follow("gate", results, "--save", "stable", "--json")
        replaced.append(json.loads(capsys.readouterr().out)["replaced"])
    assert replaced == [False, True]
