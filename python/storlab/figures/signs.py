"""Meanings of the signs in figures, for the legend of a brief."""

from __future__ import annotations

from storlab.figures.theme import SIGNS

DRAWN_SIGNS = (
    (
        " ".join(SIGNS.values()),
        "a target’s mean in the target’s colour, or another value if the text below the heading "
        "says so; other colours and markers are named in the figure’s legend",
    ),
    (
        "line through a marker or bar",
        "95 % interval (of two repeats: both values), or what the text below the heading names",
    ),
    ("small open circle", "one run"),
    ("horizontal tick", "a percentile (higher ones are wider), joined to the mean by a thin line"),
    ("×", "another value, for comparison; the legend or the text below names it"),
    ("ring", "the point that the title names"),
    (
        "hatched, or a dashed line",
        "not measured: modelled, emulated, declared or published; different hatches are parts",
    ),
    ("dotted line", "a required value or a limit, with its name beside it"),
    ("grey line", "1: equal to the baseline, or to the mean of all clients"),
    ("solid to pale", "parts of one bar, from the bottom"),
    ("grey background", "a dip of throughput"),
    ("frame", "the measure window"),
    ("≠", "two latencies that were measured under different load"),
    ("a line without a marker", "the interval includes 1: no clear difference"),
)
"""Each sign in figures with its meaning."""
