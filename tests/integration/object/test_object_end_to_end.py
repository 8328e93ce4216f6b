"""Object storage from study file to brief, through the command.

It runs the published study with its two endpoints filled in, and the demo over storlab's own
server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simulators.faulty_proxy import FaultyProxy
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from support.s3_servers import S3Server, gofakes3, versitygw

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "python/storlab/templates/micron-6600-ion-vs-16-hdd-object.toml"
TARGETS = ("1x SSD", "16x HDD")
MIXES = ("30/70", "50/50", "70/30", "90/10")
# Required metrics of every point, operation by operation.
WANTED = [
    *(("throughput_mb_s", operation) for operation in ("all", "get", "put")),
    *(("requests_s", operation) for operation in ("all", "get", "put")),
    *(
        (f"latency_{statistic}_ns", operation)
        for statistic in ("mean", "p50", "p90", "p99", "p999")
        for operation in ("get", "put")
    ),
    *((f"ttfb_{statistic}_ns", "get") for statistic in ("mean", "p50", "p90", "p99")),
    ("efficiency_mb_s_w", "all"),
    ("throughput_mb_s_tb", "all"),
    ("errors", "all"),
    ("cpu_s_per_gb", "all"),
]


def edited(study: str, *changes: tuple[str, str]) -> str:
    """Return a shipped study, shortened; each replaced text must exist in it."""
    for before, after in changes:
        assert before in study, f"the study does not say {before}"
        study = study.replace(before, after)
    return study


@dataclass(frozen=True)
class Ran:
    """One campaign: its results, its brief, and its output."""

    out: Path
    summary: dict[str, Any]
    printed: str
    records: list[RunRecord]
    servers: tuple[S3Server, ...]

    @property
    def page(self) -> str:
        return (self.out / "brief.html").read_text("utf-8")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Provide the published study on two stores, one plain and one with TLS, with short runs."""
    place = tmp_path_factory.mktemp("published")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        ssd = stack.enter_context(versitygw(place / "ssd"))
        hdd = stack.enter_context(versitygw(place / "hdd", tls=True))
        for name, server in (("SSD", ssd), ("HDD", hdd)):
            server.make_bucket("storlab")
            server.set_environment(patch, name)
        study = edited(
            PUBLISHED.read_text(),
            ("https://ssd.fill-in.example:9000", ssd.endpoint),
            ("https://hdd.fill-in.example:9000", hdd.endpoint),
            ('credentials_env = "HDD"', f'credentials_env = "HDD", ca_file = "{hdd.ca_file}"'),
            ("repeats = 5", "repeats = 2"),
            ('ramp = "60s"', 'ramp = "50ms"'),
            ('runtime = "300s"', 'runtime = "1500ms"\ninterval = "250ms"'),
            ("concurrency = 20", "concurrency = 4"),
            ("objects = 100_000", "objects = 8"),
        )
        (place / "study.toml").write_text(study)
        patch.chdir(place)
        yield carry_out(place, (ssd, hdd))


def carry_out(place: Path, servers: tuple[S3Server, ...] = ()) -> Ran:
    """Run ``storlab run study.toml --json`` and capture all output."""
    with pytest.MonkeyPatch.context() as patch:
        stdout, stderr = (place / "stdout").open("w+"), (place / "stderr").open("w+")
        with stdout, stderr:
            patch.setattr("sys.stdout", stdout)
            patch.setattr("sys.stderr", stderr)
            code = main(["run", "study.toml", "--out", "out", "--json"])
    printed = (place / "stdout").read_text(), (place / "stderr").read_text()
    assert code == ExitCode.OK, printed
    records = ResultStore.open(place / "out").records()
    return Ran(place / "out", json.loads(printed[0]), "".join(printed), records, servers)


def test_both_stores_ran_all_mixes_without_an_error(published: Ran) -> None:
    assert published.summary["runs"]["finished"] == len(published.records) == 4 * 2 * 2
    for record in published.records:
        assert record.status == "finished", record.failure
        assert all(not totals.errors for totals in record.totals.values())
    for server in published.servers:
        assert server.keys("storlab") == []
        assert (server.root / "storlab").is_dir()


def test_every_figure_of_the_issue_is_a_metric_of_every_mix(
    published: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(published.out), "--json"]) == ExitCode.OK
    points = json.loads(capsys.readouterr().out)["points"]
    assert [point["params"]["get_percent"] for point in points] == [30, 50, 70, 90]
    for point in points:
        assert point["params"]["object_size"] == 4 << 20
        for target in TARGETS:
            values = point["targets"][target]["values"]
            missing = [w for w in WANTED if f"{w[0]}.{w[1]}" not in values]
            assert missing in ([], [("requests_s", "get"), ("requests_s", "put")])


def test_metrics_agree_with_the_totals_they_come_from(published: Ran) -> None:
    for record in published.records:
        window_s = (record.window_end_ns - record.window_start_ns) / 1e9
        done = sum(totals.operations for totals in record.totals.values())
        moved = sum(totals.bytes for totals in record.totals.values())
        assert moved == done * (4 << 20)
        assert record.metric("requests_s") == pytest.approx(done / window_s)
        assert record.metric("throughput_mb_s") == pytest.approx(moved / window_s / 1e6)
        parts = [record.metric("throughput_mb_s", op) or 0 for op in ("get", "put")]
        assert record.metric("throughput_mb_s") == pytest.approx(sum(parts))
    # With few large objects on a busy machine, no GET may end in a window.
    with_gets = [r for r in published.records if r.totals["get"].operations]
    assert len(with_gets) >= len(published.records) / 2
    for record in with_gets:
        ttfb, whole = record.metric("ttfb_mean_ns", "get"), record.metric("latency_mean_ns", "get")
        assert ttfb is not None
        assert whole is not None
        assert 0 < ttfb < whole


def figure(page: str, name: str) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the data behind a figure."""
    found = re.search(rf'<figure class="figure" id="fig-{name}">(.*?)</figure>', page, re.S)
    assert found is not None, name
    assert "<svg" in found.group(1)
    columns = re.findall(r'<th scope="col">(.*?)</th>', found.group(1))
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', found.group(1))
    return columns, [[mix, *re.findall("<td>(.*?)</td>", cells)] for mix, cells in rows]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("throughput-by-mix-mixed-get-and-put-all-4-mib", ["MB/s, mean [95 %]"]),
        ("throughput-of-requests-mixed-get-and-put-4-mib", ["MB/s, mean [95 %]"]),
        ("latency-by-mix-mixed-get-and-put-4-mib", ["mean", "p50", "p90", "p99", "p99.9"]),
        ("get-latency-mixed-get-and-put-4-mib", ["p50", "p90", "p99"]),
        ("first-byte-mixed-get-and-put-get-4-mib", ["mean", "p50", "p90", "p99"]),
        ("efficiency-mixed-get-and-put-4-mib", ["MB/s/W", "TB/kWh"]),
    ],
)
def test_the_brief_draws_it_for_every_mix_and_target(
    published: Ran, name: str, columns: list[str]
) -> None:
    headed, rows = figure(published.page, name)
    assert set(columns) <= set(headed)
    named = [row[headed.index("mix") :][:2] for row in rows]
    panels = 2 if "request" in headed else 1  # GET, then PUT
    assert named == [[mix, target] for mix in MIXES for target in TARGETS] * panels
    for row in rows:
        cells = dict(zip(headed, row, strict=True))
        assert all(re.search(r"\d", cells[column]) for column in columns), cells


def test_the_brief_has_its_tables(published: Ran) -> None:
    page = published.page
    for words in ("Per terabyte of raw capacity", "as published", "GET first byte mean", "errors"):
        assert words in page
    assert (published.out / "brief.pdf").read_bytes().startswith(b"%PDF")


def leaks(ran: Ran, *values: str) -> list[str]:
    """Return the result files and outputs that contain a value."""
    files = [path for path in ran.out.rglob("*") if path.is_file()]
    assert len(files) > 20
    found = [str(f) for f in files if any(value.encode() in f.read_bytes() for value in values)]
    return found + [value for value in values if value in ran.printed]


def test_credentials_are_nowhere(published: Ran) -> None:
    for server in published.servers:
        keys = server.credentials
        assert leaks(published, keys.access_key, keys.secret_key) == []


def test_a_session_token_is_sent_and_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "token-of-this-test-and-no-other"
    with gofakes3(tmp_path / "server") as server, FaultyProxy(server.endpoint) as proxy:
        server.set_environment(monkeypatch)
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "study.toml").write_text(
            '[study]\nname = "token"\nrepeats = 1\nramp = 0\nruntime = "2s"\n'
            f'[[target]]\nname = "store"\ns3 = "{proxy.endpoint}/bench"\n'
            '[[workload]]\nkind = "object"\nobject_size = "4KiB"\nobjects = 5\nget_percent = 50\n'
        )
        ran = carry_out(tmp_path)
        assert len(proxy.seen) > 20
        assert {seen.headers.get("x-amz-security-token") for seen in proxy.seen} == {token}
    keys = server.credentials
    assert leaks(ran, token, keys.access_key, keys.secret_key) == []


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Provide the demo over storlab's own server, with fewer runs."""
    place = tmp_path_factory.mktemp("demo")
    study = edited(
        (ROOT / "studies" / "demo-object.toml").read_text(),
        ("embedded:/dev/shm/storlab-demo-objects", "embedded:memory"),
        ("embedded:storlab-demo-objects", "embedded:disk"),
        ("repeats = 3", "repeats = 1"),
        ('runtime = "750ms"', 'runtime = "1s"'),
        ('interval = "250ms"', 'interval = "50ms"'),
        ("get_percent = [30, 50, 70, 90]", "get_percent = [30, 90]"),
        ("objects = 50", "objects = 10"),
    )
    (place / "study.toml").write_text(study)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name, raising=False)
        return carry_out(place)


def test_the_demo_needs_nothing_and_leaves_nothing(demo: Ran) -> None:
    assert len(demo.records) == 2 * 2 * 2
    assert sorted(path.name for path in demo.out.parent.iterdir()) == [
        *("out", "stderr", "stdout", "study.toml")
    ]


def test_the_server_of_the_demo_is_told_apart(demo: Ran) -> None:
    for record in demo.records:
        assert record.status == "finished", record.failure
        assert all(not totals.errors for totals in record.totals.values())
        assert {"embedded-server", "page-cache"} <= {flag.kind for flag in record.flags}
        assert record.server_cpu is not None
        assert record.cpu is not None
        assert record.metric("server_cpu_s_per_gb") is not None
        assert record.metric("cpu_s_per_gb") is not None
    assert "embedded-server" in demo.page
