"""Every tidy rule can fail: one text that violates it, and one that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidy import prose_rules, python_rules, rust_rules, text_rules
from tidy.circles import circles
from tidy.rust_text import blank

Rule = Callable[[str], list[str]]
HASH = "--hash=sha256:" + "0" * 64

CASES: dict[str, tuple[Rule, str, str]] = {
    "target_arch": (
        rust_rules.processor_complaints,
        '#[cfg(target_arch = "x86_64")]',
        "// target_arch\nlet target = arch();",
    ),
    "core::arch": (rust_rules.processor_complaints, "use core::arch::x86_64::a;", "use arch::a;"),
    "asm!": (rust_rules.processor_complaints, 'asm!("nop")', 'assert!(a, "asm!")'),
    "NotImplementedError": (
        python_rules.unfinished_complaints,
        "raise NotImplementedError",
        "raise ValueError",
    ),
    "bare skip": (
        python_rules.unfinished_complaints,
        "@pytest.mark.skip\ndef test_a(): ...",
        "@pytest.mark.skip(reason='no tape')\ndef test_a(): ...",
    ),
    "skipif": (
        python_rules.unfinished_complaints,
        "@pytest.mark.skipif(True)\ndef test_a(): ...",
        "@pytest.mark.skipif(True, reason='no tape')\ndef test_a(): ...",
    ),
    "called skip": (
        python_rules.unfinished_complaints,
        "pytest.skip()",
        "pytest.skip('no tape')",
    ),
    "docstring, beginning": (
        prose_rules.python_complaints,
        'def f():\n    """Of every question, in order."""',
        'def f():\n    """Return one answer per question, of every kind."""',
    ),
    "docstring, attribute": (
        prose_rules.python_complaints,
        'A = 1\n"""What it is."""',
        'A = "What it is."',
    ),
    "docstring, anywhere": (
        prose_rules.python_complaints,
        '"""Makes it\nanew."""',
        '"""Renew a lease."""',
    ),
    "rustdoc, beginning": (
        prose_rules.rust_complaints,
        "    /// Those that failed.",
        "    /// Runs that failed:\n    /// Those without a result.",
    ),
    "rustdoc, errors": (
        prose_rules.rust_complaints,
        "/// Open it.\n///\n/// # Errors\n/// Those of the system.",
        "/// Open it.\n///\n/// # Errors\n/// The file is missing.",
    ),
    "rustdoc, anywhere": (
        prose_rules.rust_complaints,
        "//! Errors.\n//!\n//! By\n//! name.",
        "// By name.",
    ),
    "machine path": (
        text_rules.machine_complaints,
        "open('/" + "root/x')",
        "path = $HOME/x, target/root/x",
    ),
    "registry": (text_rules.registry_complaints, "https://pypi" + ".org/simple", "pip install x"),
    "lock: index": (
        text_rules.python_lock_complaints,
        "--index-url https://example.org\na==1 \\\n    " + HASH,
        "a==1 \\\n    " + HASH,
    ),
    "lock: unpinned": (text_rules.python_lock_complaints, "a>=1 \\\n" + HASH, "a==1 \\\n" + HASH),
    "lock: address": (
        text_rules.python_lock_complaints,
        "a @ https://example.org/a.whl",
        "a==1 ; python_full_version < '3.12' \\\n" + HASH,
    ),
    "lock: no hash": (text_rules.python_lock_complaints, "a==1\nb==1 \\\n" + HASH, "# empty"),
    "cargo lock": (
        text_rules.cargo_lock_complaints,
        'source = "registry+https://example.org/index"',
        'source = "registry+https://github.com/rust-lang/crates.io-index"',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_complains_and_is_content(name: str) -> None:
    rule, wrong, right = CASES[name]
    assert rule(wrong)
    assert rule(right) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "from storlab.cli import main",
        "from storlab import cli",
        "import storlab.lab.run.campaign",
        "from ...lab import run",
        "from storlab.engines import native",
        "def f():\n    from storlab.brief import html",
        'TABLE = {"a": "storlab.cli.a"}',
        "from storlab.workloads.block.figures.latency import draw",
        "from storlab.cellar import wine",
    ],
)
def test_python_floors_are_guarded(wrong: str) -> None:
    assert python_rules.floor_complaints(wrong, "storlab.workloads.block.family")


@pytest.mark.parametrize(
    "right",
    [
        "from storlab.model.job import Job",
        "from storlab import base, __version__",
        "from storlab._native import Histogram",
        "from ...model import job",
        "from . import other",
        'MESSAGE = "storlab.cli is above"',
        'PLACE = "storlab.figures.bars:draw"',
        "from storlab.workloads.block.figures import BLOCK_FIGURES",
    ],
)
def test_python_floors_let_pass_what_lies_below(right: str) -> None:
    assert python_rules.floor_complaints(right, "storlab.workloads.block.family") == []


def test_a_brief_is_made_of_figures_and_not_the_other_way() -> None:
    assert python_rules.floor_complaints("import storlab.figures", "storlab.brief.html") == []
    assert python_rules.floor_complaints("import storlab.brief", "storlab.figures.bars")


def test_analysis_reads_results_and_knows_no_lab() -> None:
    module = "storlab.analysis.dataset"
    assert python_rules.floor_complaints("import storlab.results.store", module) == []
    assert python_rules.floor_complaints("import storlab.lab.run.campaign", module)


def test_a_place_in_a_string_is_an_import_but_in_a_family() -> None:
    table = 'TABLE = {"a": "storlab.cli.a:run"}'
    assert python_rules.floor_complaints(table, "storlab.lab.run.campaign")
    assert python_rules.floor_complaints(table, "storlab.workloads.block.family") == []


@pytest.mark.parametrize("table", ["dependencies", "dev-dependencies", "target.x.dependencies"])
def test_crate_floors_are_guarded_in_manifests(table: str) -> None:
    upwards = f"[{table}]\nstorlab-run.workspace = true\n"
    assert rust_rules.manifest_complaints(upwards, "io")
    assert rust_rules.manifest_complaints(upwards, "py") == []
    assert rust_rules.manifest_complaints(f"[{table}]\nstorlab-cellar = '1'\n", "py")


def test_crate_floors_are_guarded_in_sources() -> None:
    assert rust_rules.use_complaints("use storlab_run::order;", "io")
    assert rust_rules.use_complaints("use storlab_training::start;", "checkpoint")
    assert rust_rules.use_complaints("let x = storlab_io::open();", "base")
    assert rust_rules.use_complaints("use storlab_base::clock; // storlab_run", "io") == []


def test_rust_modules_are_followed_to_their_circles() -> None:
    modules = frozenset({"a", "b", "c"})
    source = "use crate::{b::{self, X}, c::Y as Z};\npub(crate) use super::Root;\nuse std::a;\n"
    source += "#[cfg(test)]\nmod tests {\n    use crate::d;\n}\n"
    assert rust_rules.module_imports("a.rs", source, modules) == {"b", "c", ""}
    assert rust_rules.module_imports("a/deep.rs", "use super::X;\nuse self::Y;", modules) == set()
    assert rust_rules.module_imports("a/deep.rs", "use super::super::b::X;", modules) == {"b"}
    assert rust_rules.module_imports("lib.rs", "pub use a::X;\nuse std::b;", modules) == {"a"}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_rust_text_is_blanked_without_moving_lines() -> None:
    source = 'a /* {\n /* } */ { */ b "}\\"{" r#"{"}"# \'{\' \'\\n\' &\'a str // {\n{ }'
    code = blank(source)
    assert code.count("\n") == source.count("\n")
    assert len(code) == len(source)
    assert "".join(code.split()) == "ab&'astr{}"


def test_documents_are_read_as_people_read_them() -> None:
    text = "Run `make demo`, then\n```\n$ make test\nstorlab plan x\n```\n`storlab run x`\n"
    text += "make sure\nstorlab runs"
    assert text_rules.make_commands(text) == {"demo", "test"}
    assert text_rules.storlab_commands(text) == {"plan", "run"}
    assert text_rules.make_targets("a: b\nc := d\n.PHONY: e\n") == {"a"}
    assert text_rules.exit_codes("| 0 | `OK` | fine |\n| 3 | STUDY | x |") == {0: "OK", 3: "STUDY"}
    assert text_rules.links("[a](b.md#c) ![d](e.png) [f](https://g)") == ["b.md", "e.png"]


@pytest.mark.parametrize(
    "wrong",
    [
        'x = {"drill": 1}',
        'if kind == "drill": ...',
        "from storlab.workloads.drill.job import X",
        "class DrillTable: ...",
        "x = DrillJob()",
    ],
)
def test_the_name_of_a_family_is_found(wrong: str) -> None:
    assert python_rules.family_complaints(wrong, "drill")


@pytest.mark.parametrize("right", ['x = "a drill"', "drill_size = 1", 'x = {"type": "drill"}'])
def test_words_that_are_no_names_of_a_family_pass(right: str) -> None:
    assert python_rules.family_complaints(right, "drill") == []


def test_python_modules_are_followed_to_their_circles() -> None:
    known = {"storlab.a", "storlab.b", "storlab.b.c"}
    source = "from storlab.b import c, d\nfrom storlab import a\nimport storlab.b\n"
    found = set(python_rules.modules_of(source, "storlab.x", known))
    assert found == {"storlab.a", "storlab.b", "storlab.b.c"}
