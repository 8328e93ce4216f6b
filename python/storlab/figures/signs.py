"""Meaning of each sign used in drawings, the same in all figures of a brief."""

from __future__ import annotations

from storlab.figures.theme import SIGNS

DRAWN_SIGNS = (
    (
        " ".join(SIGNS.values()),
        "a target’s mean, in the target’s colour, or one value of it where the words below the "
        "heading say so; a colour or marker that no target has is named in the legend",
    ),
    ("line through a marker or bar", "95 % interval, or the range that the words below name"),
    ("small open circle", "one run"),
    ("horizontal tick", "a percentile, the wider the further out; a thin line leads to it"),
    ("×", "another value, drawn for comparison; the legend or the words below name it"),
    ("ring", "the place that the title names"),
    (
        "hatched, or a dashed line",
        "not measured: modelled, emulated, declared or published; several hatches are parts",
    ),
    ("dotted line", "what is wanted or asked for, or a limit: its words stand beside it"),
    ("grey line", "1: as much as the baseline, or as a fair share"),
    ("solid to pale", "parts of one bar, from the bottom"),
    ("grey ground", "a dip of throughput"),
    ("frame", "the window that was measured"),
    ("≠", "two latencies that were not taken under the same load, as beside numbers"),
    ("a marker is missing on its line", "the interval includes 1: nothing is decided"),
)
"""Pairs of a sign and its meaning."""
