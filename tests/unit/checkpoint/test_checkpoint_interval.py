"""Optimal checkpoint interval, against Daly's printed figures and first principles."""

from __future__ import annotations

import pytest

from storlab.workloads.checkpoint.interval import (
    daly_interval,
    share_lost,
    share_lost_with_failures,
    young_interval,
)

MINUTE = 60.0
HOUR = 3600.0


@pytest.mark.parametrize(
    ("mtbf", "printed"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)]
)
def test_daly_gives_what_daly_printed(mtbf: float, printed: float) -> None:
    """Check against figures 3, 4 and 5 of Daly's paper: dumps of 5 min, restarts of 10 min."""
    found = daly_interval(5 * MINUTE, mtbf) / MINUTE
    assert found == pytest.approx(printed, abs=0.5 if printed > 10 else 0.05)


def test_young_is_the_square_root_of_twice_cost_and_mtbf() -> None:
    assert young_interval(50, 10_000) == pytest.approx(1000)


def test_a_checkpoint_longer_than_twice_the_mtbf_leaves_the_mtbf() -> None:
    assert daly_interval(200, 100) == 100
    assert daly_interval(201, 100) == 100


def test_the_share_is_that_of_the_stop_in_one_round() -> None:
    assert share_lost(60, 1740) == pytest.approx(1 / 30)
    assert share_lost(0, 1800) == 0


def test_without_failures_only_the_checkpoints_are_lost() -> None:
    lost = share_lost_with_failures(60, 1740, 1e12, 0)
    assert lost == pytest.approx(share_lost(60, 1740), rel=1e-6)


def test_a_job_that_fails_before_it_gets_anywhere_loses_everything() -> None:
    assert share_lost_with_failures(1, 1e6, 1, 0) == 1.0
