"""Plan of a study: all runs in order, their estimated cost, and what they overwrite.

The repeats of a point are spread over the whole campaign: the repeat is the outermost loop. In each
round, every combination of parameters is run once, in the order of the study file, on all its
targets one after another. Which target goes first rotates with the combination and with the round,
so that a slow drift of the machine affects all targets alike. The order is not random: it is easy
to read, and the same study gives the same plan.

Runs in closed loop that find the maximum for load levels come before all others, with all of their
repeats, because the rates of all load levels follow from them.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storlab.analysis.offered_load import level_of, maxima_first
from storlab.base.errors import PreflightError, Problem, StudyError
from storlab.base.nearest import suggest
from storlab.base.steady import WINDOW
from storlab.base.units import NS_PER_MS, NS_PER_S, format_bytes_si, format_duration
from storlab.contracts.family import Estimate
from storlab.contracts.registry import FAMILIES
from storlab.contracts.services import dividing_family
from storlab.lab.plan.clients import (
    client_places,
    cluster_problems,
    counts_of,
    point_problems,
    target_on,
    written_problems,
)
from storlab.lab.plan.engines import engine_problems
from storlab.lab.plan.memory import run_memory
from storlab.lab.plan.read_files import files_read
from storlab.lab.plan.targets import TargetFacts, device_facts, place_of, store_note, target_facts
from storlab.lab.study.file import LoadedStudy
from storlab.model.point import Plan, PlannedRun, Point, RoundsRule
from storlab.model.study import MOST_POINTS, StudyBase, Target
from storlab.process.host_memory import BUFFER_SHARE, host_memory_bytes, host_memory_text
from storlab.stores.zones import zones_of

LAYOUT_BYTES_S = 500_000_000  # assumed rate of writing data sets, for time estimates
# Assumed rate of writing objects per second, as requests limit the rate of small objects.
LAYOUT_OBJECTS_S = 5_000
# Times measured on two cores, for estimates: of a run beside ramp, window and settle pause (start,
# drain, checks, storing), and of the brief, which shows a limited number of points.
RUN_OVERHEAD_NS = 200 * NS_PER_MS
BRIEF_NS = 3 * NS_PER_S
BRIEF_POINT_NS, BRIEF_POINTS = 200 * NS_PER_MS, 120
MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Visit:
    """One combination of parameters of a workload, as a point on each of its targets."""

    workload_index: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class _Cost:
    """Estimated time and bytes that one target takes over the whole campaign."""

    run_ns: int
    prepare_ns: int
    bytes_written: int
    unbounded_runs: int  # runs whose writes are limited only by their duration
    unbounded_ns: float  # duration of these runs, times their share of writes
    compared_bytes: int  # bytes read before runs to verify data
    writes: bool
    reads: bool


def make_plan(loaded: LoadedStudy, *, searched: bool = False) -> Plan:
    """Make the plan of a study, without opening targets.

    Args:
        loaded: Study with its text.
        searched: Whether a search will set the amount of work; it is then not checked whether the
            work can be divided among the clients.

    Raises:
        StudyError: The study contradicts itself; the error names all targets and fields concerned.
    """
    study = loaded.study
    problems = cluster_problems(study)
    if problems:
        raise loaded.errors([(p.field, p.what, p.fix) for p in problems])
    visits, count = [], 0
    for visit in _visits(study, _targets_by_workload(loaded)):
        visits.append(visit)
        count += len(visit.points)
        if count > MOST_POINTS or count * study.study.repeats > MOST_RUNS:
            raise loaded.error(
                ("study", "repeats"),
                f"the study has more than {MOST_POINTS:,} points (over all targets and numbers of "
                f"clients), or more than {MOST_RUNS:,} runs",
                "list fewer values, or reduce repeats",
            )
    _refuse_duplicates(loaded, visits)
    points = [point for visit in visits for point in visit.points]
    problems = [] if searched else point_problems(points)
    if problems:
        raise loaded.errors([(p.field, p.what, p.fix) for p in problems])
    _check_gate(loaded, points)
    runs = maxima_first(_order(visits, study.study.repeats), {p.point_id: p for p in points})
    plan = plan_of(loaded, points, runs)
    rounds = None if searched else _rounds_rule(loaded, points)
    if rounds is None:
        return plan
    return plan.model_copy(
        update={"rounds": rounds, "notes": [*plan.notes, _rounds_note(loaded, plan)]}
    )


def _rounds_rule(loaded: LoadedStudy, points: Sequence[Point]) -> RoundsRule | None:
    """Return the rule by which targets end when they are steady; None if the study has none.

    Raises:
        StudyError: A target does not have exactly one tracked point, or the metric is unknown.
    """
    spec = loaded.study.study.until_steady
    if spec is None:
        return None
    if any(level_of(point) is not None for point in points):
        raise loaded.error(
            ("study", "until_steady"),
            "conflicts with load_percent: all repeats of the maximum run before the load levels, "
            "so there are no rounds",
            "set repeats instead, and precondition in the target",
        )
    from storlab.analysis.columns import columns_of_all  # loads what few plans need
    from storlab.analysis.points import as_read, matches, page_of

    tracked: dict[str, list[Point]] = {point.target: [] for point in points}
    for point in points:
        page = page_of(point.kind)
        if spec.workload in (None, point.workload) and matches(
            page, point.params, as_read(page, spec.at)
        ):
            tracked[point.target].append(point)
    for target, own in tracked.items():
        if len(own) != 1:
            raise loaded.error(
                ("study", "until_steady"),
                f'must name one point of each target, but matches {len(own)} on "{target}"',
                "give workload and, in at, the values of its lists: "
                'at = { block_size = "4KiB", read_percent = 0 }',
            )
    pages = [page_of(kind) for kind in sorted({own[0].kind for own in tracked.values()})]
    known = columns_of_all(pages)
    columns = [c for c in known if spec.metric in c.names and not c.is_power]
    # Of all operations together, the first is the metric itself, not one derived from it.
    columns = [c for c in columns if c.operation == "all"][:1] or columns
    if len(columns) != 1:
        keys = [column.key for column in columns]
        several = f"is the metric of several operations: {_or(keys)}"
        fix = f'write one of them, such as metric = "{keys[0]}"' if keys else ""
        raise loaded.error(
            ("study", "until_steady", "metric"),
            several if keys else f'no run has the metric "{spec.metric}"',
            fix or suggest(spec.metric, sorted({column.name for column in known})),
        )
    return RoundsRule(
        metric=columns[0].key,
        tracked={target: own[0].point_id for target, own in tracked.items()},
        slope_percent=spec.slope_percent,
        excursion_percent=spec.excursion_percent,
    )


def _rounds_note(loaded: LoadedStudy, plan: Plan) -> str:
    """Return a note on the least number of rounds, because the plan is for the largest."""
    most = loaded.study.study.repeats
    prepare_ns = sum(prepare_ns_by_target(loaded, plan).values())
    runs_ns = sum(plan.estimated_ns_by_target.values()) - prepare_ns
    least_ns = plan.estimated_ns - runs_ns * (most - WINDOW) // most
    return (
        f"until_steady ends a target when it is steady, after {WINDOW} rounds at the earliest: the "
        f"campaign then takes {format_duration(round(least_ns, -9))}; all other numbers here are "
        f"those of {most} rounds, the most"
    )


def _check_gate(loaded: LoadedStudy, points: Sequence[Point]) -> None:
    """Raise StudyError before the first run if a rule of the gate does not match the plan."""
    if not loaded.study.gate:
        return
    from storlab.analysis.gate import check_rules  # loads the analysis, which few plans need
    from storlab.analysis.points import WorkloadPoint

    works = {work.key: work for work in map(WorkloadPoint.of, points)}
    try:
        check_rules(loaded.study.gate, [t.name for t in loaded.study.target], list(works.values()))
    except StudyError as error:
        raise StudyError(f"{loaded.path}: {error.where}", error.what, error.fix) from None


def plan_of(loaded: LoadedStudy, points: Sequence[Point], runs: Sequence[PlannedRun]) -> Plan:
    """Make a plan from given points and runs on the targets of a study, without opening targets.

    Raises:
        StudyError: The study contradicts itself; the error names all targets and fields concerned.
        PreflightError: This machine has too little memory for a run.
    """
    study = loaded.study
    facts = _facts(loaded, points)
    _refuse_impossible(loaded, points, facts)
    _refuse_too_much_memory(study, points)
    counts = Counter(run.point_id for run in runs)
    costs = {t.name: _cost(study, t, facts[t.name], points, counts) for t in study.target}
    written = [t for t in study.target if facts[t.name].kind == "device" and costs[t.name].writes]
    if problems := written_problems(study, written):
        raise loaded.errors([(p.field, p.what, p.fix) for p in problems])
    # No facts yet: clients identify their devices later, see storlab.lab.plan.client_devices.
    clients: dict[str, dict[str, dict[str, str | int]]] = {
        place.name: {path: {} for t in written for path in target_on(t, place).locations}
        for place in (client_places(study) if written else [])
    }
    paths = [path for t in written for path in t.locations]
    destructive = list(dict.fromkeys(p for own in clients.values() for p in own)) or paths
    return Plan(
        study_name=study.study.name,
        study_sha256=loaded.sha256,
        points={point.point_id: point for point in points},
        runs=list(runs),
        estimated_ns=sum(c.run_ns + c.prepare_ns for c in costs.values()) + _brief_ns(points),
        estimated_ns_by_target={n: c.run_ns + c.prepare_ns for n, c in costs.items()},
        bytes_written=sum(c.bytes_written for c in costs.values()),
        data_bytes_by_target={n: f.data_bytes for n, f in facts.items()},
        destructive=destructive,
        devices={} if clients else {p: known for p in destructive if (known := device_facts(p))},
        client_devices=clients,
        files=files_read(study, points, Path.cwd()),
        notes=[*_notes(study, facts, costs), *_level_notes(points), *_zone_notes(study)],
    )


def _targets_by_workload(loaded: LoadedStudy) -> list[list[str]]:
    """Return the target names of each workload: those that it lists, else all suitable ones.

    Raises StudyError if a workload lists an unsuitable target or has none.
    """
    study = loaded.study
    problems: list[tuple[tuple[str | int, ...], str, str]] = []
    names: list[list[str]] = []
    for index, workload in enumerate(study.workload):
        places = FAMILIES[workload.kind].places
        fitting = [target.name for target in study.target if place_of(target) in places]
        needs = f"{workload.kind} workloads run on targets with {_or(places)}"
        for number, name in enumerate(workload.targets or []):
            if name not in fitting:
                field = ("workload", index, "targets", number)
                what = f'"{name}" is a target with {place_of(study.target_named(name))}: {needs}'
                problems.append((field, what, _fix(fitting)))
        if not fitting:
            fix = f"add a target with {_or(places)}, or remove the workload"
            what = f"no target of the study is suitable: {needs}"
            problems.append((("workload", index), what, fix))
        wanted = fitting if workload.targets is None else workload.targets
        names.append([target.name for target in study.target if target.name in wanted])
    if problems:
        raise loaded.errors(problems)
    return names


def _or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _fix(fitting: list[str]) -> str:
    if not fitting:
        return "remove it from targets"
    names = _or([json.dumps(name) for name in fitting])
    return f"remove it from targets; suitable: {names}"


def _visits(study: StudyBase, targets: list[list[str]]) -> Iterable[_Visit]:
    counts = counts_of(study)
    for index, workload in enumerate(study.workload):
        for params, clients in itertools.product(workload.values(), counts):
            engine = workload.engine_of(params) or study.study.engine
            points = tuple(
                Point(
                    target=name,
                    workload=workload.label,
                    workload_index=index,
                    kind=workload.kind,
                    engine=engine,
                    params=params,
                    clients=clients,
                )
                for name in targets[index]
            )
            yield _Visit(index, points)


def _order(visits: list[_Visit], repeats: int) -> Iterable[PlannedRun]:
    order = 0
    for repeat in range(1, repeats + 1):
        for place, visit in enumerate(visits):
            first = (repeat - 1 + place) % len(visit.points)
            for point in visit.points[first:] + visit.points[:first]:
                yield PlannedRun(order=order, repeat=repeat, point_id=point.point_id)
                order += 1


def _refuse_duplicates(loaded: LoadedStudy, visits: list[_Visit]) -> None:
    owner: dict[str, int] = {}
    for visit in visits:
        for point in visit.points:
            earlier = owner.setdefault(point.point_id, visit.workload_index)
            if earlier != visit.workload_index:
                raise loaded.error(
                    ("workload", visit.workload_index),
                    f"has the same parameters and target as workload #{earlier + 1}",
                    'give both workloads different names: name = "..."',
                )


def _facts(loaded: LoadedStudy, points: Sequence[Point]) -> dict[str, TargetFacts]:
    header = loaded.study.study
    facts_of: dict[str, TargetFacts] = {}
    problems: list[tuple[int, Problem]] = []
    for index, target in enumerate(loaded.study.target):
        estimates = [
            FAMILIES[point.kind].estimate(point, header, target)
            for point in points
            if point.target == target.name
        ]
        files = max((estimate.layout_files for estimate in estimates), default=0)
        facts = target_facts(target, files, _made_bytes(estimates))
        if isinstance(facts, Problem):
            problems.append((index, facts))
        else:
            facts_of[target.name] = facts
    if problems:
        raise loaded.errors([(("target", i, *p.field), p.what, p.fix) for i, p in problems])
    return facts_of


def _made_bytes(estimates: Iterable[Estimate]) -> int:
    """Return the bytes of all data sets that the workloads create; a shared one counts once."""
    sizes: dict[str, int] = {}
    for estimate in estimates:
        for data in estimate.data_sets:
            sizes[data.name] = max(sizes.get(data.name, 0), data.bytes)
    return sum(sizes.values())


def _made_objects(estimates: Iterable[Estimate]) -> int:
    """Return the objects in all data sets that the workloads create; a shared set counts once."""
    counts: dict[str, int] = {}
    for estimate in estimates:
        for data in estimate.data_sets:
            counts[data.name] = max(counts.get(data.name, 0), data.objects)
    return sum(counts.values())


def _refuse_impossible(
    loaded: LoadedStudy, points: Sequence[Point], facts: dict[str, TargetFacts]
) -> None:
    study = loaded.study
    sized = {
        t.name: t if t.s3 is not None else t.model_copy(update={"size": facts[t.name].member_bytes})
        for t in study.target
    }
    problems: dict[tuple[tuple[str | int, ...], str], str] = {}
    for point in points:
        target = sized[point.target]
        found = _point_problems(point, target)
        for problem in found or engine_problems(point, study.study, target, facts[target.name]):
            workload = study.workload[point.workload_index]
            where: tuple[str | int, ...] = ("workload", point.workload_index, *problem.field)
            if problem.field == ("engine",) and workload.engine is None:
                where = ("study", "engine")
            elif problem.field[0] not in type(workload).model_fields:
                names = [t.name for t in study.target]
                where = ("target", names.index(point.target), *problem.field)
            problems[where, f'on target "{point.target}": {problem.what}'] = problem.fix
    if problems:
        raise loaded.errors([(where, what, fix) for (where, what), fix in problems.items()])


def _point_problems(point: Point, target: Target) -> list[Problem]:
    """Return the reasons why a point cannot be run on its target.

    This machine is checked only if it generates the load.
    """
    family = FAMILIES[point.kind]
    problems = family.check(point.params, target)
    if not family.writes_zones and (zoned := next(filter(zones_of, target.locations), None)):
        what = f"{zoned} is a zoned drive, on which {point.kind} workloads are not supported"
        return [Problem(("targets",), what, "use block workloads, or another drive")]
    if point.clients is not None and family.groups(point):
        what = "groups cannot run on the clients of a cluster"
        fix = "remove [cluster], or put each group into a workload of its own"
        return [Problem(("group",), what, fix)]
    if not problems and point.clients is None:
        return family.check_machine(point.params)
    return problems


def _refuse_too_much_memory(study: StudyBase, points: Sequence[Point]) -> None:
    for point in points:
        if problem := memory_problem(study, point):
            where = f"workload {point.workload} on {point.target}"
            raise PreflightError(where, problem.what, problem.fix)


def memory_problem(study: StudyBase, point: Point) -> Problem | None:
    """Return a problem if this machine has too little memory for a run, else None.

    A run needs memory for buffers, histograms of workers, and samples. Points that run on clients
    are not checked.
    """
    if point.clients is not None:
        return None
    target = study.target_named(point.target)
    estimate = FAMILIES[point.kind].estimate(point, study.study, target)
    memory, fields = host_memory_bytes(), estimate.buffer_fields
    needed = run_memory(point, estimate, study.study)
    if needed.total <= BUFFER_SHARE * memory:
        return None
    takers, size, change = "buffers", needed.buffers, "smaller"
    if size <= BUFFER_SHARE * memory:
        takers, size = "buffers, histograms and samples", needed.total
        # Smaller buffers do not help if histograms or samples take most of the memory.
        if needed.samples > max(needed.buffers, needed.workers):
            fields, change = ("interval",), "longer"
        elif needed.workers > needed.buffers:
            fields = (FAMILIES[point.kind].page.load.workers or "the number of workers",)
    what = (
        f"its {takers} need {format_bytes_si(size)}, more than half of the "
        f"{host_memory_text()}: {' x '.join(fields)}"
    )
    return Problem(fields[:1], what, f"make {_or(fields)} {change}")


def _cost(
    study: StudyBase,
    target: Target,
    facts: TargetFacts,
    points: Iterable[Point],
    counts: Mapping[str, int],
) -> _Cost:
    header = study.study
    own = [point for point in points if point.target == target.name]
    every = [(FAMILIES[p.kind].estimate(p, header, target), counts[p.point_id]) for p in own]
    most = max((point.clients or 1 for point in own), default=1)
    estimates = [estimate for estimate, _ in every]
    prepare_ns, prepared = 0, 0
    if facts.laid_out or target.precondition is not None:
        fills = 0 if target.precondition is None else target.precondition.fills
        prepared = facts.data_bytes * most * max(1, fills)
        writers = _writers(study, most)
        prepare_ns = prepared * NS_PER_S // (LAYOUT_BYTES_S * writers)
        prepare_ns += _made_objects(estimates) * most * NS_PER_S // (LAYOUT_OBJECTS_S * writers)
    if target.precondition is not None:
        prepare_ns += target.precondition.max_rounds * target.precondition.round
    unbounded = [(e, count) for e, count in every if e.bytes_written is None]
    written = sum(
        (estimate.bytes_written or 0) * count * _times_done(point)
        for point, (estimate, count) in zip(own, every, strict=True)
    )
    compared_bytes, compared_ns = comparisons(every)
    return _Cost(
        run_ns=sum((e.duration_ns + RUN_OVERHEAD_NS) * count for e, count in every) + compared_ns,
        prepare_ns=prepare_ns,
        bytes_written=prepared + written,
        unbounded_runs=sum(count for _, count in unbounded),
        unbounded_ns=sum(e.duration_ns * e.write_share * count for e, count in unbounded),
        compared_bytes=compared_bytes,
        writes=target.precondition is not None or any(e.writes for e in estimates),
        reads=any(e.reads for e in estimates),
    )


def _brief_ns(points: Sequence[Point]) -> int:
    """Return the estimated time of writing the brief, in nanoseconds."""
    work = {(point.workload_index, repr(point.params), point.clients) for point in points}
    return BRIEF_NS + BRIEF_POINT_NS * min(len(work), BRIEF_POINTS)


def _by_whom(study: StudyBase) -> str:
    """Return to which machines the assumed write rate applies, as a phrase for a note."""
    if study.cluster is None:
        return ""
    return " for all clients of this machine together" if study.cluster.is_local else " per client"


def _writers(study: StudyBase, clients: int) -> int:
    """Return how many machines write data sets in parallel; local clients count as one."""
    return 1 if study.cluster is None or study.cluster.is_local else clients


def _times_done(point: Point) -> int:
    """Return how many times the work of a point is done in one run.

    It is done once if the clients divide it among themselves, else once per client.
    """
    return 1 if dividing_family(point.kind) is not None else point.clients or 1


def _notes(
    study: StudyBase,
    facts: dict[str, TargetFacts],
    costs: dict[str, _Cost],
) -> Iterable[str]:
    if any(c.prepare_ns for c in costs.values()):
        yield (
            "times assume that data sets are written at "
            f"{format_bytes_si(LAYOUT_BYTES_S)}/s and {LAYOUT_OBJECTS_S:,} objects/s"
            f"{_by_whom(study)}, for any target, and that preconditioning takes max_rounds"
        )
    fixed = sorted({w.kind for w in study.workload if FAMILIES[w.kind].fixed_work})
    if fixed:
        yield (
            f"{' and '.join(fixed)} runs end when their work is done: ramp and runtime have no "
            "effect on them, and their duration is an estimate"
        )
    unbounded = sum(c.unbounded_runs for c in costs.values())
    # A rate of 1 GB/s is 1 byte per ns, so the time in ns is the number of bytes at that rate.
    unbounded_bytes = sum(c.unbounded_ns for c in costs.values())
    if unbounded:
        yield (
            f"{unbounded:,} runs write as much as the target accepts in a fixed time; the sum does "
            f"not include their bytes: {format_bytes_si(unbounded_bytes)} per GB/s of throughput"
        )
    compared = sum(c.compared_bytes for c in costs.values())
    if compared:
        yield (
            f"before their load, the runs read {format_bytes_si(compared)} in total to verify the "
            "data; the estimate includes this time"
        )
    for target in study.target:
        fact, cost = facts[target.name], costs[target.name]
        if fact.kind == "device" and cost.reads and target.precondition is None:
            yield (
                f"{target.name}: used without preconditioning; blocks that were never written may "
                "be read without accessing the medium (set precondition to write them first)"
            )
    for target in study.target:
        if target.s3 is not None and costs[target.name].run_ns:
            yield f"{target.name}: {store_note(target)}"
    if study.cluster is not None:
        divided = sorted({w.kind for w in study.workload if dividing_family(w.kind) is not None})
        if len(divided) < len({w.kind for w in study.workload}):
            yield (
                "each client runs the whole workload: jobs, queue depth, rate, size and files are "
                "per client"
            )
        if divided:
            yield f"{' and '.join(divided)} runs are divided: each client does a part of the work"
    unused = [t.name for t in study.target if costs[t.name].run_ns == 0]
    for name in unused:
        yield f"{name}: no workload runs on this target"


def _level_notes(points: Sequence[Point]) -> Iterable[str]:
    levels = sum(level_of(point) is not None for point in points)
    if levels:
        yield (
            f"{levels:,} points have a load level: their rates are percentages of the maxima that "
            "the first runs find, separately on each target"
        )


def _zone_notes(study: StudyBase) -> Iterable[str]:
    for target in study.target:
        for path in target.locations:
            if zones := zones_of(path):
                yield f"{target.name}: {path} is a {zones.text}; each zone is written in order"


def crowded_runs(plan: Plan, cores: int) -> tuple[int, int]:
    """Return how many runs have more workers than the machine has cores, and the most workers.

    The result depends on the machine, so it is not part of the plan.
    """
    crowded = []
    for run in plan.runs:
        point = plan.points[run.point_id]
        workers = FAMILIES[point.kind].page.load.workers_of(point.params) * _times_done(point)
        crowded += [workers] if workers > cores else []
    return len(crowded), max(crowded, default=0)


def absent_devices(study: StudyBase) -> dict[str, list[str]]:
    """Return the paths of the study's devices that do not exist on this machine, by target."""
    absent: dict[str, list[str]] = {}
    for target in study.target:
        facts = target_facts(target, files=1)
        if isinstance(facts, TargetFacts) and facts.absent:
            absent[target.name] = list(facts.absent)
    return absent


def prepare_ns_by_target(loaded: LoadedStudy, plan: Plan) -> dict[str, int]:
    """Return the estimated preparation time of each target, in nanoseconds."""
    header = loaded.study.study
    left = dict(plan.estimated_ns_by_target)
    every: dict[str, list[tuple[Estimate, int]]] = {name: [] for name in left}
    for point_id, count in Counter(run.point_id for run in plan.runs).items():
        point = plan.points[point_id]
        target = loaded.study.target_named(point.target)
        every[point.target].append((FAMILIES[point.kind].estimate(point, header, target), count))
    for name, estimates in every.items():
        left[name] -= sum((e.duration_ns + RUN_OVERHEAD_NS) * count for e, count in estimates)
        left[name] -= comparisons(estimates)[1]
    return left


def comparisons(every: Iterable[tuple[Estimate, int]]) -> tuple[int, int]:
    """Return the bytes and the time (ns) of reads that verify the data of a target before runs.

    Both are upper bounds: if any run writes, the data are assumed to be verified before each run.

    Args:
        every: Estimates of the target's points, each with its number of runs.
    """
    estimates = list(every)
    changes = any(estimate.writes for estimate, _ in estimates)
    once: dict[str, Estimate] = {}
    size = length = 0
    for estimate, count in estimates:
        key = estimate.compared_once
        if key and not changes:  # the largest read covers the others
            once[key] = max(once.get(key, estimate), estimate, key=lambda e: e.compared_bytes)
        else:
            size += estimate.compared_bytes * count
            length += estimate.compared_ns * count
    size += sum(estimate.compared_bytes for estimate in once.values())
    return size, length + sum(estimate.compared_ns for estimate in once.values())
