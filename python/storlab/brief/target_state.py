"""Strip on a target's card: "cool, full link, steady", and what was off in its runs.

``GOOD`` lists functions from the finished runs of a target to words on what was in order. A flag in
``STATE_FLAGS`` that a run has needs no function: it is named with its number of runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storlab.brief.flags import meaning_of
from storlab.contracts.details import Details, DriveHealth, MachineFindings
from storlab.health.evidence import write_amplification
from storlab.model.result import RunRecord
from storlab.words.state import (
    NEAR,
    STEADY,
    StateWord,
    amplification_word,
    degraded_text,
    flagged_word,
    link_word,
    paths_word,
    warmth_word,
)
from storlab.workloads.common.flags import STATE_FLAGS

COOL_MARGIN_C = 10.0
"""Distance in K from the temperature of its warning above which a drive counts as cool."""
_KINDS = ("not-steady", *sorted(STATE_FLAGS))


def target_state(runs: Sequence[RunRecord]) -> list[StateWord]:
    """Return the strip of a target: words on what was in order, and then on what was off."""
    finished = [run for run in runs if run.status == "finished"]
    words = [word for good in GOOD for word in good(finished)]
    for kind in _KINDS:
        flagged = _flagged(finished, kind)
        if flagged:
            detail = _slow_links(finished) if kind == "link-degraded" else ""
            label = meaning_of(kind).label
            words.append(flagged_word(label, kind, flagged, len(finished), detail))
    return sorted(words, key=lambda word: word.is_off)


def _flagged(runs: Sequence[RunRecord], kind: str) -> int:
    """Return how many runs have a kind of flag."""
    return sum(any(flag.kind == kind for flag in run.flags) for run in runs)


def _warmth(runs: Sequence[RunRecord]) -> Iterator[StateWord]:
    known = [drive for drives in map(_drives, runs) for drive in drives]
    heats = [
        (drive.hottest_c, drive.before.get("temperature_limit_c"))
        for drive in known
        if drive.hottest_c is not None
    ]
    if heats:
        # The drive that is nearest to its limit stands for all of them.
        worst = max(heats, key=lambda heat: heat[0] - (1000.0 if heat[1] is None else heat[1]))
        yield warmth_word(*worst, COOL_MARGIN_C)


def _links(runs: Sequence[RunRecord]) -> Iterator[StateWord]:
    known = [link for machine in _machines(runs) for link in machine.links]
    if known and not any(link.degraded for link in known):
        by_slot = any(link.limited_by_slot for link in known)
        yield link_word({link.link for link in known}, by_slot=by_slot)


def _slow_links(runs: Sequence[RunRecord]) -> str:
    known = [link for machine in _machines(runs) for link in machine.links]
    return degraded_text(dict.fromkeys((x.link, x.possible) for x in known if x.degraded))


def _paths(runs: Sequence[RunRecord]) -> Iterator[StateWord]:
    counts = {sum(map(len, machine.paths.values())) for machine in _machines(runs)}
    if len(counts) == 1 and counts != {0} and not _flagged(runs, "path-degraded"):
        yield paths_word(*counts)


def _nearness(runs: Sequence[RunRecord]) -> Iterator[StateWord]:
    cores = [machine.cores for machine in _machines(runs) if machine.cores is not None]
    shares = [core.remote_percent for core in cores if core.remote_percent is not None]
    if shares and not _flagged(runs, "remote-node"):
        yield NEAR


def _machines(runs: Sequence[RunRecord]) -> list[MachineFindings]:
    found = (Details.of(run).machine for run in runs)
    return [machine for machine in found if machine is not None]


def _steadiness(runs: Sequence[RunRecord]) -> Iterator[StateWord]:
    verdicts = {run.steady["verdict"] for run in runs if run.steady is not None}
    if "steady" in verdicts and "not-steady" not in verdicts:
        yield STEADY


def _amplification(runs: Sequence[RunRecord]) -> Iterator[StateWord]:
    counted = [
        drive
        for drives in map(_drives, runs)
        if all(drive.grown("media_written_bytes") is not None for drive in drives)
        for drive in drives
    ]
    found = write_amplification(counted)
    if found is not None:
        yield amplification_word(found.ratio)


def _drives(run: RunRecord) -> Sequence[DriveHealth]:
    return Details.of(run).health


GOOD = (_warmth, _links, _paths, _nearness, _steadiness, _amplification)
