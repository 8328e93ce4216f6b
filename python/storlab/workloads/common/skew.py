"""Parameters of skewed random choices (zipf, hot_cold), for offsets and object keys."""

from __future__ import annotations

from collections.abc import Iterator, Set

from storlab.base.errors import Problem

OWNERS = {
    "zipf_theta": "zipf",
    "hot_space_percent": "hot_cold",
    "hot_access_percent": "hot_cold",
}
"""Fields that belong to one distribution only, with that distribution."""


def needless(chosen: str | None) -> list[str]:
    """Return the fields about skew that the distribution ``chosen`` does not use; all for None."""
    return [field for field, owner in OWNERS.items() if chosen != owner]


def skew_problems(choice: str, chosen: Set[str], given: Set[str]) -> Iterator[Problem]:
    """Yield a problem for each field about skew that a study sets but that has no effect.

    Args:
        choice: Name of the field that selects the distribution.
        chosen: Distributions that the points use.
        given: Names of the fields that the study sets.
    """
    for field, owner in OWNERS.items():
        if field in given and owner not in chosen:
            yield Problem((field,), f'belongs to {choice} = "{owner}"', f'add {choice} = "{owner}"')
