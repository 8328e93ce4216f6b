"""CPU time of other programs, by name, from a directory like /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlab.process import other_programs
from storlab.process.other_programs import OtherPrograms

S = 1_000_000_000
TICKS = os.sysconf("SC_CLK_TCK")
OWN = 50


def process(proc: Path, pid: int, name: str, parent: int, seconds: float, born: int = 7) -> None:
    fields = ["S", str(parent), *["0"] * 9, str(round(seconds * TICKS)), "0", *["0"] * 6, str(born)]
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)} 0 0\n")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    times = iter([0, 10 * S])
    monkeypatch.setattr(other_programs, "monotonic_ns", lambda: next(times))
    (tmp_path / "self").mkdir()
    process(tmp_path, 1, "init", 0, 3)
    process(tmp_path, OWN, "storlab", 1, 100)
    process(tmp_path, 51, "fio", OWN, 100)
    process(tmp_path, 52, "a) b (c", 1, 4)
    return tmp_path


def test_programs_are_named_by_the_cpu_time_that_they_used_meanwhile(proc: Path) -> None:
    others = OtherPrograms(proc, OWN)
    process(proc, OWN, "storlab", 1, 109)
    process(proc, 51, "fio", OWN, 109)
    process(proc, 53, "fio", 51, 9)  # a job of fio
    process(proc, 52, "a) b (c", 1, 5)
    process(proc, 54, "backup", 1, 4)
    process(proc, 55, "backup", 1, 4)
    assert others.busiest(5.0) == [("backup", 80.0), ("a) b (c", 10.0)]


def test_an_idle_machine_has_no_busy_programs(proc: Path) -> None:
    others = OtherPrograms(proc, OWN)
    process(proc, 1, "init", 0, 3.4)
    assert others.busiest(5.0) == []


def test_a_process_with_the_id_of_an_earlier_one_counts_from_its_start(proc: Path) -> None:
    process(proc, 60, "old", 1, 9)
    others = OtherPrograms(proc, OWN)
    process(proc, 60, "new", 1, 2, born=8)
    (proc / "52" / "stat").unlink()  # it has ended
    assert others.busiest(5.0) == [("new", 20.0)]


def test_this_machine_can_be_read() -> None:
    assert all(percent >= 1e9 for _, percent in OtherPrograms().busiest(1e9))
