"""A real campaign scraped throughout: each value belongs to the labelled target."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from storlab.base.clock import sleep_s
from storlab.live.page import SCRAPE_FOLDER

STUDY = """
[study]
name = "scraped"
repeats = 2
ramp = 0
runtime = "2s"
interval = "250ms"
[[target]]
name = "slow"
path = "null:"
size = "1GiB"
[[target]]
name = "fast"
path = "null:"
size = "2GiB"
[[workload]]
kind = "block"
name = "paced"
block_size = "4KiB"
read_percent = 100
rate_iops = 200
targets = ["slow"]
[[workload]]
kind = "block"
name = "free"
block_size = "1MiB"
read_percent = 100
targets = ["fast"]
"""
SLOW_MOST = 10e6  # bytes/s: 200 x 4 KiB are 0.8 MB/s, and late ones may catch up
TRANSITIONS = 4


def scrapes(campaign: subprocess.Popen[bytes], out: Path) -> Iterator[dict[str, list]]:
    """Yield samples by family from each scrape while the campaign runs."""
    place = out.parent / SCRAPE_FOLDER / f"{out.name}.json"
    while campaign.poll() is None:
        sleep_s(0.02)
        try:
            (found,) = json.loads(place.read_bytes())
            mode = stat.S_IMODE(place.stat().st_mode)
            url = f"http://{found['targets'][0]}{found['labels']['__metrics_path__']}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                text = answer.read().decode()
        except (OSError, ValueError):  # not yet started, or already ended
            continue
        assert mode == 0o600, "the token is in it"
        yield {f.name: f.samples for f in text_string_to_metric_families(text)}


def test_each_value_is_of_the_target_that_its_labels_name(tmp_path: Path) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(STUDY)
    command = [sys.executable, "-m", "storlab", "run", study, "--out", out, "--live", "--no-report"]
    runs, values = [], {"slow": [], "fast": []}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as campaign:
        for families in scrapes(campaign, out):
            for sample in families.get("storlab_run", []):
                if not runs or runs[-1] != sample.labels["run"]:
                    runs.append(sample.labels["run"])
            for sample in families.get("storlab_throughput_bytes_per_second", []):
                values[sample.labels["target"]].append(sample.value)
    assert campaign.returncode == 0
    assert len(runs) == TRANSITIONS, "every run was seen"
    assert max(values["fast"]) > SLOW_MOST, "the targets differ, so that a mix-up shows"
    assert max(values["slow"]) < SLOW_MOST
