"""Links of documents lead to existing files and headings, and the paths they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidy import tree

PAGES = [name for name in tree.source(".md") if "tests" not in name.parts]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:[a-z0-9_]+/)+[a-z0-9_]+\.(?:py|rs|md|c))`")
STUDY = re.compile(r"storlab \w+ (studies/[\w./-]+\.toml)")
OWN_STUDIES = {"studies/nightly.toml"}  # of the reader's repository, in examples of CI jobs
BELOW = ("", "python/storlab", "crates", "docs")  # folders that a path in a text may be relative to


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ +(.*)$", FENCE.sub("", tree.read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", tree.read(page))):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        there = (tree.ROOT / page.parent / path).resolve() if path else tree.ROOT / page
        known = there.exists()
        if known and anchor:
            known = anchor in _anchors(there.relative_to(tree.ROOT))
        broken += [] if known else [link]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_path_that_is_named_exists(page: Path) -> None:
    named = PATH.findall(FENCE.sub("", tree.read(page)))
    assert not [p for p in named if not any((tree.ROOT / b / p).exists() for b in BELOW)]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_study_that_a_command_names_exists(page: Path) -> None:
    named = set(STUDY.findall(tree.read(page))) - OWN_STUDIES
    assert not [study for study in named if not (tree.ROOT / study).exists()]
