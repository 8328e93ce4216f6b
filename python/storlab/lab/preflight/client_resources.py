"""Preflight checks of the clients' resources: CPU, memory, open files, engines and network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.contracts.check import Check
from storlab.contracts.registry import FAMILIES
from storlab.lab.plan.memory import memory_of
from storlab.lab.preflight.limits import limit_checks
from storlab.lab.preflight.preflight import OWN_FILES
from storlab.model.point import Plan
from storlab.model.study import StudyBase, Target
from storlab.stores.filesystems import MEMORY_FILE_SYSTEMS

Facts = Mapping[str, dict[str, Any]]  # facts by client name
_MUST_BE_SAME = ("storlab", "build")
_ROOMY_MEMLOCK = 64 << 20


def same_check(words: str, values: Mapping[str, str], key: str) -> Check:
    """Check that a fact is the same on all clients; name the clients that differ from most.

    Args:
        words: Name of the check.
        values: The fact's value by client.
        key: The fact's key. A difference in ``storlab`` or ``build`` is an error, else a warning.
    """
    counts = Counter(values.values())
    usual = counts.most_common(1)[0][0]
    others = {name: value for name, value in values.items() if value != usual}
    if not others:
        return Check(name=words, status="ok", what=usual)
    what = f"{usual} on {counts[usual]}, but " + ", ".join(f"{v} on {n}" for n, v in others.items())
    status: Literal["error", "warning"] = "error" if key in _MUST_BE_SAME else "warning"
    return Check(name=words, status=status, what=what, fix="make this the same on all clients")


def resource_checks(study: StudyBase, plan: Plan, facts: Facts) -> Iterator[Check]:
    """Yield checks of the clients' cores, limits, memory, load, open files and engines."""
    yield from _cores(study, plan, facts)
    yield from _limits(study, plan, facts)
    small = [name for name, fact in facts.items() if 0 <= fact["memlock_bytes"] < _ROOMY_MEMLOCK]
    if small:
        yield Check(
            name="memlock",
            status="warning",
            what=f"the limit of locked memory is below 64 MiB on {', '.join(small)}",
            fix="raise the limit: ulimit -l unlimited",
        )
    loads = {name: fact["load"] / fact["cores"] for name, fact in facts.items()}
    busy = [f"{name} ({load:.0%} of its cores)" for name, load in loads.items() if load > 1 / 4]
    if busy:
        yield Check(
            name="load",
            status="warning",
            what=f"other programs run on {', '.join(busy)}",
            fix="end other programs on the clients",
        )
    yield from _open_files(study, plan, facts)
    yield from _memory(study, plan, facts)
    yield from _engines(facts)
    yield from _ways(facts)


def _limits(study: StudyBase, plan: Plan, facts: Facts) -> Iterator[Check]:
    """Yield checks of the cgroup and thread limits of each client, with its name as prefix."""
    points = plan.points.values()
    workers = max((FAMILIES[p.kind].page.load.workers_of(p.params) for p in points), default=0)
    needed = max((memory_of(study, point) for point in points), default=0)
    for name, fact in facts.items():
        known = fact.get("limits")
        for check in limit_checks(known, fact["cores"], workers, needed) if known else ():
            yield check.model_copy(update={"name": f"{name}: {check.name}"})


def _cores(study: StudyBase, plan: Plan, facts: Facts) -> Iterator[Check]:
    jobs = max(
        (int(p.params.get(FAMILIES[p.kind].page.load.workers) or 0) for p in plan.points.values()),
        default=0,
    )
    local = 1 if study.cluster is None or not study.cluster.is_local else len(facts)
    few = [name for name, fact in facts.items() if fact["cores"] < jobs * local]
    if few:
        yield Check(
            name="cores",
            status="warning",
            what=f"there are {jobs * local} jobs, but fewer cores on "
            f"{', '.join(few) if local == 1 else 'this machine'}",
            fix="use fewer jobs per client, or more clients",
        )


def _open_files(study: StudyBase, plan: Plan, facts: Facts) -> Iterator[Check]:
    """Check that each client's hard limit of open files is high enough for the runs.

    The soft limit does not matter: it is raised before a run.
    """
    needs = [
        FAMILIES[p.kind].estimate(p, study.study, study.target_named(p.target)).open_files
        for p in plan.points.values()
    ]
    need = max(needs, default=0) + OWN_FILES
    few = [f"{n} ({f['open_files']:,})" for n, f in facts.items() if f["open_files"] < need]
    if few:
        yield Check(
            name="open files",
            status="error",
            what=f"a client needs about {need:,} open files, which is more than the hard limit "
            f"of {', '.join(few)}",
            fix="raise the limit on these clients: nofile in /etc/security/limits.conf, or the "
            "limit of sshd",
        )


def _memory(study: StudyBase, plan: Plan, facts: Facts) -> Iterator[Check]:
    """Warn if a target without direct I/O fits into a client's page cache."""
    for target in study.target:
        size = plan.data_bytes_by_target.get(target.name, 0)
        if target.direct or target.s3 is not None or not size:
            continue
        roomy = [
            name
            for name, fact in facts.items()
            if size <= fact["memory_bytes"] and not _in_memory(target, fact)
        ]
        if roomy:
            yield Check(
                name="data set",
                status="warning",
                what=f"{target.name}: a client's data set of {format_bytes_si(size)} fits into the "
                f"page cache of {', '.join(roomy)}",
                fix="increase size to more than twice the memory, or set direct = true",
            )


def _in_memory(target: Target, fact: Mapping[str, Any]) -> bool:
    places = fact["mounts"].items()
    own = [mount for place, mount in places if place.endswith(target.directory or "")]
    return any(mount is not None and mount["kind"] in MEMORY_FILE_SYSTEMS for mount in own)


def _engines(facts: Facts) -> Iterator[Check]:
    """Report clients that lack an engine."""
    problems: dict[tuple[str, str], list[str]] = {}
    for name, fact in facts.items():
        for engine, refusal in fact["engines"].items():
            if refusal:
                problems.setdefault((engine, refusal), []).append(name)
    for (engine, refusal), names in problems.items():
        yield Check(
            name=engine,
            status="error",
            what=f"{refusal} on {', '.join(names)}",
            fix="install it on these clients, in a directory on PATH of non-interactive commands",
        )


def _ways(facts: Facts) -> Iterator[Check]:
    """Report clients on which O_DIRECT or io_uring does not work."""
    indirect: dict[str, list[str]] = {}
    for name, fact in facts.items():
        for directory, works in fact.get("direct", {}).items():
            if not works:
                indirect.setdefault(directory, []).append(name)
    for directory, names in indirect.items():
        yield Check(
            name="O_DIRECT",
            status="error",
            what=f"the file system of {directory} does not support O_DIRECT on {', '.join(names)}",
            fix="use another file system, or set direct = false to measure with the page cache",
        )
    without = {name: fact["io_uring"] for name, fact in facts.items() if fact["io_uring"]}
    if without:
        reason = next(iter(without.values()))
        yield Check(
            name="io_uring",
            status="warning",
            what=f"not available on {', '.join(without)} ({reason}): threads (backend posix) "
            "generate the load there, which costs more CPU",
            fix="allow io_uring: kernel.io_uring_disabled = 0, and a container profile that "
            "permits it",
        )


def network_checks(facts: Facts) -> Iterator[Check]:
    """Check that each client has the network interfaces named in ``data_nics``, and their speed."""
    missing = [
        f"{n} has no {', '.join(f['missing_nics'])}" for n, f in facts.items() if f["missing_nics"]
    ]
    if missing:
        yield Check(
            name="network",
            status="error",
            what=f"{'; '.join(missing)}: storlab cannot count bytes on missing interfaces",
            fix="correct data_nics of [cluster] or of [cluster.host.NAME]; `ip link` lists "
            "interfaces",
        )
        return
    unknown = [f"{', '.join(nics)} of {name}" for name, nics in _unknown(facts) if nics]
    if unknown:
        yield Check(
            name="network speed",
            status="warning",
            what=f"the speed of {'; '.join(unknown)} is not reported, so storlab cannot check "
            "whether the network limits these clients",
            fix="name physical interfaces in data_nics",
        )
    slowest = {
        n: min(f["nics"].values())
        for n, f in facts.items()
        if f["nics"] and all(f["nics"].values())
    }
    if slowest:
        speeds = {n: f"{speed / NS_PER_S:g} Gbit/s" for n, speed in slowest.items()}
        yield same_check("network", speeds, "nics")


def _unknown(facts: Facts) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each client with its network interfaces whose speed is unknown."""
    for name, fact in facts.items():
        yield name, [nic for nic, speed in fact["nics"].items() if not speed]
