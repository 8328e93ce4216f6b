"""Words of the strip on a target's card: the state of its drives and of the machine in its runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from storlab.words.text import plural


class StateWord(NamedTuple):
    """Part of the strip; ``kind`` is the flag behind it, and ``is_off`` that it needs attention."""

    text: str
    kind: str = ""
    is_off: bool = False


def warmth_word(hottest_c: float, limit_c: float | None, margin_c: float) -> StateWord:
    """Return the highest temperature of a target's drives, and how it compares with their limit.

    Args:
        hottest_c: Highest temperature of a drive in degrees Celsius.
        limit_c: Temperature from which the drive warns; None if not reported.
        margin_c: Distance from the limit above which a drive is cool.
    """
    degrees = f"{hottest_c:.0f}\u00a0°C"
    if limit_c is None:
        return StateWord(f"at most {degrees}")
    if hottest_c >= limit_c:
        return StateWord(f"hot (up to {degrees}, warns from {limit_c:.0f}\u00a0°C)", is_off=True)
    return StateWord(f"{'cool' if hottest_c <= limit_c - margin_c else 'warm'} (up to {degrees})")


def link_word(links: Collection[str], *, by_slot: bool) -> StateWord:
    """Return that drives used their PCIe links fully, such as ``full link (PCIe 16 GT/s x4)``.

    Args:
        links: Different links of the drives, such as ``16 GT/s x4``; several are not listed.
        by_slot: Whether a slot, and not the drive, is the limit of a link.
    """
    which = f" (PCIe\u00a0{_unbroken(next(iter(links)))})" if len(links) == 1 else ""
    return StateWord(f"full link{' of the slot' if by_slot else ''}{which}")


def degraded_text(links: Collection[tuple[str, str]]) -> str:
    """Return the links of slow drives, such as ``8 GT/s x2 of 16 GT/s x4``.

    Args:
        links: Each link, and what drive and slot can do.
    """
    return ", ".join(f"{_unbroken(link)} of {_unbroken(possible)}" for link, possible in links)


def _unbroken(link: str) -> str:
    return link.replace(" ", "\u00a0")


def paths_word(paths: int) -> StateWord:
    """Return the number of paths to a target's drives, all of which were usable."""
    return StateWord(f"all {paths:,} paths")


NEAR = StateWord("workers on the drive’s NUMA node")
STEADY = StateWord("steady")


def amplification_word(ratio: float) -> StateWord:
    """Return the write amplification with one decimal, such as ``write amplification 1.8``."""
    return StateWord(f"write amplification {ratio:,.1f}")


def flagged_word(label: str, kind: str, runs: int, of: int, detail: str = "") -> StateWord:
    """Return in how many runs of a target a flag was raised, such as ``throttled in 2 of 12 runs``.

    Args:
        label: Label of the flag's mark.
        kind: Kind of the flag.
        runs: Number of runs with the flag.
        of: Number of finished runs.
        detail: Text in brackets after the label; empty for none.
    """
    what = f"{label} ({detail})" if detail else label
    return StateWord(f"{what} in {runs:,} of {plural(of, 'run')}", kind, is_off=True)
