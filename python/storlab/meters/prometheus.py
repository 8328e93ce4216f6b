"""Meter ``prometheus``: a series of any Prometheus or OpenMetrics exporter, read over HTTP.

The exporter itself is read, because a Prometheus server's values are as old as its last scrape.
See docs/meters/prometheus.md.
"""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.errors import FieldProblems, MeterError, Problem, StudyError
from storlab.base.secrets import hide, secret
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer
from storlab.meters.options import MeterOptions, read_options
from storlab.meters.prometheus_text import Found, find_series
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target
from storlab.model.types import Duration

if TYPE_CHECKING:
    import httpx

BOUNDARY: Boundary = "device"  # unless the study states another
MOST_FAILURES = 3  # consecutive failed scrapes
MOST_BYTES = 64 << 20
_ACCEPT = "application/openmetrics-text;version=1.0.0;q=1,text/plain;version=0.0.4;q=0.5"
_INSTALL = 'pip install "storlab[power]"'
_WALL_CLOCK_NS = 100_000_000  # assumed difference between two hosts' wall clocks under NTP


class PrometheusOptions(MeterOptions):
    """Fields of a meter with ``kind = "prometheus"``: the exporter, its series and their unit."""

    url: str
    metric: str = Field(min_length=1)
    labels: dict[str, str] = Field(default_factory=dict)
    unit: Literal["W", "J"] = "W"
    sampling: Literal["instantaneous", "interval_mean", "counter"] | None = None
    interval: Duration | None = None
    scale: float = Field(default=1.0, gt=0)
    quantum: float | None = Field(default=None, gt=0)
    counter_max: float | None = Field(default=None, gt=0)
    timeout: Duration = Field(default="5s", gt=0)  # type: ignore[assignment]
    stale_after: Duration = Field(default="30s", gt=0)  # type: ignore[assignment]
    clock_uncertainty: Duration = _WALL_CLOCK_NS
    token_env: str | None = None
    username: str | None = None
    password_env: str | None = None
    ca_file: str | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        problems = [
            Problem((field,), what, fix)
            for wrong, field, what, fix in (
                (
                    urlsplit(self.url).scheme not in ("http", "https") or not self.host,
                    "url",
                    f"{self.url!r} is not the address of an exporter",
                    'for example url = "http://node7:9100/metrics"',
                ),
                (
                    "boundary" not in self.model_fields_set,
                    "boundary",
                    "boundary is missing: an exporter does not report which equipment its "
                    "sensor includes",
                    'add boundary = "device", "enclosure", "host" or "wall"',
                ),
                (
                    self.sampling is not None
                    and (self.unit == "J") != (self.sampling == "counter"),
                    "sampling",
                    f"sampling = {self.sampling} is not valid with unit = {self.unit}",
                    'use unit = "J" with sampling = "counter", and "W" with the other two',
                ),
                (
                    self.sampling == "interval_mean" and self.interval is None,
                    "interval",
                    "interval is missing: a mean needs the time that it covers",
                    'for example interval = "1s"',
                ),
                (
                    (self.username is None) != (self.password_env is None),
                    "username",
                    "only one of username and password_env is set",
                    "set both, or neither",
                ),
            )
            if wrong
        ]
        if problems:
            raise FieldProblems(problems)
        return self

    @property
    def host(self) -> str:
        """Host of the exporter, with the port if given."""
        return urlsplit(self.url).netloc

    @property
    def selector(self) -> str:
        """Metric name and labels of the series in PromQL notation."""
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        return f"{self.metric}{{{labels}}}" if labels else self.metric


@dataclass(frozen=True, slots=True)
class _Scrape:
    body: str
    openmetrics: bool
    time_ns: int


class Exporter:
    """HTTP client of an exporter, without redirects; its errors contain no secrets."""

    def __init__(self, options: PrometheusOptions) -> None:
        try:
            import httpx
        except ModuleNotFoundError as failure:
            raise MeterError(options.url, "httpx is not installed", _INSTALL) from failure
        self.where = f"exporter {options.host}"
        self._url = options.url
        self._timeout_ns = options.timeout
        self._watch = MidpointTimer()
        self._secrets: list[str] = []
        headers = {"Accept": _ACCEPT}
        if options.token_env is not None:
            self._secrets.append(secret(options.token_env))
            headers["Authorization"] = f"Bearer {self._secrets[0]}"
        login: tuple[str, str] | None = None
        if options.username is not None and options.password_env is not None:
            self._secrets.append(secret(options.password_env))
            login = (options.username, self._secrets[-1])
        self._client: httpx.Client = httpx.Client(
            headers=headers,
            auth=login,
            timeout=options.timeout / NS_PER_S,
            verify=_tls(options.ca_file, self.where),
            follow_redirects=False,
            trust_env=False,  # a proxy would add its delay to the time stamps
        )

    @property
    def uncertainty_ns(self) -> int:
        """Uncertainty of time stamps: half of the longest scrape so far, in ns."""
        return self._watch.uncertainty_ns

    def scrape(self) -> _Scrape:
        """Fetch the exporter's page of metrics.

        Raises:
            MeterError: The exporter does not answer in time, or answers with an error.
        """
        import httpx

        try:
            (body, kind), time_ns = self._watch.read(self._get)
        except httpx.TimeoutException as failure:
            raise self._slow() from failure
        except httpx.HTTPError as failure:
            reason = hide(str(failure), self._secrets) or type(failure).__name__
            raise MeterError(
                self.where,
                f"no answer: {reason}",
                "check that the exporter runs, and check url and ca_file",
            ) from failure
        return _Scrape(body, kind.startswith("application/openmetrics-text"), time_ns)

    def _get(self) -> tuple[str, str]:
        """Return page and content type of the exporter, within limits of time and size."""
        latest_ns = monotonic_ns() + self._timeout_ns
        page = bytearray()
        with self._client.stream("GET", self._url) as response:
            self._check(response)
            for piece in response.iter_bytes():
                page += piece
                if len(page) > MOST_BYTES:
                    what = f"its page has more than {MOST_BYTES >> 20} MiB"
                    raise MeterError(self.where, what, "set url to the exporter's metrics page")
                if monotonic_ns() > latest_ns:
                    raise self._slow()
            return page.decode("utf-8", "replace"), response.headers.get("content-type", "")

    def _slow(self) -> MeterError:
        return MeterError(
            self.where,
            f"did not answer within {self._timeout_ns / NS_PER_S:g} s",
            "raise timeout, or lower rate_hz",
        )

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == 200:
            return
        fix = "see the exporter's log"
        what = f"HTTP {status} {response.reason_phrase}"
        if status in (401, 403):
            what = f"HTTP {status}: the exporter rejects the credentials"
            fix = "check token_env, or username and password_env"
        elif response.is_redirect:
            what = f"HTTP {status}: moved to {urlsplit(response.headers.get('location', '')).path}"
            fix = "correct the url"
        elif status == 404:
            fix = "correct the url: most exporters answer at /metrics"
        raise MeterError(self.where, what, fix)

    def close(self) -> None:
        """Close the connection to the exporter."""
        self._client.close()


def _tls(ca_file: str | None, where: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as failure:
        raise MeterError(
            where, f"ca_file {ca_file}: {failure}", "set ca_file to a file of PEM certificates"
        ) from failure


class PrometheusMeter:
    """Meter that reads one series of an exporter."""

    def __init__(self, options: PrometheusOptions, exporter: Exporter) -> None:
        self.rate_hz = options.rate_hz
        self._options = options
        self._exporter = exporter
        self._name = f"prometheus:{options.selector}"
        self._failures = 0
        self._noted: dict[str, int] = {}
        self._latest_ns = -1
        self._stamp: str | None = None
        self._raw: float | None = None  # last value of the counter
        self._before = 0.0  # energy counted before resets of the counter
        series, time_ns = self._scrape()
        self._reading(series, time_ns)
        self._stamped = series.timestamp_s is not None

    def describe(self) -> list[SensorInfo]:
        """Return one sensor: the series of the exporter."""
        options = self._options
        uncertainty = self._exporter.uncertainty_ns
        stamping = "stamped when it was scraped"
        if self._stamped:
            stamping = "stamped by the exporter, by its wall clock"
            uncertainty += options.clock_uncertainty
        info = options.info(
            sensor=self._name,
            description=f"{options.selector} of {options.host}, {stamping}",
            sampling=options.sampling or ("counter" if options.unit == "J" else "instantaneous"),
            unit=options.unit,
            sensor_interval_ns=options.interval,
            counter_max=options.counter_max,
            quantum=options.quantum,
            clock_uncertainty_ns=uncertainty,
        )
        return [info]

    def sample(self) -> list[Reading]:
        """Read the exporter once and return at most one reading.

        There is no reading if the exporter's time stamp has not changed, the scrape fails, or the
        value is missing (NaN) or stale.

        Raises:
            MeterError: ``MOST_FAILURES`` scrapes in a row have failed.
        """
        try:
            series, time_ns = self._scrape()
            reading = self._reading(series, time_ns)
        except MeterError as failure:
            self._failures += 1
            self._note(failure.what)
            if self._failures >= MOST_FAILURES:
                raise
            return []
        self._failures = 0
        if reading.time_ns <= self._latest_ns or (
            reading.sensor_time is not None and reading.sensor_time == self._stamp
        ):
            return []
        self._latest_ns, self._stamp = reading.time_ns, reading.sensor_time
        return [reading]

    def _scrape(self) -> tuple[Found, int]:
        scrape = self._exporter.scrape()
        options = self._options
        series = find_series(
            scrape.body,
            options.metric,
            options.labels,
            openmetrics=scrape.openmetrics,
            where=self._exporter.where,
        )
        return series, scrape.time_ns

    def _reading(self, series: Found, time_ns: int) -> Reading:
        if not math.isfinite(series.value):
            raise MeterError(
                self._exporter.where,
                f"{self._options.selector} is {series.value}, so the exporter has no value",
                "look for the reason in the exporter's log",
            )
        stamp = None
        if series.timestamp_s is not None:
            stamp = repr(series.timestamp_s)
            time_ns = self._on_run_clock(series.timestamp_s)
        value = series.value * self._options.scale
        if self._options.unit == "J" and self._options.counter_max is None:
            value = self._unreset(value)
        return Reading(self._name, time_ns, value, stamp)

    def _on_run_clock(self, timestamp_s: float) -> int:
        """Convert the exporter's time stamp (s since 1970) to ns on the run's clock.

        Raises:
            MeterError: The time stamp is older than ``stale_after``.
        """
        now_ns = monotonic_ns()
        age_ns = wall_at_ns(now_ns) - round(timestamp_s * NS_PER_S)
        if age_ns > self._options.stale_after:
            raise MeterError(
                self._exporter.where,
                f"{self._options.selector} is {age_ns / NS_PER_S:.0f} s old: the exporter returns "
                "a stale value, or the clocks of the two hosts differ",
                "check the exporter's log, and NTP on both hosts; or raise stale_after",
            )
        return now_ns - max(age_ns, 0)

    def _unreset(self, value: float) -> float:
        """Return the value of a counter that continues to grow when the exporter restarts.

        As in Prometheus, a counter that decreases is taken to have restarted at 0. Energy between
        the last scrape and the restart is lost, so the result is slightly too small.
        """
        if self._raw is not None and value < self._raw:
            self._before += self._raw
            self._note("the counter was reset, so some of the energy was not counted")
        self._raw = value
        return self._before + value

    def _note(self, note: str) -> None:
        self._noted[note] = self._noted.get(note, 0) + 1

    def notes(self) -> list[str]:
        """Return the problems since the last call, with how often each occurred, and clear them."""
        noted, self._noted = self._noted, {}
        where = self._exporter.where
        return [
            f"{where}: {note}" + (f" ({n} times)" if n > 1 else "") for note, n in noted.items()
        ]

    def after_run(self, outcome: RunOutcome) -> list[Reading]:  # noqa: ARG002
        """Return no readings: all are taken during the run."""
        return []

    def close(self) -> None:
        """Close the connection to the exporter."""
        self._exporter.close()


def open_meter(spec: MeterSpec, target: Target) -> PrometheusMeter:
    """Open the series that a study names, and read it once.

    Raises:
        StudyError: A field is wrong.
        PreflightError: A secret is neither in the environment nor in the keyring.
        MeterError: The exporter does not answer, or the series is missing, ambiguous or stale.
    """
    options = read_options(PrometheusOptions, spec, target)
    exporter = Exporter(options)
    try:
        return PrometheusMeter(options, exporter)
    except (MeterError, StudyError):
        exporter.close()
        raise


def discover() -> list[Discovered]:
    """Return an example for ``storlab meters``; exporters are not searched for."""
    missing = _missing_packages()
    how = (
        'meters = [{ kind = "prometheus", boundary = "host", url = "http://host:9100/metrics", '
        'metric = "node_hwmon_power_average_watt", labels = { sensor = "power1" } }]'
    )
    if missing:
        how = f"{' and '.join(missing)} not installed: {_INSTALL}"
    return [
        Discovered(
            kind="prometheus",
            sensor="any series of any exporter",
            available=False,
            rate="on request",
            accuracy="as the exporter's sensor",
            privilege="network, and the exporter's credentials",
            how=how,
        )
    ]


def _missing_packages() -> list[str]:
    from importlib.util import find_spec

    names = {"httpx": "httpx", "prometheus_client": "prometheus-client"}
    return [package for module, package in names.items() if find_spec(module) is None]
