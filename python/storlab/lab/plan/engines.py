"""Checks of whether an engine can run the points of a study, without starting anything."""

from __future__ import annotations

from pathlib import Path

from storlab.base.errors import EngineError, Problem
from storlab.contracts.engine import ChecksPlans
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.lab.plan.targets import PlaceKind, TargetFacts
from storlab.model.job import Member, MemberKind
from storlab.model.point import Point
from storlab.model.study import Header, Target

_KINDS: dict[PlaceKind, MemberKind] = {
    "directory": "file",
    "file": "file",
    "device": "block_device",
    "null": "null",
}


def engine_problems(
    point: Point, header: Header, target: Target, facts: TargetFacts
) -> list[Problem]:
    """Return why a point's engine cannot run it, without opening targets or starting programs.

    Points that run on clients are not checked by the engine, since some limits, such as NUMA nodes,
    depend on the machine.
    """
    family = FAMILIES[point.kind]
    if problems := family.check_engine(point.params, point.engine):
        return problems
    if point.clients is not None:
        return []
    try:
        engine = get_engine(point.engine)
    except EngineError:
        return []  # preflight reports an engine that cannot be loaded
    members = _members(target, facts) if isinstance(engine, ChecksPlans) else []
    if not isinstance(engine, ChecksPlans) or not members:
        return []
    context = JobContext(header, target, Access(members), seed=header.seed, work_dir=Path())
    try:
        job = family.job(point, context)
    except ValueError:
        return []  # preflight reports a target that is too small
    problem = engine.problem(job)
    return [] if problem is None else [problem]


def _members(target: Target, facts: TargetFacts) -> list[Member]:
    """Return the files or devices that a run would use; empty if their size is unknown."""
    if facts.kind == "s3" or facts.member_bytes is None:
        return []
    paths: list[str] = list(target.locations)
    if target.directory is not None:
        paths = [f"{target.directory}/{number}" for number in range(facts.members)]
    size, kind = facts.member_bytes, _KINDS[facts.kind]
    return [Member(path=p, name=p, kind=kind, size=size, offset=target.offset) for p in paths]
