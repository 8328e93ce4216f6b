"""What the published studies draw, a brief of such a campaign draws too."""

from __future__ import annotations

import re

import pytest

from integration.brief.power_fixture import Kind, build_power_store
from integration.conftest import Made
from storlab.brief import write_brief

COUNTERPARTS = {
    "metered_made": ("throughput", "efficiency", "efficiency-over", "latency", "per-tb"),
    "gpudirect_made": (
        "throughput",
        "efficiency",
        "paths-throughput",
        "paths-energy",
        "latency-read-p50",
        "latency-read-p99",
        "cpu",
    ),
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


@pytest.fixture(scope="module")
def metered_made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One SSD against 16 HDDs, with power at the wall, as the published fio study has them."""
    meters: dict[str, Kind] = {"1x SSD": "wall", "16x HDD": "wall"}
    place = tmp_path_factory.mktemp("metered") / "run"
    store = build_power_store(place, meters, repeats=2, mixes=(30,))
    return Made(store, write_brief(store, pdf=False))


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
