"""Skewed choices, of offsets as of keys: which field belongs to which way of choosing."""

from __future__ import annotations

from collections.abc import Iterator, Set

from storlab.base.errors import Problem

OWNERS = {
    "zipf_theta": "zipf",
    "hot_space_percent": "hot_cold",
    "hot_access_percent": "hot_cold",
}
"""Fields that only one way of choosing has a use for."""


def needless(chosen: str | None) -> list[str]:
    """Fields that this way of choosing has no use for; all of them where nothing is chosen."""
    return [field for field, owner in OWNERS.items() if chosen != owner]


def skew_problems(choice: str, chosen: Set[str], given: Set[str]) -> Iterator[Problem]:
    """Fields that a study gives and none of its points uses. ``choice``: the field that chooses."""
    for field, owner in OWNERS.items():
        if field in given and owner not in chosen:
            yield Problem((field,), f'belongs to {choice} = "{owner}"', f'add {choice} = "{owner}"')
