"""storlab's error classes."""

from __future__ import annotations

import pickle

import pytest

from storlab.base import errors
from storlab.base.errors import StorlabError, with_fixes

KINDS = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, StorlabError)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fix", ["", "mend it"])
def test_errors_pass_from_process_to_process(kind: type[StorlabError], fix: str) -> None:
    error = kind("study.toml", "is damaged", fix)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_a_fix_of_several_in_a_row_stands_once() -> None:
    lines = [("a", "x"), ("b", "x"), ("c", ""), ("d", "x"), ("e", "y")]
    assert [text.count("fix: ") for text in with_fixes(lines)] == [0, 1, 0, 1, 1]
    assert [text[0] for text in with_fixes(lines)] == list("abcde")
    assert with_fixes([]) == []
