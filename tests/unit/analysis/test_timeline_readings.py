"""Temperatures of a long run on its timeline: few readings, among them the highest."""

from __future__ import annotations

from storlab.analysis.timeline import MOST_READINGS, _celsius

SECOND = 10**9


def test_of_many_temperatures_the_highest_of_each_stretch_are_drawn() -> None:
    readings = [[second * SECOND, 40.0 + (second == 1801)] for second in range(3600)]
    drawn = list(_celsius({"celsius": {"nvme0n1": readings}}, 0, 3600.0))
    assert len(drawn) == MOST_READINGS
    assert [moment for moment in drawn if moment[2] > 40] == [(1801.0, "nvme0n1", 41.0)]


def test_few_temperatures_are_drawn_as_they_are_inside_of_the_window() -> None:
    beside = {"celsius": {"a": [[0, 40.0], [SECOND, 41.0], [9 * SECOND, 42.0]], "b": []}}
    assert list(_celsius(beside, SECOND, 5.0)) == [(0.0, "a", 41.0)]
