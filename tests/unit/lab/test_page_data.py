"""Families' pages: flags, definitions, margins."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import storlab
from storlab.brief.flags import MARKS, meaning_of, meanings
from storlab.contracts.page import FlagMeaning, Operations, Page, Parameters, margins
from storlab.contracts.registry import FAMILIES
from storlab.workloads.common.costs import IOPS
from storlab.workloads.common.flags import flag_meanings

SOURCES = Path(storlab.__file__).parent


def raised() -> set[str]:
    """Return the kinds of flags raised by any source."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Flag":
                kinds = [k.value for k in node.keywords if k.arg == "kind"]
                found |= {k.value for k in kinds if isinstance(k, ast.Constant)}
    return found


def test_every_flag_that_is_raised_has_a_meaning() -> None:
    kinds = raised()
    assert len(kinds) >= 25
    assert kinds <= set(flag_meanings())


def test_no_kind_of_flag_has_two_meanings() -> None:
    own = [meaning.kind for family in FAMILIES.values() for meaning in family.page.flags]
    assert len(own) == len(set(own))
    marks = [meaning.kind for meaning in MARKS]
    assert len(flag_meanings()) + len(marks) == len(meanings())


def test_an_unknown_kind_is_its_own_label() -> None:
    assert meaning_of("of-another-version").label == "of another version"


def test_what_the_audit_says_has_a_reason() -> None:
    for meaning in flag_meanings().values():
        assert bool(meaning.severity) == bool(meaning.why), meaning.kind


def test_a_familys_flag_is_known_without_another_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a family's page alone defines its flags."""
    flag = FlagMeaning(
        "toy-broken", "toy broken", "A toy broke.", severity="note", why="It was old."
    )

    class Toys:
        page = Page(
            operations=Operations(main=("read",), moved=("read",), rate=IOPS),
            parameters=Parameters(axes=("jobs",)),
            flags=(flag,),
        )

    monkeypatch.setitem(FAMILIES.loaded, "toys", Toys())
    assert meaning_of("toy-broken") == flag
    assert flag_meanings()["toy-broken"] == flag


def test_margins_begin_with_rates_and_end_with_what_is_reported() -> None:
    found = margins(rates={"toys_s": 0.05}, times={"play_ns": 0.2}, reported=("toys",))
    judged = [name for name, margin in found.items() if margin is not None]
    assert list(found)[: len(judged)] == judged
    assert judged[:2] == ["throughput_mb_s", "toys_s"]
    assert judged[-1] == "play_ns"
    assert found["toys"] is None
    plain = Page(
        operations=Operations(main=("read",), moved=("read",), rate=IOPS),
        parameters=Parameters(axes=("jobs",)),
    )
    assert "throughput_mb_s" in plain.metrics.margins
