"""Figures' specifications, checked against the schema of Vega-Lite."""

from __future__ import annotations

from typing import Any

import altair as alt

# What a specification is, said at once: `Chart.from_dict` tries everything that each part could be,
# which takes ten times as long.
_CLASSES: dict[str, Any] = {
    "layer": alt.LayerChart,
    "hconcat": alt.HConcatChart,
    "vconcat": alt.VConcatChart,
    "concat": alt.ConcatChart,
    "facet": alt.FacetChart,
    "repeat": alt.RepeatChart,
    "mark": alt.Chart,
}


def assert_vega_lite(spec: dict[str, Any]) -> None:
    """Raises jsonschema's ValidationError where it is none."""
    kind = next(name for name in _CLASSES if name in spec)
    _CLASSES[kind].validate(spec)
