"""Text that opens the sections of each family's brief: its metrics, links and caveats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.brief.power_fixture import Kind, build_power_store
from integration.conftest import Made
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.brief.audit_input import audit_directory
from storlab.brief.model import Opening
from storlab.brief.openings import opening
from storlab.brief.tables import scales_of
from storlab.results.store import ResultStore

METRICS = {
    "made": ["throughput_mb_s.all", "latency_mean_ns.read", "latency_mean_ns.write"],
    "object_made": [
        "throughput_mb_s.all", "throughput_mb_s.get", "throughput_mb_s.put",
        "efficiency_mb_s_w.all", "latency_mean_ns.get",
        "ttfb_mean_ns.get", "latency_mean_ns.put",
    ],
    "training_made": [
        "samples_s.all", "au_percent.all", "efficiency_mb_s_w.all", "step_wait_p99_ns.all",
    ],
    "checkpoint_made": [
        "durable_time_s.all", "durable_mb_s.all", "restore_time_s.all", "span_energy_wh.write",
    ],
    "preprocess_made": ["completion_time_s.all", "energy_wh.all"],
    "gpudirect_made": [
        "throughput_mb_s.all", "cpu_s_per_gb.all", "efficiency_mb_s_w.all", "latency_p99_ns.read",
    ],
    "only_clients_made": ["iops.all", "latency_mean_ns.read", "latency_mean_ns.write"],
}  # fmt: skip
SWEPT = {
    "made": "from 1 to 8 jobs",
    "training_made": "from 1 to 4 accelerators",
    "preprocess_made": "from 1 to 24 workers",
    "gpudirect_made": "from 1 to 256 workers",
    "only_clients_made": "from 1 to 6 clients",
}


def openings(store: ResultStore) -> list[Opening]:
    comparison = compare(load_dataset([store]))
    scales = scales_of(comparison)
    return [opening(comparison, s, scales[s.kind]) for s in comparison.sections]


@pytest.mark.parametrize("name", METRICS)
def test_each_family_opens_with_its_metrics(request: pytest.FixtureRequest, name: str) -> None:
    made: Made = request.getfixturevalue(name)
    text, *_ = openings(made.store)
    assert list(dict.fromkeys(checked.quantity for checked in text.checked)) == METRICS[name]
    first = text.checked[0].statement.replace("\u00a0", " ")
    assert ("→" in first) == (name in SWEPT)
    assert SWEPT.get(name, "") in first
    assert all(f.severity != "error" for f in audit_directory(made.store.directory))


def test_numbers_link_to_their_runs_and_use_cases_are_named(made: Made) -> None:
    texts = re.findall(r'<div class="opening">(.*?)</div>', made.html, re.S)
    assert len(texts) == 2
    assert "<b>Logging, moderate ingest.</b>" in texts[0]
    for point in re.findall(r'href="#point-(\w+)"', "".join(texts)):
        assert f'id="point-{point}"' in made.html
    numbers = re.findall(r"<a class=\"n\"[^>]*>([^<]+)</a>", texts[0])
    assert len(numbers) == len(openings(made.store)[0].checked)


def test_power_at_unequal_boundaries_has_no_ratio(tmp_path: Path) -> None:
    meters: dict[str, Kind] = {"1x SSD": "device", "16x HDD": "wall"}
    store = build_power_store(tmp_path / "run", meters, repeats=2, mixes=(30,))
    (text,) = openings(store)
    assert not any(checked.quantity.startswith("efficiency") for checked in text.checked)
    assert "16x HDD" in text.closing[0]
