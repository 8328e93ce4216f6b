"""Shell completion, queried through environment variables as shells do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import need_program
from storlab.cli.main import main

FIO = Path(__file__).parents[2] / "golden" / "fio" / "plain-3.33.json"
STUDY = """
[study]
name = "two disks"

[[target]]
name = "{first}"
path = "a.dat"
size = "1MiB"

[[target]]
name = 'disk two'
path = "b.dat"
size = "1MiB"
"""
HOSTILE = ["$(touch forged)", "`id`", "a;b", 'a"b', "a'b", "a\nb", "--clean", "a\\b", "*", "(x)"]


@pytest.fixture(scope="module")
def _results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("completion") / "results" / "old-ssd"
    assert main(["import", str(FIO), "--out", str(place)]) == 0
    assert main(["gate", str(place), "--save", "stable"]) == 0
    return place


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _results: Path) -> Path:
    (tmp_path / "studies").mkdir()
    (tmp_path / "results").symlink_to(_results.parent)
    (tmp_path / "studies" / "two.toml").write_text(STUDY.format(first="disk one"))
    (tmp_path / "mine.toml").write_text(STUDY.format(first="ssd"))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "study"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complete(
    words: str, capsys: pytest.CaptureFixture[str], *, shell: str = "bash", code: int = 0
) -> list[str]:
    """Return the completions of the last word."""
    capsys.readouterr()
    asked = {"_STORLAB_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": words}
    asked |= {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in asked.items():
            patch.setenv(name, value)
        assert main([]) == code
    told = capsys.readouterr()
    assert not told.err
    return [line for line in told.out.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("storlab run ", ["mine.toml", "studies/two.toml"]),
        ("storlab run stud", ["studies/two.toml"]),
        ("storlab plan ./studies/", ["./studies/two.toml"]),
        ("storlab doctor mine", ["mine.toml"]),
        ("storlab status ", ["results/old-ssd"]),
        ("storlab report results/", ["results/old-ssd"]),
        ("storlab compare results/old-ssd res", ["results/old-ssd"]),
        ("storlab history ", ["results", "results/old-ssd"]),
        ("storlab history results/", ["results/old-ssd"]),
        ("storlab capacity mine.toml --target ", ["ssd", r"disk\ two"]),
        ("storlab capacity --target d", []),
        ("storlab gate results/old-ssd --baseline ", ["stable"]),
        ("storlab gate results/old-ssd --baseline s", ["stable"]),
        ("storlab gate other --baseline ", ["results/old-ssd"]),
        ("storlab export results/old-ssd --format p", ["parquet"]),
        ("storlab meters ipm", ["ipmi"]),
        ("storlab crosscheck mine.toml --reference f", ["fio"]),
        ("storlab audit results/old-ssd --severity w", ["warning"]),
        ("storlab published s", ["show"]),
        ("storlab published show micron-weka", ["micron-weka-three-ssd-classes-fio"]),
        ("storlab run nothing/of/the/kind", []),
        ("storlab capacity missing.toml --target ", []),
        ("storlab verify missing ", []),
    ],
)
def test_names_are_offered(
    here: Path, capsys: pytest.CaptureFixture[str], words: str, offered: list[str]
) -> None:
    assert complete(words, capsys) == offered


def test_every_metric_that_is_offered_can_be_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offered = complete("storlab compare results/old-ssd --metric ", capsys)
    assert {"throughput_mb_s", "iops"} <= set(offered)
    for metric in offered:
        assert main(["compare", "results/old-ssd", "--metric", metric]) == 0


@pytest.mark.parametrize("verb", ["verify results/old-ssd ", "report results/old-ssd --run "])
def test_runs_of_a_directory_are_offered(
    here: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    runs = {path.name for path in (here / "results/old-ssd/runs").iterdir()}
    assert runs
    assert set(complete(f"storlab {verb}", capsys)) == runs


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_shell_would_evaluate_is_not_offered(
    here: Path, capsys: pytest.CaptureFixture[str], shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    names = [json.dumps(name) for name in ["plain", *HOSTILE]]
    Path("hostile.toml").write_text("".join(f"[[target]]\nname = {name}\n" for name in names))
    offered = "\n".join(complete("storlab capacity hostile.toml --target ", capsys, shell=shell))
    assert "plain" in offered
    assert not [name for name in HOSTILE if name in offered.replace("_arguments '*: :((", "")]


@pytest.mark.parametrize("text", ["target = 5", "[[target]]\nname = 5", "[[target", "\x00"])
def test_a_file_that_is_no_study_offers_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    Path("broken.toml").write_text(text)
    os.mkfifo("pipe.toml")
    assert complete("storlab capacity broken.toml --target ", capsys) == []
    assert complete("storlab run ", capsys) == ["mine.toml", "studies/two.toml"]


def test_bash_inserts_a_name_with_a_space_as_one_word(here: Path) -> None:
    bash = need_program("bash")
    programs = here / "bin"
    programs.mkdir()
    storlab = programs / "storlab"
    storlab.write_text(f'#!/bin/sh\nexec {sys.executable} -m storlab "$@"\n')
    storlab.chmod(0o755)
    script = """
    eval "$(_STORLAB_COMPLETE=source_bash storlab)"
    COMP_WORDS=(storlab capacity mine.toml --target d) COMP_CWORD=4
    _storlab_completion storlab
    printf '%s\\n' "${COMPREPLY[@]}"
    eval "set -- ${COMPREPLY[0]}"
    echo "$#: $1"
    """
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [r"disk\ two", "1: disk two"]
