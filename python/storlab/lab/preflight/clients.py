"""Preflight checks of a cluster: asks all clients for facts about them, and checks these."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import storlab
from storlab.base.units import format_bytes_si, format_latency
from storlab.cluster.client_facts import code_digest
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.session import Gathered
from storlab.cluster.task import ClientPlace
from storlab.contracts.check import Check
from storlab.contracts.registry import FAMILIES
from storlab.contracts.services import dividing_family
from storlab.lab.plan.client_devices import SHARED, SHARED_FIX, device_paths, shared_devices
from storlab.lab.preflight.client_resources import network_checks, resource_checks, same_check
from storlab.lab.preflight.client_stores import client_store_checks, granted_stores
from storlab.lab.preflight.power import power_checks
from storlab.lab.site.clients import SILENT_FIX, Answers, Clients, ask_each, renumbered
from storlab.model.point import Plan
from storlab.model.result import Failure
from storlab.model.study import StudyBase, Target
from storlab.stores.data_file import is_kernel_place
from storlab.stores.directory_lease import FIX as LEASE_FIX
from storlab.stores.s3.target import S3Hold

DRIFT_NS = 1_000_000
_SAME = {
    "storlab": "version of storlab",
    "build": "build of storlab",
    "native": "native library",
    "python": "version of Python",
    "kernel": "kernel",
    "cpu_level": "instruction set level of the processor",
}
_MAKE = "create the target's directory, and let this user write to it on all clients"


def check_clients(
    study: StudyBase,
    plan: Plan,
    clients: Clients,
    base: Path,
    *,
    campaign: str = "",
    resumed: bool = False,
    stores: Mapping[str, S3Hold] | None = None,
) -> tuple[list[Check], dict[str, Any]]:
    """Ask all clients of a study for facts about them, and check these; write only small files.

    If the clients cannot be started together, each is asked separately, so that those that do not
    answer are named and the others are still checked.

    Args:
        study: Study to check.
        plan: Plan of the study.
        clients: Clients of the cluster.
        base: Directory that relative paths start from.
        campaign: Id of the campaign, or empty.
        resumed: Whether the campaign has run before.
        stores: S3 stores that the guard has already locked, by target.

    Returns:
        The checks, and the facts of each client by its name.
    """
    everybody = clients.places(clients.most)
    store_checks, granted = granted_stores(study, plan, base, stores or {})
    arguments = check_arguments(study, plan, base, campaign) | {"granted": granted}
    directory = Path(tempfile.mkdtemp(prefix="storlab-check-"))
    answers = Answers()
    try:
        gathered = _ask(clients, everybody, directory, arguments)
        failure, facts = gathered.failure, _facts(gathered, everybody)
        if failure is not None and len(everybody) > 1 and not clients.cluster.is_local:
            answers = ask_each(clients, everybody, directory / "each", arguments)
            facts = answers.facts
            rest = renumbered([place for place in everybody if place.name in facts])
            if rest and answers.silent:
                gathered = _ask(clients, rest, directory, arguments)
                facts = _facts(gathered, rest) if gathered.failure is None else facts
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    checks = [_answering(answers, gathered, failure, len(everybody)), *store_checks]
    if gathered.failure is None:
        _tell_clocks(facts, gathered.clocks)
    elif facts and answers.facts:
        # Empty clocks mean "asked separately": then clients could not see each other's files.
        gathered = replace(gathered, clocks=[])
    else:
        return checks, facts
    checks += _checks(
        study, plan, facts, gathered.clocks, base, resumed=resumed, asked=len(everybody)
    )
    return checks, facts


def check_arguments(study: StudyBase, plan: Plan, base: Path, campaign: str) -> dict[str, Any]:
    """Return the arguments of the clients' ``check`` task: what each client should examine."""
    points = plan.points.values()
    used = [
        target
        for target in study.target
        if target.directory is not None and any(point.target == target.name for point in points)
    ]
    unbuffered = {p.target for p in points if not FAMILIES[p.kind].page.load.buffered}
    return {
        "shared": [str(base / (target.directory or "")) for target in used],
        "direct": [
            str(base / (target.directory or ""))
            for target in used
            if target.direct and target.name in unbuffered
        ],
        "engines": sorted({point.engine for point in points}),
        "paths": device_paths(study, plan),
        "mount": None if study.cluster is None else study.cluster.mount,
        "campaign": campaign,
    }


def _ask(
    clients: Clients, chosen: Sequence[ClientPlace], directory: Path, arguments: dict[str, Any]
) -> Gathered:
    session = clients.begin("check", chosen, directory / "task", arguments)
    try:
        while (gathered := session.wait(1.0)) is None:
            pass
    finally:
        session.end()
    return gathered


def _facts(gathered: Gathered, chosen: Sequence[ClientPlace]) -> dict[str, Any]:
    return {
        place.name: json.loads(gathered.outcomes[place.rank])
        for place in chosen
        if place.rank in gathered.outcomes
    }


def _tell_clocks(facts: Mapping[str, Any], clocks: Sequence[Mapping[str, ClockOffset]]) -> None:
    for name, fact in facts.items():
        first, second = clocks[0][name], clocks[-1][name]
        fact["clock"] = {
            "offset_ns": first.offset_ns,
            "round_trip_ns": first.round_trip_ns,
            "drift_ns": second.offset_ns - first.offset_ns,
        }


def _answering(answers: Answers, gathered: Gathered, first: Failure | None, asked: int) -> Check:
    """Return a check that tells whether all clients answer, and which do not.

    Args:
        answers: Answers of clients that were asked separately.
        gathered: Answers of the responding clients when they were asked together again.
        first: Failure when all clients were asked together, or None.
        asked: Number of clients asked.
    """
    if first is None:
        return Check(name="cluster", status="ok", what=f"{asked} clients answer")
    if not answers.silent:
        alone = "each client answers separately, but not all together: " if answers.facts else ""
        return Check(name="cluster", status="error", what=alone + first.message, fix=first.fix)
    what = f"{len(answers.facts)} of {asked} clients answer; {answers.told}"
    if answers.facts and gathered.failure is not None:
        what += f"; these answer separately, but not together: {gathered.failure.message}"
    return Check(name="cluster", status="error", what=what, fix=SILENT_FIX)


def _checks(
    study: StudyBase,
    plan: Plan,
    facts: Mapping[str, dict[str, Any]],
    clocks: Sequence[Mapping[str, ClockOffset]],
    base: Path = Path("/"),
    *,
    resumed: bool = False,
    asked: int | None = None,
) -> Iterator[Check]:
    """Yield all checks of the facts that the clients reported.

    Args:
        study: Study to check.
        plan: Plan of the study.
        facts: Facts by client.
        clocks: Clock offsets by client, one dict per measurement; empty if clients were asked
            separately.
        base: Directory that relative paths start from.
        resumed: Whether the campaign has run before.
        asked: Number of clients of the study, if not all of them answered.
    """
    yield _code_check(facts)
    for key, words in _SAME.items():
        yield same_check(words, {name: str(fact[key]) for name, fact in facts.items()}, key)
    yield from _mounts(study, facts)
    yield from _devices(facts)
    yield from _shared_devices(plan, facts)
    yield from client_store_checks(facts)
    yield from _shared(facts, together=bool(clocks))
    yield from _claimed(facts)
    yield from _space(study, plan, facts, asked or len(facts), base, resumed)
    if clocks:
        yield from _clocks(clocks)
    yield from resource_checks(study, plan, facts)
    yield from network_checks(facts)
    for target in study.target:
        if any(point.target == target.name for point in plan.points.values()):
            for check in power_checks(target, base):
                yield check.model_copy(update={"name": f"{target.name}: {check.name}"})


def _code_check(facts: Mapping[str, dict[str, Any]]) -> Check:
    """Check that all clients have the same Python code of storlab as this machine."""
    own = code_digest(Path(storlab.__file__).parent)
    others = sorted(name for name, fact in facts.items() if fact["code"] != own)
    if not others:
        return Check(name="Python code of storlab", status="ok", what=own)
    return Check(
        name="Python code of storlab",
        status="error",
        what=f"{', '.join(others)} have other code than this machine ({own}), even if the version "
        "is the same: runs would mix two programs",
        fix="install the same build of storlab on all clients, and on this machine",
    )


def _mounts(study: StudyBase, facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    mount = None if study.cluster is None else study.cluster.mount
    if mount is None:
        return
    missing: dict[tuple[str, str], list[str]] = {}
    for name, fact in facts.items():
        for directory, mounted in fact["mounts"].items():
            if mounted is None:
                missing.setdefault((fact["mount"], directory), []).append(name)
    for (own, directory), names in missing.items():
        yield Check(
            name="mount",
            status="error",
            what=f"no file system is mounted at {own} on {', '.join(names)}, nor between it and "
            f"{directory}: the load would go to their own disks",
            fix="mount the shared file system on these clients, or correct mount of [cluster] or "
            "of [cluster.host.NAME]",
        )
    if not missing:
        yield from _like_mounts(facts)


def _devices(facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """Check that each client has the devices that the study names for it."""
    every = [
        (f"{path} on {name}", is_there)
        for name, fact in facts.items()
        for path, is_there in fact["devices"].items()
        if is_kernel_place(Path(path))
    ]
    missing = [place for place, is_there in every if not is_there]
    if missing:
        yield Check(
            name="devices",
            status="error",
            what=f"these paths are no block devices: {', '.join(missing)}",
            fix='set the path on a client in [cluster.host.NAME.target."..."]',
        )
    elif every:
        yield Check(name="devices", status="ok", what=f"{len(every)} found on {len(facts)} clients")


def _shared_devices(plan: Plan, facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """Check that no two clients would write to the same device."""
    pairs = list(shared_devices(plan, facts))
    if sure := [pair for pair in pairs if pair.sure]:
        what = f"{'; '.join(map(str, sure))} {SHARED}"
        yield Check(name="devices", status="error", what=what, fix=SHARED_FIX)
    elif pairs:
        yield Check(
            name="devices",
            status="warning",
            what=f"{pairs[0].first} and {pairs[0].second} have the same name ({pairs[0].name}), as "
            f"different virtual drives may have; if they are the same device, it {SHARED}",
            fix=SHARED_FIX,
        )


def _like_mounts(facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """Check that mounts have the same type, server and options on all clients.

    Findings that are equal for several mounts are reported once.
    """
    told: set[str] = set()
    for directory in next(iter(facts.values()))["mounts"]:
        for key, words in (("kind", "type"), ("source", "server"), ("options", "options")):
            values = {name: str(fact["mounts"][directory][key]) for name, fact in facts.items()}
            check = same_check(f"mount {words}", values, key)
            if check.model_dump_json() not in told:
                yield check
            told.add(check.model_dump_json())


def _claimed(facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """Check that no other campaign uses the directory of a target."""
    claimed = {d: who for fact in facts.values() for d, who in fact.get("claimed", {}).items()}
    if claimed:
        what = "; ".join(f"{directory} is in use by {who}" for directory, who in claimed.items())
        yield Check(name="campaigns", status="error", what=what, fix=LEASE_FIX)


def _shared(facts: Mapping[str, dict[str, Any]], *, together: bool) -> Iterator[Check]:
    """Check that each client sees the files that others write to the directory of a target."""
    bad = [f"{n}: {d}: {why}" for n, fact in facts.items() for d, why in fact["problems"].items()]
    if bad:
        fixes = dict.fromkeys(
            fact.get("fixes", {}).get(d, _MAKE) for fact in facts.values() for d in fact["problems"]
        )
        yield Check(name="directory", status="error", what="; ".join(bad), fix="; ".join(fixes))
        return
    if not together:
        return
    everybody = set(facts)
    blind = {name: everybody - set(fact["sees"]) for name, fact in facts.items()}
    unseen = {name: others for name, others in blind.items() if others}
    if unseen:
        name, others = next(iter(unseen.items()))
        yield Check(
            name="shared",
            status="error",
            what=f"{name} does not see files of {', '.join(sorted(others)[:5])}, so the "
            f"directory is not shared ({len(unseen)} of {len(facts)} clients miss files)",
            fix="mount the same file system on all clients",
        )
    else:
        yield Check(name="shared", status="ok", what="every client sees the files of all others")


def _space(
    study: StudyBase,
    plan: Plan,
    facts: Mapping[str, dict[str, Any]],
    clients: int,
    base: Path,
    resumed: bool,
) -> Iterator[Check]:
    """Check that directories have enough free space for the data sets.

    Too little space is only a warning if a data set may exist already, in a resumed campaign or
    with ``keep_data``.
    """
    for target in study.target:
        needed = _needed_bytes(study, plan, target, clients)
        if target.directory is None or not needed:
            continue
        place = str(base / target.directory)
        told = [fact["free"][place] for fact in facts.values() if place in fact.get("free", {})]
        free = min(told, default=0)
        what = f"{target.name} needs {format_bytes_si(needed)}, {format_bytes_si(free)} are free"
        status: Literal["error", "warning", "ok"] = "error" if needed > free else "ok"
        if status == "error" and (resumed or target.keep_data):
            status, what = "warning", f"{what}; data that exist already need no more space"
        yield Check(name="space", status=status, what=what, fix="reduce size")


def _needed_bytes(study: StudyBase, plan: Plan, target: Target, clients: int) -> int:
    """Return the bytes that a target needs for all clients; data that they share count once."""
    shared: dict[str, int] = {}
    for point in plan.points.values():
        offer = dividing_family(point.kind)
        if point.target == target.name and offer is not None and offer.shares_data:
            estimate = FAMILIES[point.kind].estimate(point, study.study, target)
            for data in estimate.data_sets:
                shared[data.name] = max(shared.get(data.name, 0), data.bytes)
    once = sum(shared.values())
    return (plan.data_bytes_by_target.get(target.name, 0) - once) * clients + once


def _clocks(clocks: Sequence[Mapping[str, ClockOffset]]) -> Iterator[Check]:
    first, second = clocks[0], clocks[-1]
    worst = max(first, key=lambda name: first[name].round_trip_ns)
    known_ns = first[worst].round_trip_ns / 2
    drift_ns = max(abs(second[n].offset_ns - first[n].offset_ns) for n in first)
    slow = known_ns > DRIFT_NS
    yield Check(
        name="clocks",
        status="warning" if slow else "ok",
        what=f"offsets are known to {format_latency(known_ns)} at worst ({worst}); two "
        f"measurements differ by {format_latency(drift_ns)}",
        fix="use a faster network for MPI: [cluster] interface" if slow else "",
    )
