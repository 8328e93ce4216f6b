"""Events of a child as totals and samples: none lost, none counted twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storlab._native import Histogram
from storlab.process.events import NONE, Events, samples, totals

START = 1_000_000


def events(ends: list[int], operation: str = "read") -> Events:
    rows = [(START + end, end % 1000 + 1, end % 7) for end in ends]
    return Events.of_rows(operation, np.array(rows, dtype=np.int64).reshape(-1, 3))


@given(st.lists(st.integers(0, 10_000), max_size=60), st.integers(40, 12_000))
def test_samples_sum_up_to_the_totals(ends: list[int], interval_ns: int) -> None:
    each = events(ends)
    made = samples([each], (START, START + 10_000), interval_ns)
    assert sum(sample.operations for sample in made) == len(ends)
    assert sum(sample.bytes for sample in made) == int(each.bytes.sum())
    assert sum(Histogram.from_v2(sample.latency).count for sample in made) == len(ends)
    assert made[0].start_ns == START
    assert made[-1].end_ns == START + 10_000
    for sample in made:
        inside = [e for e in ends if sample.start_ns <= START + e < sample.end_ns]
        last = sample.end_ns == START + 10_000
        assert sample.operations == len(inside) + (ends.count(10_000) if last else 0)


def test_cpu_time_is_counted_once_in_an_interval() -> None:
    two = [events([1, 5]), events([2], "step")]
    made = samples(two, (START, START + 10), 5, lambda begin, end: end - begin)
    assert [sample.operation for sample in made] == ["read", "step", "read", "step"]
    assert sum(sample.worker_cpu_ns for sample in made) == 10


def test_what_nobody_timed_has_no_latency() -> None:
    plain = Events("read", np.array([START]), np.array([9]), NONE)
    assert totals([plain])["read"].latency is None
    (sample,) = samples([plain], (START, START + 1), 10)
    assert (sample.operations, sample.bytes) == (1, 9)
    assert Histogram.from_v2(sample.latency).count == 0


def test_kinds_that_never_happened_are_left_out() -> None:
    assert totals([events([]), events([3], "step")]).keys() == {"step"}
