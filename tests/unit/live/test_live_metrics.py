"""An independent parser reads the metrics as OpenMetrics, with any names."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from storlab.contracts.reporter import Gauge
from storlab.live.feed import Feed
from storlab.live.metrics import open_metrics
from storlab.live.reporter import FeedReporter
from support.live_pages import HOSTILE, a_plan, named
from support.run_records import SNAPSHOT
from tidy import tree


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize("name", ["disk", HOSTILE, 'a\\n"b\\\\', "π ⚑"])
def test_another_parser_reads_what_stands_there(name: str) -> None:
    feed, plan = Feed(name, "1.2"), a_plan(name, name)
    reporter = FeedReporter(feed, named)
    reporter.campaign(3, 1, 7_000_000_000)
    reporter.gauges(
        lambda: [
            Gauge("power", name, "wall", 40.25),
            Gauge("temperature", name, name, 41),
            Gauge("read", name, name, 512),
            Gauge("written", name, name, 10**15),
        ]
    )
    reporter.run_started(plan.runs[1], plan.points[plan.runs[1].point_id], 10**15)
    reporter.run_progress(SNAPSHOT)
    reporter.tick()
    found = families(open_metrics(feed.view()))

    def sample(family: str) -> tuple[dict[str, str], float]:
        (only,) = found[family].samples
        return only.labels, only.value

    of_run = {"study": name, "target": name, "workload": "w"}
    assert sample("storlab_throughput_bytes_per_second") == (of_run, 250e6)
    assert sample("storlab_latency_p99_seconds") == (of_run, 0.0015)
    assert sample("storlab_client_cpu_cores") == (of_run, pytest.approx(0.874))
    assert sample("storlab_power_watts") == (
        {"study": name, "target": name, "boundary": "wall"},
        40.25,
    )
    assert sample("storlab_temperature_celsius")[0]["device"] == name
    of_device = {"study": name, "target": name, "device": name}
    assert sample("storlab_device_read_bytes") == (of_device, 512)
    assert sample("storlab_device_written_bytes") == (of_device, 10**15)
    assert found["storlab_device_read_bytes"].type == "counter"
    assert sample("storlab_campaign_planned_runs") == ({"study": name}, 3)
    assert sample("storlab_campaign_stored_runs") == ({"study": name}, 1)
    labels, value = sample("storlab_run")
    assert (labels["run"], labels["phase"], value) == (plan.runs[1].run_id, "measure", 1)
    assert found["storlab_power_watts"].unit == "watts"
    assert found["storlab_run"].type == "info"


def test_the_dashboard_asks_for_what_there_is() -> None:
    dashboard = json.loads(tree.read("docs/recipes/grafana-dashboard.json"))
    asked = set(re.findall(r"storlab_\w+", json.dumps(dashboard)))
    documented = set(re.findall(r"`(storlab_\w+)`", tree.read("docs/live.md")))
    feed, plan = Feed("s", "1"), a_plan()
    reporter = FeedReporter(feed, named)
    reporter.gauges(
        lambda: [
            Gauge("power", "disk", "wall", 40),
            *(Gauge(kind, "disk", "sda", 41) for kind in ("temperature", "read", "written")),
        ]
    )
    reporter.run_started(plan.runs[0], plan.points[plan.runs[0].point_id], 1)
    reporter.run_progress(SNAPSHOT)
    reporter.tick()
    found = families(open_metrics(feed.view())).values()
    there = {sample.name for family in found for sample in family.samples}
    assert there == documented
    assert asked == documented - {"storlab_campaign_info"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_what_is_not_known_is_left_out() -> None:
    found = families(open_metrics(Feed("s", "1").view()))
    assert "storlab_campaign" in found
    assert not [name for name in found if "latency" in name or "power" in name or "run_" in name]
