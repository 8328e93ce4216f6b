"""The commands of docs/tutorial.md, run one after the other as they stand there.

Only the length of a run is another: a test has no minutes to spend.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"
BLOCK = re.compile(
    r"(?:Write it|rests on) to `(\S+)`:\n\n```toml\n(.*?)```|```sh\n(.*?)```", re.DOTALL
)
SHORTER = {'"4s"': '"200ms"', '"1s"': '"50ms"', '"500ms"': '"50ms"', '"256MiB"': '"4MiB"'}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """With ``storlab`` as a command."""
    program = tmp_path / "bin" / "storlab"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m storlab "$@"\n')
    program.chmod(0o755)
    return tmp_path


def test_every_command_works_as_it_stands(place: Path) -> None:
    text = PAGE.read_text()
    blocks = list(BLOCK.finditer(text))
    assert len(re.findall(r"^```(?:sh|toml)$", text, re.MULTILINE)) == len(blocks) >= 10
    memory = place / "memory"  # /dev/shm belongs to the machine
    printed = ""
    for name, content, commands in (match.groups() for match in blocks):
        if name:
            study = content.replace("/dev/shm/in-memory", str(memory))
            for long, short in SHORTER.items():
                study = study.replace(long, short)
            (place / name).write_text(study)
            continue
        script = "set -e\nPATH=$PWD/bin:$PATH\n" + commands.replace(
            "/dev/shm/in-memory", str(memory)
        )
        done = subprocess.run(
            ["bash", "-c", script], cwd=place, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    shown = re.findall(r"^storlab \w+", text, re.MULTILINE)
    assert {line.split()[1] for line in shown} >= {"init", "plan", "doctor", "run", "gate"}
    assert "4 cells x 2 targets x 5 repeats = 40 runs" in printed
    assert "40 of 40 runs finished" in printed
    assert re.search(r"(?m)^(held|broken|could not tell): ", printed)
    assert (place / "results" / "monday" / "brief.html").is_file()
    assert (place / "results" / "both" / "brief.html").is_file()
    assert (place / "monday.csv").is_file()
    assert not list(memory.iterdir())  # nothing of storlab stays on a target
    shutil.rmtree(place)
