"""Whether targets of several result directories share a column of a comparison."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from storlab.analysis.dataset import load_dataset
from storlab.base.errors import UsageError
from storlab.contracts.registry import study_class
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study
from storlab.results.store import ResultStore

STUDY = """
[study]
name = "one target"
repeats = 1
[[target]]
name = "{target}"
path = "null:"
[[workload]]
kind = "block"
"""


def store(directory: Path, target: str = "disk") -> ResultStore:
    text = STUDY.format(target=target)
    directory.parent.mkdir(parents=True, exist_ok=True)
    study = directory.parent / f"{directory.name}.toml"
    study.write_text(text)
    plan = make_plan(load_study(study))
    return ResultStore.create(
        directory, text, study_class().model_validate(tomllib.loads(text)), plan, {}
    )


def labels(*stores: ResultStore) -> list[str]:
    data = load_dataset(stores)
    cells = {label for _, label in data.planned}
    assert cells == {column.label for column in data.targets}
    return [column.label for column in data.targets]


def test_directories_of_one_name_are_two_columns(tmp_path: Path) -> None:
    first, other = store(tmp_path / "monday" / "out"), store(tmp_path / "friday" / "out")
    assert labels(first, other) == ["disk (monday/out)", "disk (friday/out)"]
    assert all(count == 1 for count in load_dataset([first, other]).planned.values())


def test_a_label_is_as_short_as_it_can_be(tmp_path: Path) -> None:
    stores = [store(tmp_path / "a" / "out"), store(tmp_path / "b" / "out"), store(tmp_path / "new")]
    assert labels(*stores) == ["disk (a/out)", "disk (b/out)", "disk (new)"]
    apart = [store(tmp_path / "c" / "out", "disk"), store(tmp_path / "d" / "out", "memory")]
    assert labels(*apart) == ["disk", "memory"]


def test_a_directory_given_twice_is_refused(tmp_path: Path) -> None:
    made = store(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for other in (tmp_path / "out", tmp_path / "link", tmp_path / "x" / ".." / "out"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="is given twice"):
            load_dataset([made, ResultStore.open(other)])


def test_targets_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    stores = [
        store(tmp_path / "a"), store(tmp_path / "b"), store(tmp_path / "c", "disk (a)")
    ]  # fmt: skip
    with pytest.raises(UsageError, match="two targets are called"):
        load_dataset(stores)
