"""What a campaign claims: the first client of a task hears it from the lab."""

from __future__ import annotations

from pathlib import Path
from socket import gethostname
from typing import Any

from storlab.base.units import NS_PER_S
from storlab.cluster.session import START_NS
from storlab.lab.results.store import ResultStore

# From one task to the next: one is stored, and the ranks of the other may take so long to come up.
AWAY_NS = START_NS + 30 * NS_PER_S


def claim_of(store: ResultStore, base: Path, campaign: str) -> dict[str, Any]:
    """All directories of a campaign, in each of its tasks."""
    return _claim(store, base, campaign, claimed_directories(store), away_ns(store))


def claim_once(store: ResultStore, base: Path, campaign: str, target: str) -> dict[str, Any]:
    """A target's directory for one task alone: nobody has to look whether another follows."""
    directory = store.study.target_named(target).directory
    named = set() if directory is None else {directory}
    return _claim(store, base, campaign, named, 0)


def claimed_directories(store: ResultStore) -> set[str]:
    """As the study calls them."""
    used = {point.target for point in store.plan.points.values()}
    return {t.directory for t in store.study.target if t.name in used and t.directory}


def away_ns(store: ResultStore) -> int:
    """How long others look whether the campaign goes on."""
    return AWAY_NS + store.study.study.settle


def _claim(
    store: ResultStore, base: Path, campaign: str, directories: set[str], longest_ns: int
) -> dict[str, Any]:
    cluster = store.study.cluster
    return {
        "holder": {
            "campaign": campaign,
            "study": store.study.study.name,
            "results": f"{gethostname()}:{store.directory}",
            "away_ns": longest_ns,
        },
        "directories": sorted(str(base / name) for name in directories),
        "mount": None if cluster is None else cluster.mount,
        "ends": False,  # with the task, where it is done
    }
