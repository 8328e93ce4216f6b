"""Laws of preprocessing: parts and bytes of a run, file order, and sums of metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.base.units import NS_PER_S
from storlab.model.result import CpuUse, EngineInfo, RunOutcome
from storlab.model.study import Target
from storlab.workloads.preprocess.job import STAGES
from storlab.workloads.preprocess.metrics import run_metrics, scopes_of
from storlab.workloads.preprocess.params import PreprocessParams
from storlab.workloads.preprocess.rules import (
    ROW_BYTES,
    natural_key,
    needed_memory,
    raw_data,
    written_bytes,
)
from storlab.workloads.preprocess.spec import PreprocessSpec

TARGET = Target(name="t", directory="d")


def params(**changes: Any) -> PreprocessParams:
    (plain,) = PreprocessSpec(kind="preprocess", **changes).values()
    return PreprocessParams.of(plain)


@given(
    st.integers(min_value=1, max_value=10**9),
    st.integers(min_value=1, max_value=500),
    st.integers(min_value=4096, max_value=1 << 30),
)
def test_parts_cover_the_raw_files(rows: int, files: int, part: int) -> None:
    data = raw_data(params(rows=max(rows, files), files=files, part_size=part), TARGET)
    assert (data.rows, data.files) == (max(rows, files), files)
    assert data.bytes == data.rows * ROW_BYTES
    assert data.bytes <= data.parts * part < data.bytes + files * part


@given(
    st.integers(min_value=1, max_value=10**9),
    st.integers(min_value=1, max_value=10**9),
    st.integers(min_value=0, max_value=100),
)
def test_more_rows_and_a_lower_threshold_never_write_less(
    rows: int, more: int, threshold: int
) -> None:
    def written(count: int = rows, **changes: Any) -> int:
        point = params(**{"rows": count, "files": 1, "threshold": threshold} | changes)
        return written_bytes(point, raw_data(point, TARGET))

    assert written() <= written(rows + more)
    assert written(threshold=threshold + 1) <= written()
    assert written(part_size=4096) >= written(part_size=8192)
    assert written(row_group_rows=64) >= written(row_group_rows=128)
    assert written(numerical="float32") - written() == rows * 13 * 2


@given(st.integers(min_value=1, max_value=1024), st.integers(min_value=1, max_value=1 << 20))
def test_what_is_accepted_has_memory_for_its_row_groups(workers: int, rows: int) -> None:
    settings = {"workers": workers, "row_group_rows": rows, "part_size": 64 << 20}
    needed = needed_memory(PreprocessParams.of(settings))
    assert params(**settings, memory=needed).memory == needed
    with pytest.raises(ValueError, match="memory"):
        params(**settings, memory=needed - 1)


@given(
    st.sampled_from(["pandas", "polars"]),
    st.integers(min_value=1, max_value=1024),
    st.integers(min_value=4096, max_value=1 << 30),
)
def test_what_is_accepted_has_memory_for_its_library_and_parts(
    engine: str, workers: int, part: int
) -> None:
    settings = {"workers": workers, "row_group_rows": 8192, "part_size": part}
    needed = needed_memory(PreprocessParams.of({**settings, "implementation": engine}))
    assert needed >= workers * part
    for given_by in ("implementation", "engine"):
        named = {**settings, given_by: engine}
        assert params(**named, memory=needed).memory == needed
        with pytest.raises(ValueError, match="memory"):
            params(**named, memory=needed - 1)


@given(st.lists(st.integers(min_value=0, max_value=10**6), unique=True))
def test_files_are_read_in_the_order_of_their_numbers(numbers: list[int]) -> None:
    days = sorted((Path(f"/d/day_{number}") for number in numbers), key=natural_key)
    assert [int(day.name.removeprefix("day_")) for day in days] == sorted(numbers)


@given(st.sets(st.text(alphabet="ab01_/\u00b2\u0661", min_size=1, max_size=8)))
def test_any_names_have_one_order(names: set[str]) -> None:
    paths = set(map(Path, names))
    assert sorted(paths, key=natural_key) == sorted(sorted(paths), key=natural_key)


TIMES = st.integers(min_value=1, max_value=10**13)
SIZES = st.integers(min_value=1, max_value=10**14)


@st.composite
def runs(draw: st.DrawFn) -> RunOutcome:
    """Draw a run of three stages with gaps between them."""
    clock, stages = 7, []
    for name in STAGES:
        start = clock + draw(st.integers(min_value=0, max_value=10**9))
        clock = start + draw(TIMES)
        stages.append(
            {
                "name": name, "start_ns": start, "end_ns": clock, "rows": 9,
                "input_bytes": draw(SIZES), "cpu_ns": draw(TIMES),
                "peak_memory_bytes": draw(SIZES),
                "device_read_bytes": draw(st.none() | SIZES),
                "device_written_bytes": draw(st.none() | SIZES),
                "resumed_parts": 0,
            }
        )  # fmt: skip
    details = {
        "stages": stages,
        "rows": 9,
        "input_bytes": stages[0]["input_bytes"],
        "output_bytes": draw(SIZES),
        "resumed_parts": 0,
        "peak_memory_bytes": max(stage["peak_memory_bytes"] for stage in stages),
    }
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        window_start_ns=stages[0]["start_ns"],
        window_end_ns=clock,
        samples=[],
        totals={},
        cpu=CpuUse(user_ns=1, system_ns=1, cores=draw(st.integers(min_value=1, max_value=64))),
        details=details,
    )


@given(runs())
def test_the_run_is_its_stages_and_what_lies_between(run: RunOutcome) -> None:
    found = {
        (m.name, m.operation): m.value
        for m in run_metrics(PreprocessParams.of({"workers": 3}), run)
    }
    times = [found["completion_time_s", stage] for stage in STAGES]
    gaps = found["completion_time_s", "all"] - sum(times)
    assert -1e-6 <= gaps <= 2 + 1e-6
    assert sum(found["cpu_s", stage] for stage in STAGES) == pytest.approx(found["cpu_s", "all"])
    for name in ("device_read_mb", "device_written_mb"):
        known = [found[name, stage] for stage in STAGES if (name, stage) in found]
        assert ((name, "all") in found) == (len(known) == len(STAGES))
        if (name, "all") in found:
            assert found[name, "all"] == pytest.approx(sum(known))
    rows = found["rows_s", "all"] * found["completion_time_s", "all"]
    assert rows == pytest.approx(9)
    cost = found["rows_s_per_core", "all"] * found["cpu_us_per_row", "all"] / 1e6
    assert cost == pytest.approx(1)
    raw_gb = found["input_mb_s", "all"] * found["completion_time_s", "all"] / 1000
    assert found["cpu_s_per_gb", "all"] * raw_gb == pytest.approx(found["cpu_s", "all"])


@given(runs(), st.integers(min_value=1, max_value=1024))
def test_no_more_workers_than_cores_are_busy(run: RunOutcome, workers: int) -> None:
    assert run.cpu is not None
    found = {
        (m.name, m.operation): m.value
        for m in run_metrics(PreprocessParams.of({"workers": workers}), run)
    }
    for scope in scopes_of(run):
        busy = found["worker_busy_percent", scope.operation] / 100
        on_cpu = busy * scope.ns * min(workers, run.cpu.cores)
        assert on_cpu == pytest.approx(scope.cpu_ns)
        assert NS_PER_S * scope.seconds == pytest.approx(scope.ns)
