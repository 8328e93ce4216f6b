"""What the published studies draw, a brief of such a campaign draws too."""

from __future__ import annotations

import re

import pytest

COUNTERPARTS = {
    "object_made": ("per-tb", "stacked-by-mix", "throughput-by-mix", "first-byte", "efficiency"),
    "swept_clients_made": (
        "rate",
        "throughput",
        "latency",
        "cost-capacity",
        "cost-usd",
        "per-tb",
        "per-usable-tb",
        "per-money",
        "cost-of",
    ),
    "training_made": ("utilisation-by-accelerators", "accelerators-per-watt", "epoch-energy"),
    "checkpoint_made": ("checkpoint-time", "checkpoint-energy", "training-lost"),
    "preprocess_made": ("completion-time", "efficiency-over", "energy", "stages"),
}


@pytest.mark.parametrize("brief", COUNTERPARTS)
def test_a_brief_has_the_figures_of_the_published_study(
    brief: str, request: pytest.FixtureRequest
) -> None:
    html = request.getfixturevalue(brief).html
    names = re.findall(r'<figure class="figure" id="fig-([^"]+)"', html)
    missing = [
        wanted
        for wanted in COUNTERPARTS[brief]
        if not any(n.startswith(f"{wanted}-") or n == wanted for n in names)
    ]
    assert missing == []
