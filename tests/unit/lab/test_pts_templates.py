"""Templates of the SNIA PTS: parameters of the specification, and short forms that say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.units import NS_PER_S
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import LoadedStudy, loaded_study
from storlab.lab.study.templates import template_names, template_text

NAMES = [name for name in template_names() if name.startswith("pts-")]
ROUNDS = {  # template: points of a round, and the tracked metric, size and reads
    "pts-iops": (7 * 8, "iops.all", 4096, 0),
    "pts-throughput": (2 * 2, "throughput_mb_s.all", 1 << 20, 0),
    "pts-latency": (3 * 3, "latency_mean_ns.write", 4096, 0),
    "pts-demand-intensity": (7 * 7, "iops.all", 8192, 65),
}


def study_of(name: str, *, quick: bool = False) -> LoadedStudy:
    return loaded_study(template_text(name, quick=quick), Path(name))


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_of_a_minute_until_the_tracked_variable_is_steady(name: str) -> None:
    loaded = study_of(name)
    points, metric, size, reads = ROUNDS[name]
    plan = make_plan(loaded)
    assert len(plan.points) == points
    assert len(plan.runs) == 25 * points
    assert loaded.study.study.runtime == 60 * NS_PER_S
    assert plan.rounds is not None
    assert plan.rounds.metric == metric
    assert (plan.rounds.excursion_percent, plan.rounds.slope_percent) == (20, 10)
    (tracked,) = plan.rounds.tracked.values()
    params = plan.points[tracked].params
    assert (params["block_size"], params["read_percent"]) == (size, reads)
    before = loaded.study.target[0].precondition
    assert before is not None
    assert (before.fills, before.fill_block_size, before.max_rounds) == (2, 128 << 10, 0)


def test_the_largest_load_of_demand_intensity_is_tracked() -> None:
    plan = make_plan(study_of("pts-demand-intensity"))
    assert plan.rounds is not None
    (tracked,) = plan.rounds.tracked.values()
    loads = {(p.params["jobs"], p.params["queue_depth"]) for p in plan.points.values()}
    params = plan.points[tracked].params
    assert (params["jobs"], params["queue_depth"]) == max(loads) == (32, 32)


@pytest.mark.parametrize("name", ["pts-write-saturation", "pts-cross-stimulus"])
def test_the_tests_of_a_purged_drive_write_once_in_the_given_order(name: str) -> None:
    loaded = study_of(name)
    plan = make_plan(loaded)
    assert (plan.rounds, loaded.study.target[0].precondition) == (None, None)
    assert loaded.study.study.interval == 60 * NS_PER_S
    points = [plan.points[run.point_id] for run in plan.runs]
    assert all(point.params["read_percent"] == 0 for point in points)
    sizes = {"pts-write-saturation": [4096], "pts-cross-stimulus": [1 << 20, 8192, 1 << 20]}
    assert [point.params["block_size"] for point in points] == sizes[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_short_form_is_on_a_file_and_says_that_it_is_no_result(name: str) -> None:
    full, short = study_of(name), study_of(name, quick=True)
    assert "not a PTS result" in short.study.study.name
    assert "not a PTS result" not in full.study.study.name
    assert short.study.target[0].path == f"{name}.dat"
    assert make_plan(short).destructive == []
    assert make_plan(full).destructive == ["/dev/disk/by-id/nvme-FILL-IN"]
    for loaded in (full, short):
        assert "# quick" not in loaded.text
    assert full.study.brief is not None
    assert "Deviations from the specification" in full.study.brief.introduction
    assert short.study.brief is not None
    assert "not a result of the SNIA PTS" in short.study.brief.introduction
