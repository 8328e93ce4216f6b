"""CPU time of a server run by storlab, for a window known only afterwards."""

from __future__ import annotations

import threading

import pytest

from storlab.base.clock import monotonic_ns
from storlab.process.server_cpu import CpuReading, ServerCpu, cpu_between

READINGS = [
    CpuReading(1_000, 0, 0),
    CpuReading(2_000, 500, 100),
    CpuReading(3_000, 500, 300),
    CpuReading(3_000, 500, 300),
    CpuReading(4_000, 900, 300),
]


@pytest.mark.parametrize(
    ("start", "end", "user", "system"),
    [
        (1_000, 4_000, 900, 300),
        (1_500, 2_500, 250, 150),  # half of the first second, half of the next
        (2_000, 3_000, 0, 200),
        (3_250, 3_500, 100, 0),
    ],
)
def test_edges_lie_on_straight_lines(start: int, end: int, user: int, system: int) -> None:
    found = cpu_between(READINGS, start, end)
    assert found is not None
    assert (found.user_ns, found.system_ns) == (user, system)
    assert found.cores >= 1


@pytest.mark.parametrize(("start", "end"), [(999, 2_000), (2_000, 4_001), (2_000, 2_000)])
def test_a_window_that_the_readings_do_not_span_has_no_figure(start: int, end: int) -> None:
    assert cpu_between(READINGS, start, end) is None
    assert cpu_between(READINGS[:1], start, end) is None


def test_the_readings_span_what_happens_inside_the_block() -> None:
    second = threading.Event()
    taken: list[int] = []

    def read() -> tuple[int, int]:
        taken.append(1)
        if len(taken) == 2:
            second.set()
        return 10 * len(taken), len(taken)

    with ServerCpu(read) as cpu:
        start = monotonic_ns()
        assert second.wait(30)  # the thread reads by itself
        end = monotonic_ns()
    found = cpu.within(start, end)
    assert found is not None
    assert found.user_ns > 0


def test_a_server_that_is_gone_has_no_figure() -> None:
    def gone() -> tuple[int, int]:
        raise ProcessLookupError

    with ServerCpu(gone) as cpu:
        start = monotonic_ns()
    assert cpu.within(start, monotonic_ns()) is None
