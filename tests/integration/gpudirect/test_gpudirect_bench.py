"""The GPUDirect bench: its bare loop does the counted work, and its goals are judged."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import need_program
from support.gpu_simulators import faults
from support.gpudirect_jobs import gdsio_standin

BENCHES = Path(__file__).parents[3] / "benches"
OWN = ("gpudirect", "gpudirect_study", "gpudirect_tools", "surroundings", "tools", "native_run")


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHES))
        import gpudirect

        yield gpudirect
    gpudirect.tools.remove_programs()
    for name in OWN:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("path", "api", "depth"),
    [
        ("direct", "sync", 1),
        ("direct", "batch", 8),
        ("direct", "async", 4),
        ("host", "sync", 1),
        ("bounce", "sync", 1),
        ("bounce-overlapped", "sync", 2),
    ],
)
def test_the_bare_loop_moves_what_it_says(
    bench: ModuleType, tmp_path: Path, path: str, api: str, depth: int
) -> None:
    need_program("cc")
    tools: Any = bench.tools
    with tools.data_files(tmp_path, 1, 1 << 20) as files:
        load = tools.Load(path, api, 4096, depth, files, 1 << 20, direct=False)
        reading = tools.bare(load, 0.1, tools.simulated())
    assert reading.bytes == 4096 * reading.operations > 0
    assert reading.seconds >= 0.1
    assert reading.cpu_us_per_io >= reading.user_us_per_io >= 0
    assert not list(tmp_path.iterdir())


def test_both_sides_of_a_turn(bench: ModuleType, tmp_path: Path) -> None:
    need_program("cc")
    need_program("taskset")
    cpu = max(os.sched_getaffinity(0))
    options = argparse.Namespace(directory=tmp_path, rounds=1, seconds=0.1, cpu=cpu)
    rows = bench.own_code(options)
    assert [(row["path"], row["api"], row["depth"]) for row in rows] == list(bench.PATHS)
    for row in rows:
        assert row["own_us"] == pytest.approx(row["ours_us"] - row["bare_us"])
    assert len(bench.own_goals(rows)) == len(rows)


def row(gb_s: float, cpu_s_per_gb: float | None = 0.1) -> dict[str, float | None]:
    return {"gb_s": gb_s, "cpu_s_per_gb": cpu_s_per_gb}


@pytest.mark.parametrize(("overlapped", "met"), [(6.66, True), (6.64, False)])
def test_the_overlapped_bounce_is_held_against_the_smaller_limit(
    bench: ModuleType, overlapped: float, met: bool
) -> None:
    rows = {"fio O_DIRECT": row(7.0), "PCIe copies": row(50.0), "direct": row(7.0)}
    rows["bounce-overlapped"] = row(overlapped)
    (goal,) = bench.real_goals({"rows": rows})
    assert goal.met is met


def test_the_direct_path_is_held_against_gdsio_where_that_is(bench: ModuleType) -> None:
    rows = {"PCIe copies": row(5.0), "bounce-overlapped": row(5.0), "direct": row(6.0, 0.02)}
    rows["gdsio direct"] = row(5.0, 0.01)
    share, rate, cost = bench.real_goals({"rows": rows})
    assert (share.met, rate.met, cost.met) == (True, True, False)
    rows["gdsio direct"] = row(5.0, None)
    assert len(bench.real_goals({"rows": rows})) == 2


def test_what_fails_is_told_and_the_rest_goes_on(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools: Any = bench.tools

    def fails() -> None:
        raise tools.ToolError("storlab on direct: no cuFile")

    def runs(load: Any, seconds: float, stack: Any) -> dict[str, Any]:
        reading = tools.Reading(10, 1.0, 10 << 20, 0.1, {})
        done = {name: lambda: reading for name in ("PCIe copies", "bounce-overlapped")}
        return {**done, "direct": fails, "gdsio direct": lambda: None}

    monkeypatch.setattr(bench, "runs", runs)
    options = argparse.Namespace(
        directory=tmp_path, rounds=2, seconds=0.1, size_mib=1, workers=1, block_kib=64, gpu=0
    )
    found = bench.real(options)
    assert found["failed"] == {"direct": "storlab on direct: no cuFile"}
    assert list(found["rows"]) == ["PCIe copies", "bounce-overlapped"]
    assert found["route"] is None
    (goal,) = bench.real_goals(found)
    assert goal.met
    (missed,) = bench.real_goals({"rows": {}})
    assert not missed.met


def test_the_study_in_small_runs_by_one_call(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_program("cc")
    for name, value in faults().items():
        monkeypatch.setenv(name, value)
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("STORLAB_GDSIO", str(gdsio_standin(tools)))
    monkeypatch.setenv("STORLAB_FIO", "/absent/fio")
    out, data = tmp_path / "out", tmp_path / "data"
    data.mkdir()
    found = bench.study_in_small(
        out, data, bench.tools.simulated(),
        repeats=2, seconds=0.3, size_mib=1, sizes=["64KiB"], workers=[1],
    )  # fmt: skip
    assert (found["doctor"], found["run"]) == (0, 0), (out / "run.txt").read_text()
    assert found["routes"]["p2p_bytes"] == found["routes"]["bytes"] > 0
    assert found["crosscheck-gdsio"] in sys.modules["gpudirect_study"].VERDICTS.values()
    assert found["crosscheck-fio"].startswith("not done")
    assert "/absent/fio" in (out / "crosscheck-fio.txt").read_text()
    assert (out / "results" / "brief.html").is_file()
    assert len(list(out.glob("results/runs/*/run.json"))) == (4 + 6) * 2
    assert not list(data.iterdir())
