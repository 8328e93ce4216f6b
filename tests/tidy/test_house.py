"""House rules applied to the repository; test_rules.py tests the rules themselves."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from storlab.contracts.registry import FAMILIES
from tidy import prose_rules, python_rules, rust_rules, text_rules, tree
from tidy.circles import circles

PACKAGE = tree.source(".py", "python/storlab")
PYTHON = tree.source(".py")
RUST = tree.source(".rs", "crates")
RUST_PROCESSORS = (Path("crates/base/src/clock.rs"), Path("crates/base/src/arch.rs"))


def _collect(names: list[Path], rule: Callable[[str], list[str]]) -> list[str]:
    return [f"{name}: {complaint}" for name in names for complaint in rule(tree.read(name))]


def test_python_imports_go_downwards() -> None:
    complaints = []
    for name in PACKAGE:
        module = tree.module(name)
        if module.count(".") < 2:
            continue  # storlab/__init__.py belongs to no floor
        complaints += [
            f"{name}: {complaint}"
            for complaint in python_rules.floor_complaints(tree.read(name), module)
        ]
    assert PACKAGE
    assert not complaints, "\n".join(complaints)


def test_no_modules_import_in_circles() -> None:
    modules = {tree.module(name) for name in PACKAGE}
    imports = {
        tree.module(name): set(python_rules.modules_of(tree.read(name), tree.module(name), modules))
        for name in PACKAGE
    }
    found = [", ".join(circle) for circle in circles(imports)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", FAMILIES)
def test_only_a_family_knows_its_name(kind: str) -> None:
    complaints = []
    for name in PACKAGE:
        parts = name.parts[2:]  # below python/storlab
        own = parts[:2] == ("workloads", kind)
        if own or parts[0] == "engines":
            continue
        named = python_rules.family_complaints(tree.read(name), kind)
        complaints += [f"{name}: {text}" for text in named]
    assert not complaints, "\n".join(complaints)


def test_crates_depend_downwards() -> None:
    complaints = []
    for crate in rust_rules.CRATE_FLOORS:
        place = rust_rules.place(crate)
        manifest = tree.read(f"{place}/Cargo.toml")
        own = rust_rules.manifest_complaints(manifest, crate)
        for name in tree.source(".rs", place):
            own += [f"{name}: {s}" for s in rust_rules.use_complaints(tree.read(name), crate)]
        complaints += [f"{place}: {s}" for s in own]
    assert RUST
    manifests = [n for n in tree.source(".toml", "crates", "templates") if n.name == "Cargo.toml"]
    assert {str(n.parent) for n in manifests} == set(map(rust_rules.place, rust_rules.CRATE_FLOORS))
    assert not complaints, "\n".join(complaints)


def test_modules_of_a_crate_do_not_import_in_circles() -> None:
    complaints = []
    for crate in rust_rules.CRATE_FLOORS:
        found = circles(_imports_of(Path(rust_rules.place(crate)) / "src"))
        complaints += [f"{crate}: {', '.join(name or 'lib.rs' for name in c)}" for c in found]
    assert not complaints, "\n".join(complaints)


def _imports_of(place: Path) -> dict[str, set[str]]:
    """Return the imports of each top-level module of a crate; the root is ``""``."""
    names = [name.relative_to(place) for name in tree.source(".rs", str(place))]
    names = [name for name in names if "tests" not in name.stem]
    modules = frozenset(name.parts[0].removesuffix(".rs") for name in names) - {"lib"}
    imports: dict[str, set[str]] = {}
    for name in names:
        top = "" if str(name) == "lib.rs" else name.parts[0].removesuffix(".rs")
        text = tree.read(place / name)
        found = rust_rules.module_imports(str(name), text, modules)
        imports.setdefault(top, set()).update(found)
    return imports


def test_code_for_one_processor_lies_beside_its_portable_branch() -> None:
    names = [n for n in RUST if n not in RUST_PROCESSORS]
    complaints = _collect(names, rust_rules.processor_complaints)
    assert not complaints, "\n".join(complaints)


def test_nothing_is_left_unfinished() -> None:
    complaints = _collect(PYTHON, python_rules.unfinished_complaints)
    assert not complaints, "\n".join(complaints)


def test_docstrings_read_as_plain_english() -> None:
    complaints = _collect(PYTHON, prose_rules.python_complaints)
    complaints += _collect(RUST, prose_rules.rust_complaints)
    assert not complaints, "\n".join(complaints)


def test_no_file_names_a_machine_or_a_registry() -> None:
    names = [name for name in tree.text_files() if name.name != "Cargo.lock"]
    complaints = _collect(names, text_rules.machine_complaints)
    complaints += _collect(names, text_rules.registry_complaints)
    assert not complaints, "\n".join(complaints)


def test_lock_files_hold_names_versions_and_hashes_only() -> None:
    locks = [path for path in tree.text_files() if path.match("requirements*.lock")]
    assert len(locks) >= 5
    complaints = _collect(locks, text_rules.python_lock_complaints)
    complaints += _collect([Path("Cargo.lock")], text_rules.cargo_lock_complaints)
    assert not complaints, "\n".join(complaints)


def test_the_lock_file_pins_every_dependency() -> None:
    project = tomllib.loads(tree.read("pyproject.toml"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["tools"]]
    locked = tree.read("requirements.lock").lower()
    missing = [w for w in wanted if f"\n{w.split('>')[0].lower()}==" not in f"\n{locked}"]
    assert not missing
