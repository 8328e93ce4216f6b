"""A brief of a published study's campaign has the figures of the publication."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.brief.power_fixture import Kind, build_power_store
from integration.conftest import Made
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.brief import write_brief
from storlab.brief.publisher import publisher_of
from storlab.figures import cost_stack
from storlab.lab.study.file import load_study

TEMPLATES = Path(__file__).parents[3] / "python" / "storlab" / "templates"
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
    """Provide one SSD against 16 HDDs with power at the wall, like the published fio study."""
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


@pytest.mark.parametrize(
    "study", sorted(TEMPLATES.glob("micron-*.toml")), ids=lambda path: path.stem
)
def test_a_published_study_has_its_table_of_components(study: Path) -> None:
    """Check the table of drives and software per target, with published values marked."""
    targets = list(load_study(study).study.target)
    components = dict(publisher_of(None, [], targets).components)
    assert all("not stated" not in components[name] for name in ("Drives", "Software"))
    machines = [components[name] for name in components if name != "Drives"]
    assert all(value.endswith("(published)") for values in machines for value in values)


def test_words_below_the_bars_of_a_cost_do_not_lie_on_the_axis(swept_clients_made: Made) -> None:
    """Check that half a row fits half of the bar and two lines of text below it."""
    comparison = compare(load_dataset([swept_clients_made.store]))
    (figure,) = cost_stack.draw(comparison, [])
    rows = len(figure.rows)
    lines = max(end["words"].count("|") + 1 for end in figure.spec["datasets"]["ends"])
    assert lines == 2
    assert figure.spec["height"] / rows / 2 >= cost_stack.BAR / 2 + 10 + 12 * (lines - 0.5)
