"""``make family`` writes a whole family or nothing, and overwrites nothing."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("new_family", ROOT / "templates/new_family.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(script: ModuleType, tmp_path: Path) -> Path:
    """Copy the template and the files that register a family."""
    for name in (*script.PLACES, *(name for name, _, _ in script.REGISTRATIONS)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "target")
            shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def texts(tree: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in tree.rglob("*") if path.is_file()}


def test_a_family_is_written_and_registered(script: ModuleType, tree: Path) -> None:
    before = texts(tree)
    written = script.create(tree, "kvcache")
    after = texts(tree)
    assert {path for path in after if before.get(path) != after[path]} == set(written)
    for name, _, line in script.REGISTRATIONS:
        assert (tree / name).read_text().count(script.renamed(line, "kvcache")) == 1
    assert (tree / "python/storlab/workloads/kvcache/family.py").is_file()
    assert "class KvcacheWorkload" in after[tree / "python/storlab/workloads/kvcache/family.py"]


@pytest.mark.parametrize("name", ["", "class", "KV", "kv-cache", "9p", "../up", "example"])
def test_a_name_that_cannot_be_is_refused(script: ModuleType, tree: Path, name: str) -> None:
    before = texts(tree)
    with pytest.raises(ValueError, match="NAME="):
        script.create(tree, name)
    assert texts(tree) == before


@pytest.mark.parametrize(
    "taken",
    ["python/storlab/workloads/kv", "crates/kv/Cargo.toml", "docs/kv.md", "studies/kv.toml"],
)
def test_nothing_is_overwritten(script: ModuleType, tree: Path, taken: str) -> None:
    (tree / taken).parent.mkdir(parents=True, exist_ok=True)
    (tree / taken).write_text("mine")
    before = texts(tree)
    with pytest.raises(ValueError, match="exists"):
        script.create(tree, "kv")
    assert texts(tree) == before


def test_a_failed_write_is_undone(
    script: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, places = texts(tree), sorted(tree.rglob("*"))
    write = Path.write_text

    def full(path: Path, text: str, encoding: str | None = None) -> int:
        if path.name == "families.rs" and "kvcache" in text:
            raise OSError(28, "No space left on device")
        return write(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        script.create(tree, "kvcache")
    assert texts(tree) == before
    assert sorted(tree.rglob("*")) == places
