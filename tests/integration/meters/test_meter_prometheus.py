"""The prometheus meter against real HTTP servers, well-behaved and faulty."""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from pydantic import ValidationError

from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.errors import MeterError, PreflightError, StorlabError, StudyError
from storlab.meters.prometheus import MOST_FAILURES, PrometheusMeter, discover, open_meter
from storlab.model.study import MeterSpec, Target

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PAGE = """# HELP node_power_watts Power.
# TYPE node_power_watts gauge
node_power_watts{chip="psu1",sensor="in"} 210.5
node_power_watts{chip="psu2",sensor="in"} 190
node_power_watts_max{chip="psu1"} 800
# TYPE energy_joules_total counter
energy_joules_total{zone="package"} 1000
single_watts 7.25
"""


class Exporter(ThreadingHTTPServer):
    """Settings of the next answers: status, content type, page."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.kind, self.page = 200, TEXT, PAGE
        self.headers: dict[str, str] = {}
        self.authorization: str | None = None  # required by the server
        self.blocked: threading.Event | None = None  # answers wait until it is set
        self.seen: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/metrics"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Exporter

    def do_GET(self) -> None:
        exporter = self.server
        exporter.seen.append({"path": self.path, **dict(self.headers)})
        if exporter.blocked is not None:
            exporter.blocked.wait()
        wrong = exporter.authorization not in (None, self.headers.get("Authorization"))
        body = (b"denied" if wrong else exporter.page.encode()) if self.path == "/metrics" else b""
        self.send_response(401 if wrong else exporter.status if body else 404)
        self.send_header("Content-Type", exporter.kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in exporter.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    server = Exporter()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    if server.blocked is not None:
        server.blocked.set()
    server.shutdown()
    thread.join()
    server.server_close()


def _open(url: str, metric: str = "single_watts", **fields: Any) -> PrometheusMeter:
    given = {"kind": "prometheus", "boundary": "host", "url": url, "metric": metric, **fields}
    return open_meter(MeterSpec.model_validate(given), Target(name="t", path="null:"))


@pytest.fixture
def opened() -> Iterator[list[PrometheusMeter]]:
    meters: list[PrometheusMeter] = []
    yield meters
    for meter in meters:
        meter.close()


def _failure(url: str, metric: str = "single_watts", **fields: Any) -> StorlabError:
    with pytest.raises(StorlabError) as found:
        _open(url, metric, **fields)
    return found.value


def test_a_gauge_by_its_labels(exporter: Exporter, opened: list[PrometheusMeter]) -> None:
    meter = _open(exporter.url, "node_power_watts", labels={"chip": "psu1"}, scale=0.5)
    opened.append(meter)
    before = monotonic_ns()
    (reading,) = meter.sample()
    assert before <= reading.time_ns <= monotonic_ns()
    assert (reading.value, reading.sensor_time) == (105.25, None)
    (info,) = meter.describe()
    assert info.sensor == 'prometheus:node_power_watts{chip="psu1"}'
    assert (info.boundary, info.sampling, info.unit) == ("host", "instantaneous", "W")
    assert info.clock_uncertainty_ns > 0
    assert len({seen["Host"] for seen in exporter.seen}) == 1
    assert exporter.seen[0]["Accept"].startswith("application/openmetrics-text")


def test_a_counter_and_its_reset(exporter: Exporter, opened: list[PrometheusMeter]) -> None:
    meter = _open(exporter.url, "energy_joules_total", unit="J")
    opened.append(meter)
    values = []
    for joules in (1000, 1600, 50, 90, 10):  # the exporter restarts twice
        exporter.page = f"energy_joules_total {joules}\n"
        values.append(meter.sample()[0].value)
    assert values == [1000, 1600, 1650, 1690, 1700]
    (note,) = meter.notes()
    assert note.endswith("the counter was reset, so some of the energy was not counted (2 times)")
    assert meter.notes() == []
    (info,) = meter.describe()
    assert (info.sampling, info.unit, info.counter_max) == ("counter", "J", None)


def test_a_counter_that_wraps_is_left_to_the_integration(
    exporter: Exporter, opened: list[PrometheusMeter]
) -> None:
    meter = _open(exporter.url, "energy_joules_total", unit="J", counter_max=262_143.3)
    opened.append(meter)
    exporter.page = "energy_joules_total 12\n"
    assert meter.sample()[0].value == 12
    assert meter.describe()[0].counter_max == 262_143.3


def _stamped(value: float, age_s: float) -> str:
    at = wall_at_ns(monotonic_ns()) / 1e9 - age_s
    return f"# TYPE p gauge\np {value} {at:.6f}\n# EOF\n"


def test_stamps_of_the_exporter_are_put_on_the_clock_of_the_run(
    exporter: Exporter, opened: list[PrometheusMeter]
) -> None:
    exporter.kind, exporter.page = OPENMETRICS, _stamped(40, 5)
    meter = _open(exporter.url, "p")
    opened.append(meter)
    (first,) = meter.sample()
    assert first.value == 40
    assert 4_000_000_000 < monotonic_ns() - first.time_ns < 60_000_000_000
    assert meter.sample() == []  # the same timestamp is not a new reading
    exporter.page = _stamped(41, 4)
    (second,) = meter.sample()
    assert second.time_ns > first.time_ns
    assert second.sensor_time != first.sensor_time
    exporter.page = _stamped(42, 10)  # back in time
    assert meter.sample() == []
    (info,) = meter.describe()
    assert "wall clock" in info.description
    assert info.clock_uncertainty_ns >= 100_000_000


def test_stamps_of_the_text_format_are_milliseconds(
    exporter: Exporter, opened: list[PrometheusMeter]
) -> None:
    at_ms = wall_at_ns(monotonic_ns()) // 1_000_000 - 3_000
    exporter.page = f"p 40 {at_ms}\n"
    meter = _open(exporter.url, "p")
    opened.append(meter)
    (reading,) = meter.sample()
    assert 3_000_000_000 <= monotonic_ns() - reading.time_ns < 25_000_000_000


def test_stale_values_end_the_sensor(exporter: Exporter, opened: list[PrometheusMeter]) -> None:
    exporter.kind, exporter.page = OPENMETRICS, _stamped(40, 120)
    error = _failure(exporter.url, "p")
    assert "s old: the exporter returns a stale value" in error.what
    exporter.page = _stamped(40, 0)
    meter = _open(exporter.url, "p", stale_after="20s")
    opened.append(meter)
    assert len(meter.sample()) == 1
    exporter.page = _stamped(40, 40)
    for _ in range(MOST_FAILURES - 1):
        assert meter.sample() == []
    with pytest.raises(MeterError, match="stale"):
        meter.sample()


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"status": 503}, "HTTP 503"),
        ({"page": "single_watts NaN\n"}, "is nan"),
        ({"page": "single_watts +Inf\n"}, "is inf"),
        ({"page": "other_watts 1\n"}, "has no metric single_watts"),
        ({"page": "single_watts {{{\n"}, "exposition format"),
        ({"authorization": "Bearer new"}, "HTTP 401"),
    ],
)
def test_one_failed_scrape_is_a_gap_and_several_are_the_end(
    exporter: Exporter, opened: list[PrometheusMeter], broken: dict[str, Any], words: str
) -> None:
    meter = _open(exporter.url)
    opened.append(meter)
    good = {name: getattr(exporter, name) for name in broken}

    def behave(state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(exporter, name, value)

    behave(broken)
    assert meter.sample() == []
    assert words in meter.notes()[0]
    behave(good)
    assert meter.sample()[0].value == 7.25
    behave(broken)
    for _ in range(MOST_FAILURES - 1):
        assert meter.sample() == []
    with pytest.raises(MeterError) as found:
        meter.sample()
    assert words in found.value.what


def test_an_exporter_that_is_gone(exporter: Exporter, opened: list[PrometheusMeter]) -> None:
    meter = _open(exporter.url, timeout="2s")
    opened.append(meter)
    exporter.headers = {"Connection": "close"}
    assert len(meter.sample()) == 1
    exporter.socket.close()
    for _ in range(MOST_FAILURES - 1):
        assert meter.sample() == []
    with pytest.raises(MeterError):
        meter.sample()


def test_a_slow_exporter_is_not_waited_for(exporter: Exporter) -> None:
    exporter.blocked = threading.Event()
    error = _failure(exporter.url, timeout="100ms")
    assert "did not answer within 0.1 s" in error.what


def test_a_page_that_trickles_is_not_waited_for_either() -> None:
    class Trickle(_Handler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while not stop.is_set():
                    self.wfile.write(b"# " * 40 + b"\n")
                    self.wfile.flush()
                    time.sleep(0.01)
            except OSError:
                return

    stop = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        assert "did not answer within 0.3 s" in _failure(url, timeout="300ms").what
    finally:
        stop.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_nobody_there(exporter: Exporter) -> None:
    url = exporter.url
    closed = Exporter()
    closed.server_close()
    url = closed.url
    assert "no answer" in _failure(url).what


def test_wrong_pages(exporter: Exporter) -> None:
    assert "HTTP 404" in _failure(exporter.url.replace("metrics", "metric")).what
    exporter.status, exporter.headers = 302, {"Location": "https://user:pw@host/new"}
    error = _failure(exporter.url)
    assert error.what == "HTTP 302: moved to /new"


def test_a_missing_metric_names_the_closest(exporter: Exporter) -> None:
    error = _failure(exporter.url, "node_power_wats")
    assert "no metric node_power_wats" in error.what
    assert error.fix == "did you mean node_power_watts?"


def test_labels_that_match_nothing_or_too_much(exporter: Exporter) -> None:
    error = _failure(exporter.url, "node_power_watts", labels={"chip": "psu3"})
    assert 'has the labels chip = "psu3"' in error.what
    assert 'chip = "psu1", sensor = "in"; chip = "psu2", sensor = "in"' in error.fix
    error = _failure(exporter.url, "node_power_watts", labels={"sensor": "in"})
    assert "2 series of node_power_watts match" in error.what
    assert "they differ in chip" in error.what
    assert error.fix == 'add one of these to labels: chip = "psu1"; chip = "psu2"'


def test_a_token_from_the_environment(
    exporter: Exporter, opened: list[PrometheusMeter], monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter.authorization = "Bearer right-token"
    monkeypatch.setenv("EXPORTER_TOKEN", "wrong-token")
    error = _failure(exporter.url, token_env="EXPORTER_TOKEN")
    assert "rejects the credentials" in error.what
    assert "wrong-token" not in str(error)
    monkeypatch.setenv("EXPORTER_TOKEN", "right-token")
    meter = _open(exporter.url, token_env="EXPORTER_TOKEN")
    opened.append(meter)
    assert meter.sample()[0].value == 7.25
    assert "right-token" not in meter.describe()[0].model_dump_json()
    monkeypatch.delenv("EXPORTER_TOKEN")
    assert isinstance(_failure(exporter.url, token_env="EXPORTER_TOKEN"), PreflightError)


def test_a_password_from_the_environment(
    exporter: Exporter, opened: list[PrometheusMeter], monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter.authorization = "Basic " + base64.b64encode(b"me:secret").decode()
    monkeypatch.setenv("EXPORTER_PASSWORD", "secret")
    meter = _open(exporter.url, username="me", password_env="EXPORTER_PASSWORD")
    opened.append(meter)
    assert meter.sample()[0].value == 7.25


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "node7:9100"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"unit": "J", "sampling": "instantaneous"}, "sampling"),
        ({"sampling": "counter"}, "sampling"),
        ({"sampling": "interval_mean"}, "interval"),
        ({"username": "me"}, "username"),
        ({"scale": 0}, "scale"),
        ({"label": {"a": "b"}}, "label"),
    ],
)
def test_fields_that_do_not_agree(fields: dict[str, Any], field: str) -> None:
    error = _failure(**{"url": "http://127.0.0.1:9/metrics", **fields})
    assert isinstance(error, StudyError)
    assert error.where.endswith(f"meter: {field}")
    assert error.fix or field == "scale"


@pytest.mark.parametrize(
    "fields", [{"password": "x"}, {"token": "x"}, {"url": "http://me:x@host/metrics"}]
)
def test_secrets_are_refused_as_the_study_is_read(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"secret|password"):
        _open(**{"url": "http://127.0.0.1:9/metrics", **fields})


def test_the_boundary_has_to_be_said() -> None:
    spec = MeterSpec.model_validate(
        {"kind": "prometheus", "url": "http://127.0.0.1:9/metrics", "metric": "x"}
    )
    with pytest.raises(StudyError, match="boundary is missing"):
        open_meter(spec, Target(name="t", path="null:"))


def test_tls_by_the_study_s_own_authority(tmp_path: Path, opened: list[PrometheusMeter]) -> None:
    authority = trustme.CA()
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = Exporter()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        url = server.url.replace("http:", "https:")
        meter = _open(url, ca_file=str(ca_file))
        opened.append(meter)
        assert meter.sample()[0].value == 7.25
        error = _failure(url)
        assert "no answer" in error.what
        assert "certificate" in error.what.lower()
        assert "ca_file" in _failure(url, ca_file=str(tmp_path / "absent.pem")).what
    finally:
        for meter in opened:
            meter.close()
        server.shutdown()
        thread.join()
        server.server_close()


def test_discovery_says_how_to_name_one() -> None:
    (found,) = discover()
    assert not found.available
    assert "url" in found.how
