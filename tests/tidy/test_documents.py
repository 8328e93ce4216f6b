"""Registered parts have their files, and documents list what exists."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import entry_points, packages_distributions
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from conftest import need_program
from storlab.base.errors import ExitCode
from storlab.brief.flags import meanings
from storlab.cli.main import EXIT_CODES, verbs
from storlab.contracts.registry import ENGINES, FAMILIES, METERS
from storlab.engines.native.engine import NativeEngine
from tidy import python_rules, text_rules, tree

DOCUMENTS = tree.source(".md")
STUDIES = tree.source(".toml", "studies", "python/storlab/templates")
ROOM = ("params", "spec", "family", "job", "rules", "metrics", "page")  # files of every family
GUIDES = [Path(name) for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]


def _studies_of(kind: str) -> list[str]:
    studies = [(name, tomllib.loads(tree.read(name))) for name in STUDIES]
    return [str(n) for n, s in studies if any(w["kind"] == kind for w in s["workload"])]


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_workload_is_whole(kind: str) -> None:
    files = set(map(str, tree.files()))
    rooms = [f"python/storlab/workloads/{kind}/{name}.py" for name in ROOM]
    assert not set(rooms) - files
    crate = f"crates/families/{kind}/src/lib.rs"
    assert (crate in files) == (kind in NativeEngine.kinds)  # other engines' programs need no crate
    assert f"docs/{kind}.md" in files
    assert _studies_of(kind), f"no study or template uses {kind}"
    tests = [n for n in tree.source(".py", "tests/integration") if n.name.startswith("test_")]
    assert any(f'kind = "{kind}"' in tree.read(n) for n in tests), "no end-to-end test"


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_page_of_a_workload_links_to_its_fields_and_method(kind: str) -> None:
    page = tree.read(f"docs/{kind}.md")
    assert f"(method/{kind}.md)" in page
    assert f"(reference/study.md#workload-{kind})" in page


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
    assert {"demo", "test"} <= text_rules.make_commands(tree.read("README.md"))
    benches = {name for name in targets if name.startswith("bench")}
    assert benches <= text_rules.make_commands(tree.read("docs/reference/benches.md"))


@cache
def _generate() -> Any:
    """Import docs/generate.py, which is a program."""
    place = tree.ROOT / "docs/generate.py"
    spec = spec_from_file_location("generate", place)
    assert spec is not None
    assert spec.loader is not None
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate


def test_the_generated_reference_is_up_to_date() -> None:
    for name, text in _generate().pages().items():
        assert tree.read(f"docs/reference/{name}") == text, "run `make docs`"


def test_every_mark_of_a_brief_is_explained_once() -> None:
    rows = re.findall(
        r"(?m)^\| ([^|]+) \| `([a-z0-9-]+)` \| (\S.*?) \|", tree.read("docs/reference/marks.md")
    )
    assert [kind for _, kind, _ in rows] == list(meanings())
    assert len({label for label, _, _ in rows}) == len(rows)
    assert "(reference/marks.md)" in tree.read("docs/brief.md")


def test_every_verb_has_its_man_page() -> None:
    place = Path("packaging/storlab.data/data/share/man/man1")
    pages = _generate().man_pages()
    assert set(pages) == {"storlab.1", *(f"storlab-{verb}.1" for verb in verbs())}
    assert {path.name for path in tree.files() if path.parent == place} == set(pages)
    for name, text in pages.items():
        assert tree.read(place / name) == text, "run `make docs`"


def _drawn(roff: str) -> str:
    """Return the page as plain text without bold. Any warning fails the test."""
    program = [need_program("groff"), "-man", "-ww", "-Tascii", "-P-cbou"]
    done = subprocess.run(program, input=roff, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout


def test_the_command_s_man_page_tells_exit_codes_whole() -> None:
    told = EXIT_CODES.split("\n\n")[0].split("\n", 2)[2]
    page = _generate().man_pages()["storlab.1"]
    meanings = page[page.index(".SH EXIT STATUS") : page.index(".SH SEE ALSO")]
    plain = re.sub(r"\.SH EXIT STATUS|\.TP|\\fB|\\fR", "", meanings).replace("\\-", "-")
    assert plain.replace("\\(aq", "'").split() == told.split()


def test_man_pages_are_roff() -> None:
    for name, text in _generate().man_pages().items():
        lines = text.splitlines()
        assert lines[0].startswith(f".TH {name.removesuffix('.1').upper()} 1 ")
        assert lines[1] == ".SH NAME"
        macros = {line.split()[0] for line in lines if line[:1] in (".", "'")}
        assert macros <= {".TH", ".SH", ".PP", ".TP", ".EX", ".EE"}
        assert "SEE ALSO" in _drawn(text)


def test_roff_prints_a_hostile_line_as_it_is() -> None:
    given = [r".SH forged", "'br", r"a\fBb \n(.x --json", '50% of "it"']
    roff = "\n.br\n".join(_generate()._roff(line) for line in given)
    printed = [line.strip() for line in _drawn(f".TH X 1\n.SH NAME\nx\n.br\n{roff}\n").splitlines()]
    assert [line for line in printed if line in given] == given


def test_links_between_documents_lead_somewhere() -> None:
    for name in DOCUMENTS:
        folder = (tree.ROOT / name).parent
        targets = text_rules.links(tree.read(name))
        broken = [target for target in targets if not (folder / target).exists()]
        assert not broken, name


def test_the_map_shows_the_house_as_it_is() -> None:
    text = tree.read("ARCHITECTURE.md")
    floors = [
        (python_rules.FLOORS.index(path.name), path.name)
        for path in (tree.ROOT / "python/storlab").iterdir()
        if (path / "__init__.py").is_file()
    ]
    listed = re.findall(r"(?m)^  (\w+)/ +\S", text.partition("crates/  ")[0])
    assert listed == [name for _, name in sorted(floors)]
    crates = re.findall(r"(?m)^  (\w+)/ +\S", text.partition("crates/  ")[2])
    manifests = (tree.ROOT / "crates").glob("*/Cargo.toml")
    assert set(crates) == {"families", *(manifest.parent.name for manifest in manifests)}
    drawing = text.partition("## The way of data")[2].split("```")[1]
    assert re.findall(r"(?m)^ ?(\d+) ", drawing) == [str(stop) for stop in range(1, 11)]
    named = re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:py|rs)|(?:[\w-]+/)+)`", text)
    named += re.findall(r"\b(?:lab|engines|crates)/\w+", drawing)
    named += re.findall(r"\b(?:workloads|cluster|live|analysis|figures|brief|history)\b", drawing)
    places = [f"/{path}" for path in tree.files()]
    missing = {n for n in named if not any(f"/{n.rstrip('/')}" in place for place in places)}
    assert not missing


def test_every_meter_has_its_page() -> None:
    pages = {path.stem for path in tree.files() if path.parent == Path("docs/meters")}
    assert pages == set(METERS)


def test_ready_made_studies_are_valid() -> None:
    from storlab.contracts.registry import study_class

    assert STUDIES
    for name in STUDIES:
        study_class().model_validate(tomllib.loads(tree.read(name)))


def test_the_package_imports_only_what_it_declares() -> None:
    project = tomllib.loads(tree.read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    named = {re.split(r"[^\w.-]", each)[0].lower() for each in wanted}
    named |= {"pydantic-core"}  # a separate package that belongs to pydantic
    providers = packages_distributions()
    for name in tree.source(".py", "python"):
        used = set(re.findall(r"(?m)^\s*(?:from|import) ([a-z_]\w*)", tree.read(name)))
        foreign = used - set(sys.stdlib_module_names) - {"storlab"}
        owned = {m: {d.lower().replace("_", "-") for d in providers.get(m, [])} for m in foreign}
        assert not [m for m, owners in owned.items() if owners and not owners & named], name
