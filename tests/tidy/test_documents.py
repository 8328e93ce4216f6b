"""What is registered has its files, and the documents say what exists."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import verbs
from storlab.contracts.registry import ENGINES, FAMILIES
from storlab.model.s3 import S3Options
from storlab.model.study import Header, Precondition, Target
from tidy import text_rules, tree

DOCUMENTS = tree.source(".md")
ROOM = ("spec", "family", "job", "rules", "metrics", "page")  # what every family has
GUIDES = [Path(name) for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]


def _studies_of(kind: str) -> list[str]:
    studies = [(name, tomllib.loads(tree.read(name))) for name in tree.source(".toml", "studies")]
    return [str(n) for n, s in studies if any(w["kind"] == kind for w in s["workload"])]


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_workload_is_whole(kind: str) -> None:
    files = set(map(str, tree.files()))
    rooms = [f"python/storlab/workloads/{kind}/{name}.py" for name in ROOM]
    assert not set(rooms) - files
    assert f"crates/families/{kind}/src/lib.rs" in files
    assert f"docs/{kind}.md" in files
    assert _studies_of(kind), f"no study in studies/ uses {kind}"
    tests = [n for n in tree.source(".py", "tests/integration") if n.name.startswith("test_")]
    assert any(f'kind = "{kind}"' in tree.read(n) for n in tests), "no end-to-end test"


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_page_of_a_workload_explains_every_field(kind: str) -> None:
    page = tree.read(f"docs/{kind}.md")
    of_place = [Precondition] if "path" in FAMILIES[kind].places else [S3Options]
    models = [FAMILIES[kind].spec, Header, Target, *of_place]
    missing = [f"{m.__name__}.{f}" for m in models for f in m.model_fields if f"`{f}`" not in page]
    assert not missing


@pytest.mark.parametrize("verb", verbs())
def test_a_verb_has_its_file_and_its_page(verb: str) -> None:
    module = verbs()[verb].place.partition(":")[0]
    assert (tree.ROOT / "python" / (module.replace(".", "/") + ".py")).is_file()
    pages = "\n".join(tree.read(name) for name in tree.source(".md", "docs"))
    assert f"`storlab {verb}" in pages or f"\nstorlab {verb}" in pages


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_has_its_file(engine: str) -> None:
    (point,) = entry_points(group="storlab.engines", name=engine)
    assert (tree.ROOT / "python" / (point.module.replace(".", "/") + ".py")).is_file()


def test_exit_codes_are_documented_as_they_are() -> None:
    documented = text_rules.exit_codes(tree.read("docs/exit-codes.md"))
    assert documented == {int(code): code.name for code in ExitCode}


def test_documents_name_targets_and_verbs_that_exist() -> None:
    targets = text_rules.make_targets(tree.read("Makefile"))
    for name in DOCUMENTS:
        text = tree.read(name)
        assert text_rules.make_commands(text) <= targets, name
        assert text_rules.storlab_commands(text) <= set(verbs()), name
    readme = tree.read("README.md")
    assert {"demo", "test"} <= text_rules.make_commands(readme)
    assert set(verbs()) <= text_rules.storlab_commands(readme)


def test_the_generated_reference_is_up_to_date() -> None:
    place = tree.ROOT / "docs/generate.py"
    spec = spec_from_file_location("generate", place)
    assert spec is not None
    assert spec.loader is not None
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name, text in generate.pages().items():
        assert tree.read(f"docs/reference/{name}") == text, "run `make docs`"


def test_links_between_documents_lead_somewhere() -> None:
    for name in DOCUMENTS:
        folder = (tree.ROOT / name).parent
        targets = text_rules.links(tree.read(name))
        broken = [target for target in targets if not (folder / target).exists()]
        assert not broken, name


def test_ready_made_studies_are_valid() -> None:
    from storlab.contracts.registry import study_class

    studies = tree.source(".toml", "studies")
    assert studies
    for name in studies:
        study_class().model_validate(tomllib.loads(tree.read(name)))
