"""Arguments of a cluster task for the locks on shared directories of a campaign."""

from __future__ import annotations

from pathlib import Path
from socket import gethostname
from typing import Any

from storlab.base.units import NS_PER_S
from storlab.cluster.session import START_NS
from storlab.results.store import ResultStore

# Time between two tasks: storing a run, and starting the ranks of the next task.
AWAY_NS = START_NS + 30 * NS_PER_S


def claim_of(store: ResultStore, base: Path, campaign: str) -> dict[str, Any]:
    """Return the lock on all directories of a campaign, for each of its tasks."""
    return _claim(store, base, campaign, claimed_directories(store), away_ns(store))


def claim_once(store: ResultStore, base: Path, campaign: str, target: str) -> dict[str, Any]:
    """Return the lock on one target's directory for a single task that no other follows."""
    directory = store.study.target_named(target).directory
    named = set() if directory is None else {directory}
    return _claim(store, base, campaign, named, 0)


def claimed_directories(store: ResultStore) -> set[str]:
    """Return the target directories of a campaign, as the study names them."""
    used = {point.target for point in store.plan.points.values()}
    return {t.directory for t in store.study.target if t.name in used and t.directory}


def away_ns(store: ResultStore) -> int:
    """Return for how long in ns other campaigns wait to see whether this one continues."""
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
        "ends": False,  # whether the task gives up the directories at its end
    }
