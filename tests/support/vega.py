"""Check of figures' specifications against the Vega-Lite schema."""

from __future__ import annotations

from typing import Any

import altair as alt

# Name the chart's class: `Chart.from_dict` tries all alternatives of each part, which takes ten
# times as long.
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
    """Raise jsonschema's ValidationError if the specification is invalid."""
    kind = next(name for name in _CLASSES if name in spec)
    _CLASSES[kind].validate(spec)
