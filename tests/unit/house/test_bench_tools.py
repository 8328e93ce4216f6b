"""The benches' parsers of other tools' output."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from conftest import need_program
from storlab import _native

BENCHES = Path(__file__).parents[3] / "benches"


@pytest.fixture(scope="module")
def tools() -> ModuleType:
    spec = importlib.util.spec_from_file_location("storlab_bench_tools", BENCHES / "tools.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHES)
        spec.loader.exec_module(module)
    return module


def test_a_goal_whose_peer_is_not_there_is_not_measured() -> None:
    code = (
        "import block, json; from types import SimpleNamespace as S; from cases import Goal\n"
        "of = lambda value: S(iops=value)\n"
        "case = S(goals=[Goal('fio', 'iops', 1.0, at_least=True), Goal('gone', 'iops', 2.0)],\n"
        "         native_tool=S(name='ours'))\n"
        "found = block.goals(case, {'ours': [of(6), of(9)], 'fio': [of(3), of(3)]})\n"
        "print(json.dumps([[goal['value'], *block.judged(goal)] for goal in found]))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCHES), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout) == [
        [2.5, "2.5 (2 to 3)", "met"],
        [None, "-", "not measured"],
    ]


def test_every_bench_finds_what_it_imports() -> None:
    names = [file.stem for file in BENCHES.glob("*.py")]
    assert "block" in names
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    outcome = subprocess.run(
        [sys.executable, "-c", code, *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCHES), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr


def test_elbencho_is_charged_for_the_time_that_it_ran(tools: ModuleType) -> None:
    # 3 s were requested; it checked its limit after 4.
    table = [
        "ISO date,operation,time ms [first],time ms [last],IOPS [first],IOPS [last]",
        "2026-11-20T10:00:00,SYNC,1,1,,",
        "2026-11-20T10:00:01,READ,4000,4000,500000,500000",
    ]
    reading = tools.read_elbencho(table, tools.Cpu(user_s=1.0, system_s=3.0))
    assert reading.iops == 500_000
    assert reading.cpu_us_per_io == pytest.approx(2.0)
    assert reading.user_us_per_io == pytest.approx(0.5)


def test_elbencho_without_a_phase_is_no_reading(tools: ModuleType) -> None:
    with pytest.raises(SystemExit, match="0 phases"):
        tools.read_elbencho(["operation,time ms [last],IOPS [last]"], tools.Cpu(1, 1))


@pytest.mark.parametrize("read_percent", [0, 100])
def test_the_bare_probe_moves_every_block_that_it_counts(
    tools: ModuleType, tmp_path: Path, read_percent: int
) -> None:
    need_program("cc")
    if not json.loads(_native.probe())["uring"]["available"]:
        pytest.skip("needs io_uring")
    file = tmp_path / "data"
    file.write_bytes(bytes(1 << 20))
    load = tools.Load(str(file), 1 << 20, read_percent=read_percent, access="sequential")
    reading = tools.bare(8).run(load, 0.1, max(os.sched_getaffinity(0)))
    # The kernel splits user and system time by ticks, so it may show none in a tenth of a second.
    assert reading.iops > 0 and reading.cpu_us_per_io >= reading.user_us_per_io >= 0
    # Slots are assigned by the probe; their content is a slot number, never zero.
    written = set(file.read_bytes())
    assert written <= set(range(1, 65)) if read_percent == 0 else written == {0}


def test_the_loop_over_small_files_reads_each_in_every_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need_program("cc")
    monkeypatch.syspath_prepend(BENCHES)
    program = importlib.import_module("programs").compiled("files", "-pthread")
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(bytes(5000))
    command = [program, str(tmp_path), "5000", "2", "4"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    moved, took_us, user_us, system_us = map(int, outcome.stdout.split())
    assert moved == 3 * 4 * 5000
    assert took_us > 0 and user_us >= 0 and system_us >= 0
    # Shorter than stated.
    (tmp_path / "b").write_bytes(bytes(4999))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_a_goal_whose_peer_did_not_run_is_shown_as_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHES))
    bench = importlib.import_module("object")
    case = next(case for case in bench.CASES if case.name == "put-4m")
    beside_warp, beside_loop = case.goals

    def reading(cpu_s_per_gb: float) -> object:
        others = {"mb_s": 1, "requests_s": 1, "cpu_s_per_1000": 1, "system_share": 0.5}
        return bench.Reading(cpu_s_per_gb=cpu_s_per_gb, **others)

    storlab = reading(3)
    loop = reading(2)
    found = bench.goals(case, {bench.NATIVE: [storlab], bench.BARE: [loop]})
    assert [goal["met"] for goal in found] == [None, False]
    assert beside_warp.peer in found[0]["goal"] and beside_loop.peer in found[1]["goal"]
    assert bench.judged(found[0]) == ("-", "-", "not measured")
    assert bench.judged(found[1]) == ("1.5 (1.5 to 1.5)", "-", "MISSED")
