"""A real Prometheus discovers the page as in docs/live.md and has the dashboard's metrics."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any

from conftest import need_program
from integration.conftest import LIMIT_MS
from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_MS
from storlab.contracts.reporter import Gauge
from storlab.lab.run.progress import PlainReporter
from storlab.live.page import LivePage
from support.live_pages import HOSTILE, a_plan, named
from support.ports import free_port
from support.run_records import SNAPSHOT
from tidy import tree
from unit.cli.test_progress import terminal

STARTING = 503
NAME = HOSTILE.replace("\n", "")  # the dashboard's `.*` for all studies does not match a line break
HOUR_NS = 3600 * 10**9


def configuration(results: Path) -> str:
    """Return the configuration of the docs page for these results."""
    page = tree.read("docs/live.md")
    text = page[page.index("scrape_configs:") :].split("```")[0]
    return text.replace("/srv/results", str(results))


def expressions() -> list[str]:
    """Return the dashboard's queries for all studies."""
    text = tree.read("docs/recipes/grafana-dashboard.json")
    asked = re.findall(r'"(?:expr|query)": ("(?:[^"\\]|\\.)*storlab_(?:[^"\\]|\\.)*")', text)
    plain = [json.loads(each).replace("$study", ".*") for each in asked]
    return [re.sub(r"label_values\((\w+), \w+\)", r"\1", each) for each in plain]


@contextmanager
def campaign(results: Path) -> Iterator[None]:
    """Provide a run in progress with everything a page can show."""
    plan = a_plan("disk", NAME)
    counted, end = count(), threading.Event()
    with LivePage(plan, results / "study", named, lambda _: None) as page:
        reporter = page.beside(PlainReporter(terminal()[0]))
        reporter.gauges(
            lambda: [
                Gauge("power", "disk", "wall", 40.0),
                Gauge("temperature", "disk", "sda", 41.0),
                *(Gauge(kind, "disk", "sda", next(counted)) for kind in ("read", "written")),
            ]
        )

        def load() -> None:
            with reporter:
                reporter.campaign(3, 0, HOUR_NS)
                reporter.run_started(plan.runs[0], plan.points[plan.runs[0].point_id], HOUR_NS)
                while not end.wait(0.1):
                    reporter.run_progress(SNAPSHOT)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


class Prometheus:
    """A Prometheus server in ``place``."""

    def __init__(self, place: Path, config: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/api/v1/"
        program = need_program("prometheus")
        self._log = (place / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                str(program),
                f"--config.file={config}",
                f"--web.listen-address=127.0.0.1:{port}",
                f"--storage.tsdb.path={place / 'tsdb'}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def ask(self, what: str, **query: str) -> Any:
        """Return the answer's data, or None if there is no answer."""
        try:
            with urllib.request.urlopen(
                f"{self.url}{what}?{urllib.parse.urlencode(query)}", timeout=60
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            assert error.code == STARTING, f"{query}: {error.read().decode()}"
            return None
        except urllib.error.URLError:
            assert self._process.poll() is None, "Prometheus has ended"
            return None

    def until(self, found: Callable[[], Any]) -> Any:
        """Wait for a result and return it."""
        last_ns = monotonic_ns() + LIMIT_MS * NS_PER_MS
        while monotonic_ns() < last_ns:
            if value := found():
                return value
            sleep(0.1)
        raise AssertionError(self.ask("targets"))

    def labels(self, expression: str) -> dict[str, str]:
        """Return the labels of an expression's first result, once there is one."""
        found = self.until(lambda: self.ask("query", query=expression)["result"])
        return dict(found[0]["metric"])


def test_prometheus_knows_all_that_the_dashboard_draws(tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yml"
    config.write_text(configuration(tmp_path))
    subprocess.run([need_program("promtool"), "check", "config", config], check=True)
    with campaign(tmp_path), Prometheus(tmp_path, config) as prometheus:

        def targets() -> Any:
            return (prometheus.ask("targets") or {}).get("activeTargets")

        (target,) = prometheus.until(targets)
        assert target["scrapeUrl"].startswith("http://127.0.0.1:")
        prometheus.until(lambda: targets()[0]["health"] == "up")
        asked = expressions()
        assert len(asked) > 10
        for each in asked:  # a rate needs two scrapes, a second apart
            assert prometheus.labels(each)["study"] == NAME
        assert targets()[0]["lastError"] == ""
