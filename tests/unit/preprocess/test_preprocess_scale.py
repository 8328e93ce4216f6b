"""``[workload.scale]``: from a study's table to job, memory and flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.analysis.points import describe, page_of
from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES
from storlab.engines.dask.costs import DASK
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.result import EngineInfo, RunOutcome
from storlab.model.study import Header, Target
from storlab.workloads.preprocess.job import PreprocessJob, ScaledJob
from storlab.workloads.preprocess.metrics import run_flags
from storlab.workloads.preprocess.params import PreprocessParams
from storlab.workloads.preprocess.rules import usable_cores

PREPROCESS = FAMILIES["preprocess"]
TARGET = Target(name="t", directory="d")
HEADER = Header(name="s")
HEAD = '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "."\n'
ADDRESS = "tcp://10.0.0.1:8786"
SCALE = f'[workload.scale]\nengine = "dask"\nscheduler = "{ADDRESS}"\n'
LOCAL = '[workload.scale]\nengine = "dask"\n'


def points(lines: str) -> list[Point]:
    study = parse_study(f'{HEAD}[[workload]]\nkind = "preprocess"\n{lines}')
    spec = study.workload[0]
    return [
        Point(
            target="t",
            workload="w",
            workload_index=0,
            kind="preprocess",
            engine=spec.engine_of(params) or "native",
            params=params,
        )
        for params in spec.values()
    ]


def job(point: Point) -> PreprocessJob:
    access = Access(home=Path("/d/storlab-data"))
    context = JobContext(HEADER, TARGET, access, seed=7, work_dir=Path("w"), run_id="p-r1")
    made = PREPROCESS.job(point, context)
    assert isinstance(made, PreprocessJob)
    return made


def refused(lines: str) -> tuple[str, str]:
    with pytest.raises(StudyError) as caught:
        points(lines)
    (problem, *_) = caught.value.problems
    return f"{problem['where'].split()[-1]}: {problem['what']}", problem["fix"]


def test_a_study_without_it_has_the_points_that_it_had() -> None:
    (plain,) = points("")
    assert "scale" not in plain.params
    assert type(job(plain)) is PreprocessJob


def test_the_scale_names_the_engine_and_its_scheduler() -> None:
    (point,) = points(f"workers = 3\n{SCALE}")
    assert point.engine == "dask"
    made = job(point)
    assert isinstance(made, ScaledJob)
    assert (made.scheduler, made.workers, made.memory_bytes) == (ADDRESS, 3, 4 << 30)
    assert ScaledJob.model_validate_json(made.model_dump_json()) == made
    (local,) = points(LOCAL)
    assert local.engine == "dask"
    assert type(job(local)) is PreprocessJob


def test_implementations_are_compared_beside_it() -> None:
    native, dask = points(f'implementation = ["native", "dask"]\n{SCALE}')
    assert (native.engine, dask.engine) == ("native", "dask")
    assert type(job(native)) is PreprocessJob  # the native engine has no scheduler
    assert isinstance(job(dask), ScaledJob)
    without = {name: value for name, value in native.params.items() if name != "implementation"}
    assert without == {n: v for n, v in dask.params.items() if n != "implementation"}


def test_memory_of_each_worker_is_memory_in_all() -> None:
    swept = points(f'workers = [1, 4]\n{LOCAL}memory = "1GiB"\n')
    assert [point.params["memory"] for point in swept] == [
        DASK.base_bytes + (1 << 30),
        DASK.base_bytes + 4 * (1 << 30),
    ]
    for point in swept:
        made = job(point)
        assert (made.memory_bytes - DASK.base_bytes) // made.workers == 1 << 30


@pytest.mark.parametrize(
    ("lines", "field", "cure"),
    [
        (f'memory = "8GiB"\n{LOCAL}memory = "1GiB"\n', "memory: ", "remove one of the two"),
        (f'implementation = "native"\n{SCALE}', "implementation: ", 'add "dask"'),
        (f'engine = "native"\n{SCALE}', "engine: ", "remove one of the two"),
        ('[workload.scale]\nengine = "spark"\n', "scale.engine: ", ""),
        ('[workload.scale]\nengine = "dask"\nscheduler = "10.0.0.1"\n', "scale.scheduler: ", ""),
        ('[workload.scale]\nscheduler = "tcp://x:1"\n', "scale.engine: ", ""),
        (f"{LOCAL}workers = 3\n", "scale.workers: ", ""),
        (f'workers = 2\n{LOCAL}memory = "200MiB"\n', "scale.memory: 592MiB", ""),
        (f'memory = "256MiB"\n{LOCAL}', "memory: 256MiB is too small for dask", ""),
    ],
)
def test_contradictions_are_refused(lines: str, field: str, cure: str) -> None:
    message, fix = refused(lines)
    assert message.startswith(field)
    assert cure in fix


def test_cores_of_this_machine_do_not_bound_a_cluster_elsewhere() -> None:
    workers = 4 * usable_cores()
    lines = f'rows = 1_000_000\nworkers = {workers}\npart_size = "1MiB"\n'
    here = PREPROCESS.estimate(points(f'{lines}{LOCAL}memory = "1GiB"')[0], HEADER, TARGET)
    there = PREPROCESS.estimate(points(f'{lines}{SCALE}memory = "1GiB"')[0], HEADER, TARGET)
    assert any("share the" in caution for caution in here.cautions)
    assert there.cautions == ()
    start_ns = 5 * NS_PER_S
    assert here.duration_ns - start_ns == pytest.approx(4 * (there.duration_ns - start_ns))


def test_a_page_names_the_cluster() -> None:
    (point,) = points(SCALE)
    page = page_of("preprocess")
    assert f"cluster of {ADDRESS}" in describe(page, point.params, ["scale"])
    assert "processes" in describe(page, points(LOCAL)[0].params, ["scale"])


def outcome(cluster: dict[str, Any] | None) -> RunOutcome:
    found = RunOutcome(
        status="finished",
        engine=EngineInfo(name="dask", version="1"),
        window_start_ns=0,
        window_end_ns=NS_PER_S,
        samples=[],
        totals={},
        cpu=None,
    )
    found.details = {"stages": [], "rows": 1, "peak_memory_bytes": 1}
    if cluster is not None:
        found.details["cluster"] = cluster
    return found


def flags(**cluster: Any) -> dict[str, str]:
    (point,) = points(SCALE)
    known = {"scheduler": ADDRESS, "worker_limit_bytes": 1000, "worker_peak_bytes": 900}
    found = run_flags(PreprocessParams.of(point.params), outcome({**known, **cluster}))
    return {flag.kind: flag.message for flag in found}


def test_workers_elsewhere_are_flagged_with_their_cpu() -> None:
    used = {"user_ns": 2 * NS_PER_S, "system_ns": NS_PER_S}
    near = {"address": "a", "host": "near", "remote": False, **used}
    far = [{"address": f"b{n}", "host": "far", "remote": True, **used} for n in range(2)]
    message = flags(workers=[near, *far])["remote-workers"]
    assert message.startswith("2 workers on far used 6 s of CPU")
    assert "remote-workers" not in flags(workers=[near])


def test_lost_workers_and_exceeded_limits_are_flagged() -> None:
    assert flags() == {}
    assert flags(lost_workers=1)["workers-lost"].startswith("1 worker was lost")
    assert flags(lost_workers=2)["workers-lost"].startswith("2 workers were lost")
    assert "more than its part" in flags(worker_peak_bytes=1001)["memory-exceeded"]
    (point,) = points("")
    assert run_flags(PreprocessParams.of(point.params), outcome(None)) == []
