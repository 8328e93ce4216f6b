"""The commands of docs/tutorial.md, run in order as printed there.

Only the length of runs is shortened.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from storlab.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"
BLOCK = re.compile(
    r"(?:Write it|rests on) to `(\S+)`:\n\n```toml\n(.*?)```|```sh\n(.*?)```", re.DOTALL
)
# Window lengths tried until every worker gets a turn, which takes longer on a busy machine, with
# the seconds for each place that `storlab try` gets.
WINDOWS = {"200ms": 20, "2s": 60, "8s": 200}
SHORTER = {'"1s"': '"50ms"', '"500ms"': '"50ms"', '"256MiB"': '"4MiB"'}
STARVED = "no operation completed in the window"


def command_in(place: Path) -> Path:
    """Return the command line with ``storlab`` as a command."""
    program = place / "bin" / "storlab"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m storlab "$@"\n')
    program.chmod(0o755)
    return place


def walked(place: Path, window: str) -> str | None:
    """Return the output of the commands; None if a worker had no turn in its window."""
    memory = place / "memory"  # /dev/shm is shared by the machine
    printed = ""
    for name, content, commands in (match.groups() for match in BLOCK.finditer(PAGE.read_text())):
        if name:
            study = content.replace("/dev/shm/in-memory", str(memory))
            for long, short in {'"4s"': f'"{window}"', **SHORTER}.items():
                study = study.replace(long, short)
            (place / name).write_text(study)
            continue
        script = "set -e\nPATH=$PWD/bin:$PATH\n" + commands.replace(
            "/dev/shm/in-memory", str(memory)
        ).replace("--seconds 30", f"--seconds {WINDOWS[window]} --no-report")
        done = subprocess.run(
            ["bash", "-c", script], cwd=place, capture_output=True, text=True, check=False
        )
        if done.returncode and STARVED in done.stdout + done.stderr and window != [*WINDOWS][-1]:
            return None
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    return printed


def _lines(text: str) -> list[str]:
    return [line for row in text.splitlines() if (line := " ".join(row.split()))]


def _shown_after(command: str) -> list[str]:
    """Return the lines that the page shows as the output of a command."""
    page = PAGE.read_text()
    (text,) = re.findall(
        re.escape(command) + r"[^`]*```\n\n(?:[^`]+\n\n)?```\n(.*?)```", page, re.DOTALL
    )
    return _lines(text)


def test_the_plan_that_the_page_shows_is_the_one_that_plan_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (study,) = re.findall(
        r"Write it to `decide.toml`:\n\n```toml\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    Path("decide.toml").write_text(study)
    assert main(["plan", "decide.toml"]) == 0
    printed = _lines(capsys.readouterr().out)
    shown = _shown_after("storlab plan decide.toml")
    assert len(shown) >= 8
    assert [line for line in shown if line not in printed] == []


def test_every_command_works_as_it_stands(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert (
        len(re.findall(r"^```(?:sh|toml)$", text, re.MULTILINE)) == len(BLOCK.findall(text)) >= 10
    )
    for window in WINDOWS:
        place = command_in(tmp_path / window)
        printed = walked(place, window)
        if printed is not None:
            break
    assert printed is not None
    # Of measured output, only fixed parts are compared: headings, names of points and rules.
    words = _lines(printed)
    assert _shown_after("storlab run decide.toml --out results/monday")[0] in words
    compared = _shown_after("storlab compare results/monday --metric latency_p99_ns")
    # Whether there is a column of caveats depends on the machine.
    heads = [head.removesuffix(" caveats") for head in compared[:3]]
    assert [head for head in heads if not any(w.startswith(head) for w in words)] == []
    assert any(line.startswith("reads only, 4 KiB, 2 jobs ") for line in words)
    rules = re.findall(r"rule \d, [^:]*:", " ".join(_shown_after('|| echo "exit code $?"')))
    assert len(rules) == 2
    assert [rule for rule in rules if rule not in " ".join(words)] == []
    shown = re.findall(r"^storlab \w+", text, re.MULTILINE)
    assert {line.split()[1] for line in shown} >= {"init", "plan", "doctor", "run", "gate"}
    assert "4 cells x 2 targets x 5 repeats = 40 runs" in printed
    assert "40 of 40 runs finished" in printed
    assert re.search(r"(?m)^(held|broken|inconclusive): ", printed)
    assert (place / "results" / "monday" / "brief.html").is_file()
    assert (place / "results" / "both" / "brief.html").is_file()
    assert (place / "monday.csv").is_file()
    assert not list((place / "memory").iterdir())  # no storlab file is left on a target
    shutil.rmtree(place)
