"""The list of mutants matches the code; tests/mutants/run.py plants each of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mutants.run import Mutant, load
from tidy import tree

MUTANTS = load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_of_its_file(mutant: Mutant) -> None:
    assert not mutant.is_stale()
    assert mutant.replace != mutant.find
    assert mutant.tests
    assert mutant.is_rust or all(
        (tree.ROOT / test.split("::")[0]).exists() for test in mutant.tests
    )


def test_names_are_unique_and_all_floors_have_a_mutant() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 60
    parents = [Path(mutant.file).parts for mutant in MUTANTS]
    floors = {
        "base", "model", "process", "stores", "workloads", "engines", "meters", "cluster", "lab",
        "analysis", "audit", "figures", "brief", "history", "exchange", "live", "api", "cli",
    }  # fmt: skip
    assert floors <= {parts[2] for parts in parents if parts[0] == "python"}
    assert sum(mutant.is_rust for mutant in MUTANTS) >= 24


def test_an_unknown_name_is_refused() -> None:
    command = [sys.executable, str(tree.ROOT / "tests/mutants/run.py"), "--only", "no-such-mutant"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
