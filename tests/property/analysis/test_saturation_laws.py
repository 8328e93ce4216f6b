"""Laws of saturation: what never saturates, what always does, and what has no effect."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from storlab.workloads.preprocess.saturation import Step, judge

SPREADS = st.sampled_from([(1.0, 1.0), (0.998, 1.0, 1.002), (0.997, 1.003, 0.999, 1.001)])
SWEEPS = st.lists(st.integers(min_value=1, max_value=64), min_size=2, max_size=10, unique=True)


def sweep(
    workers: list[int], work_s: float, floor_s: float, spread: tuple[float, ...]
) -> list[Step]:
    """Return points with divisible CPU work on a device that needs ``floor_s`` for the bytes."""
    found = []
    for number in sorted(workers):
        time_s = max(work_s / number, floor_s)
        found.append(
            Step(
                workers=number,
                times=tuple(time_s * each for each in spread),
                busy=(100 * work_s / number / time_s,),
                device_mb_s=(400.0,),
                moved_mb_s=500.0,
            )
        )
    return found


@given(SWEEPS, st.floats(min_value=1, max_value=1e6), SPREADS)
def test_what_scales_perfectly_is_cpu_bound(
    workers: list[int], work_s: float, spread: tuple[float, ...]
) -> None:
    assert judge(sweep(workers, work_s, 0.0, spread)) == ("cpu", max(workers))


@given(SWEEPS, st.floats(min_value=1, max_value=1e6), SPREADS)
def test_what_scales_perfectly_never_saturates_however_idle(
    workers: list[int], work_s: float, spread: tuple[float, ...]
) -> None:
    steps = [
        Step(s.workers, s.times, (20.0,), device_mb_s=s.device_mb_s, moved_mb_s=s.moved_mb_s)
        for s in sweep(workers, work_s, 0.0, spread)
    ]
    assert judge(steps)[0] in ("open", "too near")


@given(SWEEPS, st.floats(min_value=0.5, max_value=64), SPREADS)
def test_a_floor_is_found_at_the_first_number_that_stands_on_it(
    workers: list[int], knee: float, spread: tuple[float, ...]
) -> None:
    steps = sweep(workers, 100.0, 100.0 / knee, spread)
    verdict, at = judge(steps)
    if verdict == "device":
        assert at is not None
        # more than 5 % above the floor is not yet saturated
        assert 100.0 / at <= 100.0 / knee / 0.95 * 1.01
        if any(step.workers < at for step in steps):
            before = max(step.workers for step in steps if step.workers < at)
            assert 100.0 / before >= 100.0 / knee / 0.95 * 0.99
    elif max(workers) >= 2 * knee and min(workers) * 1.25 <= max(workers):
        onto = [number for number in workers if number >= knee]
        # otherwise there is no second number on the floor that is far enough away
        assert min(onto) * 1.25 > max(workers)


@example([1, 19, 29], 20.0, 17.0)  # gains exactly the threshold
@given(SWEEPS, st.floats(min_value=0.5, max_value=64), st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_of_time_does_not_matter(workers: list[int], knee: float, scale: float) -> None:
    spread = (0.998, 1.0, 1.002)
    judged = judge(sweep(workers, 100.0, 100.0 / knee, spread))
    assert judge(sweep(workers, 100.0 * scale, 100.0 * scale / knee, spread)) == judged
