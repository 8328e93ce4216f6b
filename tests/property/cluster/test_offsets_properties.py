from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storlab.cluster.offsets import estimate

_DELAYS = st.lists(
    st.tuples(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 10**6)), min_size=1
)


@given(_DELAYS, st.integers(-(10**15), 10**15), st.integers(0, 10**15))
def test_the_offset_is_within_half_the_least_round_trip_and_the_least_delays(
    delays: list[tuple[int, int, int]], true_offset: int, start: int
) -> None:
    pings, now = [], start
    for there, back, pause in delays:
        pings.append((now, now + there + true_offset, now + there + back))
        now += there + back + pause
    found = estimate(pings)
    assert found.round_trip_ns == min(there + back for there, back, _ in delays)
    error = abs(found.offset_ns - true_offset)
    assert error <= found.round_trip_ns / 2 + 1
    assert error <= max(min(d[0] for d in delays), min(d[1] for d in delays)) / 2 + 1


@given(st.integers(-(10**15), 10**15), st.integers(0, 10**15))
def test_times_of_either_clock_translate_back(offset: int, moment: int) -> None:
    found = estimate([(0, offset, 0)])
    assert found.controller_ns(found.client_ns(moment)) == moment
    assert found.client_ns(0) == offset


def test_clocks_that_were_slewed_meanwhile_take_the_quickest_ping() -> None:
    assert estimate([(0, 1000, 100), (1000, 5050, 1010)]).offset_ns == 4045
