"""The machine's CPU use over time, as read by engines that start programs."""

from __future__ import annotations

import os

import pytest

from storlab.base.clock import monotonic_ns
from storlab.process.machine_cpu import MachineTrace


def test_a_window_is_cut_from_the_readings_around_it() -> None:
    trace = MachineTrace()
    trace._readings = [(0, 0, 0, 0), (100, 90, 10, 100), (200, 90, 10, 200)]
    found = trace.between(50, 150)
    assert found["machine_busy_percent"] == pytest.approx(45)
    assert found["machine_steal_percent"] == pytest.approx(5)
    assert found["machine_cores"] == os.cpu_count()


def test_one_reading_tells_nothing() -> None:
    trace = MachineTrace()
    trace.read()
    found = trace.between(0, monotonic_ns())
    assert found["machine_busy_percent"] is None
    assert found["machine_steal_percent"] is None


def test_this_machine_tells_busy_and_stolen_time() -> None:
    trace = MachineTrace()
    trace.read()
    begin = monotonic_ns()
    while trace.between(begin, monotonic_ns())["machine_busy_percent"] is None:
        trace.read()  # ticks advance only every 10 ms
    found = trace.between(begin, monotonic_ns())
    assert 0 <= found["machine_steal_percent"] <= found["machine_busy_percent"] <= 100
