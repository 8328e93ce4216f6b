"""The clients of a cluster before anything is measured: one table, host by host."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from storlab.base.errors import PreflightError
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.session import Gathered
from storlab.cluster.task import ClientPlace
from storlab.contracts.check import Check
from storlab.contracts.offers import divides
from storlab.contracts.registry import FAMILIES
from storlab.lab.site.claim import FIX
from storlab.lab.site.clients import Clients
from storlab.model.point import Plan
from storlab.model.study import StudyBase, Target

DRIFT_NS = 1_000_000
_SAME = {
    "storlab": "version of storlab",
    "build": "build of storlab",
    "python": "version of Python",
    "kernel": "kernel",
    "cpu_level": "level of the processor",
}
_MUST_BE_SAME = ("storlab", "build")
_ROOMY_MEMLOCK = 64 << 20
_MAKE = "make the target's directory, and let this user write to it on all clients"


def check_clients(
    study: StudyBase,
    plan: Plan,
    clients: Clients,
    base: Path,
    *,
    campaign: str = "",
    resumed: bool = False,
) -> tuple[list[Check], dict[str, Any]]:
    """Ask all clients that the study uses; also what they are, by name. Writes only small files.

    ``campaign``: whose checks they are; ``resumed``: it has run before. Raises PreflightError where
    the clients could not be asked.
    """
    shared = [
        str(base / target.directory)
        for target in study.target
        if target.directory is not None
        and any(point.target == target.name for point in plan.points.values())
    ]
    mount = None if study.cluster is None else study.cluster.mount
    arguments = {"shared": shared, "mount": mount, "campaign": campaign}
    directory = Path(tempfile.mkdtemp(prefix="storlab-check-"))
    try:
        session, chosen = clients.begin("check", clients.most, directory / "task", arguments)
        try:
            while (gathered := session.wait(1.0)) is None:
                pass
        finally:
            session.end()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    facts = _facts(gathered, chosen)
    if gathered.failure is not None:
        return [_unreachable(gathered, facts)], facts
    return [*_checks(study, plan, facts, gathered.clocks, base, resumed=resumed)], facts


def _facts(gathered: Gathered, chosen: Sequence[ClientPlace]) -> dict[str, Any]:
    return {
        place.name: json.loads(gathered.outcomes[place.rank])
        for place in chosen
        if place.rank in gathered.outcomes
    }


def _unreachable(gathered: Gathered, facts: Mapping[str, Any]) -> Check:
    failure = gathered.failure
    if failure is None:
        raise PreflightError("cluster", "did not answer", "")
    del facts
    return Check(name="cluster", status="error", what=failure.message, fix=failure.fix)


def _checks(
    study: StudyBase,
    plan: Plan,
    facts: Mapping[str, dict[str, Any]],
    clocks: Sequence[Mapping[str, ClockOffset]],
    base: Path = Path("/"),
    *,
    resumed: bool = False,
) -> Iterator[Check]:
    yield Check(name="cluster", status="ok", what=f"{len(facts)} clients answer")
    for key, words in _SAME.items():
        yield _same(words, {name: str(fact[key]) for name, fact in facts.items()}, key)
    yield from _mounts(study, facts)
    yield from _shared(facts)
    yield from _claimed(facts)
    yield from _space(study, plan, facts, base, resumed)
    yield from _clocks(clocks)
    yield from _resources(study, plan, facts)


def _same(words: str, values: Mapping[str, str], key: str) -> Check:
    counts = Counter(values.values())
    usual = counts.most_common(1)[0][0]
    others = {name: value for name, value in values.items() if value != usual}
    if not others:
        return Check(name=words, status="ok", what=usual)
    what = f"{usual} on {counts[usual]}, but " + ", ".join(f"{v} on {n}" for n, v in others.items())
    status: Literal["error", "warning"] = "error" if key in _MUST_BE_SAME else "warning"
    return Check(name=words, status=status, what=what, fix="make the clients alike")


def _mounts(study: StudyBase, facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    mount = None if study.cluster is None else study.cluster.mount
    if mount is None:
        return
    missing: dict[tuple[str, str], list[str]] = {}
    for name, fact in facts.items():
        for directory, found in fact["mounts"].items():
            if found is None:
                missing.setdefault((fact["mount"], directory), []).append(name)
    for (own, directory), names in missing.items():
        yield Check(
            name="mount",
            status="error",
            what=f"nothing is mounted at {own} on {', '.join(names)}, nor below it on the way to "
            f"{directory}: load would go to their own disks",
            fix="mount the shared file system there, or correct mount of [cluster] or of "
            "[cluster.host.NAME]",
        )
    if not missing:
        yield from _like_mounts(facts)


def _like_mounts(facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """What lies below each directory; said once of those on one file system."""
    told: set[str] = set()
    for directory in next(iter(facts.values()))["mounts"]:
        for key, words in (("kind", "type"), ("source", "server"), ("options", "options")):
            values = {name: str(fact["mounts"][directory][key]) for name, fact in facts.items()}
            check = _same(f"mount {words}", values, key)
            if check.model_dump_json() not in told:
                yield check
            told.add(check.model_dump_json())


def _claimed(facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """No other campaign is at work in a directory of a target."""
    claimed = {d: who for fact in facts.values() for d, who in fact.get("claimed", {}).items()}
    if claimed:
        what = "; ".join(f"{directory} is in use by {who}" for directory, who in claimed.items())
        yield Check(name="campaigns", status="error", what=what, fix=FIX)


def _shared(facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """A file that one client has written is seen by all, in every directory of a target."""
    bad = [f"{n}: {d}: {why}" for n, fact in facts.items() for d, why in fact["problems"].items()]
    if bad:
        fixes = dict.fromkeys(
            fact.get("fixes", {}).get(d, _MAKE) for fact in facts.values() for d in fact["problems"]
        )
        yield Check(name="directory", status="error", what="; ".join(bad), fix="; ".join(fixes))
        return
    everybody = set(facts)
    blind = {name: everybody - set(fact["sees"]) for name, fact in facts.items()}
    unseen = {name: others for name, others in blind.items() if others}
    if unseen:
        name, others = next(iter(unseen.items()))
        yield Check(
            name="shared",
            status="error",
            what=f"{name} does not see the files of {', '.join(sorted(others)[:5])}: the "
            f"directory is not shared ({len(unseen)} of {len(facts)} clients)",
            fix="mount the same file system on all clients",
        )
    else:
        yield Check(name="shared", status="ok", what="every client sees the files of all others")


def _space(
    study: StudyBase, plan: Plan, facts: Mapping[str, dict[str, Any]], base: Path, resumed: bool
) -> Iterator[Check]:
    """Data that may be there already are no reason to refuse: they are found when they are made."""
    for target in study.target:
        needed = _needed_bytes(study, plan, target, len(facts))
        if target.directory is None or not needed:
            continue
        place = str(base / target.directory)
        told = [fact["free"][place] for fact in facts.values() if place in fact.get("free", {})]
        free = min(told, default=0)
        what = f"{target.name} needs {format_bytes_si(needed)}, {format_bytes_si(free)} are free"
        status: Literal["error", "warning", "ok"] = "error" if needed > free else "ok"
        if status == "error" and (resumed or target.keep_data):
            status, what = "warning", f"{what}, less what is there already"
        yield Check(name="space", status=status, what=what, fix="make size smaller")


def _needed_bytes(study: StudyBase, plan: Plan, target: Target, clients: int) -> int:
    """Each client has its data; those that all of them share are there once."""
    shared: dict[str, int] = {}
    for point in plan.points.values():
        offer = divides(point.kind)
        if point.target == target.name and offer is not None and offer.shares_data:
            estimate = FAMILIES[point.kind].estimate(point, study.study, target)
            known = shared.get(estimate.data_set, 0)
            shared[estimate.data_set] = max(known, estimate.data_bytes)
    once = sum(shared.values())
    return (plan.data_bytes_by_target.get(target.name, 0) - once) * clients + once


def _clocks(clocks: Sequence[Mapping[str, ClockOffset]]) -> Iterator[Check]:
    first, second = clocks[0], clocks[-1]
    worst = max(first, key=lambda name: first[name].round_trip_ns)
    trip_us = first[worst].round_trip_ns / 1000
    drift = max(abs(second[n].offset_ns - first[n].offset_ns) for n in first)
    slow = first[worst].round_trip_ns / 2 > DRIFT_NS
    yield Check(
        name="clocks",
        status="warning" if slow else "ok",
        what=f"known to {trip_us / 2:.0f} us at worst ({worst}); measured twice, they differ by "
        f"{drift / 1000:.0f} us",
        fix="use a quicker network for MPI: [cluster] interface" if slow else "",
    )


def _resources(
    study: StudyBase, plan: Plan, facts: Mapping[str, dict[str, Any]]
) -> Iterator[Check]:
    jobs = max(
        (int(p.params.get(FAMILIES[p.kind].page.workers) or 0) for p in plan.points.values()),
        default=0,
    )
    local = 1 if study.cluster is None or not study.cluster.is_local else len(facts)
    few = [name for name, fact in facts.items() if fact["cores"] < jobs * local]
    if few:
        yield Check(
            name="cores",
            status="warning",
            what=f"{jobs * local} jobs share fewer cores on "
            f"{', '.join(few) if local == 1 else 'this machine'}",
            fix="use fewer jobs per client, or more clients",
        )
    small = [name for name, fact in facts.items() if 0 <= fact["memlock_bytes"] < _ROOMY_MEMLOCK]
    if small:
        yield Check(
            name="memlock",
            status="warning",
            what=f"less than 64 MiB may be locked on {', '.join(small)}",
            fix="raise it: ulimit -l unlimited",
        )
    loads = {name: fact["load"] / fact["cores"] for name, fact in facts.items()}
    busy = [f"{name} ({load:.0%} of its cores)" for name, load in loads.items() if load > 1 / 4]
    if busy:
        yield Check(
            name="load",
            status="warning",
            what=f"other work runs on {', '.join(busy)}",
            fix="give the clients nothing else to do",
        )
    speeds = {n: fact["nics"] for n, fact in facts.items() if fact["nics"]}
    slowest = {n: min((s for s in nics.values() if s), default=0) for n, nics in speeds.items()}
    if slowest and any(slowest.values()):
        yield _same("network", {n: f"{s / NS_PER_S:g} Gbit/s" for n, s in slowest.items()}, "nics")
