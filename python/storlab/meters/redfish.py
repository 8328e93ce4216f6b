"""Meter ``redfish``: power of a chassis, read over HTTPS from its BMC (DMTF Redfish)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from storlab.base.errors import FieldProblems, MeterError, Problem
from storlab.base.secrets import secret
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer
from storlab.meters.options import MeterOptions, read_options
from storlab.meters.redfish_sources import Quantity, Source, Value, find_source, read_value, resolve
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target
from storlab.model.types import Duration

if TYPE_CHECKING:
    from storlab.meters.redfish_client import Client

BOUNDARY: Boundary = "host"  # unless the study states another
EXTRA = 'pip install "storlab[power]"'
_SERVICE_PATHS = ("", "/", "/redfish", "/redfish/", "/redfish/v1", "/redfish/v1/")


class RedfishOptions(MeterOptions):
    """Fields of a meter with ``kind = "redfish"``; ``url`` names the service or a resource."""

    boundary: Boundary = BOUNDARY
    url: str = Field(pattern=r"^https?://[^/\s]+(/\S*)?$")
    chassis: str | None = Field(
        default=None, min_length=1, description="Id; needed if several have power"
    )
    quantity: Quantity = Field(default="power", description="power, average or energy (a counter)")
    user: str | None = Field(default=None, min_length=1)
    password_env: str | None = Field(default=None, min_length=1)
    auth: Literal["session", "basic"] = "session"
    ca: str | None = Field(default=None, min_length=1, description="PEM file of the CA")
    insecure: bool = Field(default=False, description="accept any certificate, or none at all")
    timeout: Duration = Field(default="10s", gt=0)  # type: ignore[assignment]

    @model_validator(mode="after")
    def _access(self) -> RedfishOptions:
        problems = []
        try:
            _ = urlsplit(self.url).port
        except ValueError as error:
            problems.append(Problem(("url",), str(error), 'write url = "https://bmc:443"'))
        if (self.user is None) != (self.password_env is None):
            what = "only one of user and password_env is set"
            problems.append(Problem((), what, 'add password_env = "BMC_PASSWORD", or user'))
        if self.url.startswith("http:") and not self.insecure:
            what = "http sends the password unencrypted"
            problems.append(Problem(("url",), what, "write https://, or set insecure = true"))
        if self.ca is not None and self.insecure:
            what = "ca has no effect with insecure = true, because certificates are not checked"
            problems.append(Problem(("ca",), what, "remove ca or insecure"))
        if problems:
            raise FieldProblems(problems)
        return self


class RedfishMeter:
    """Meter that reads the power of one chassis, or one resource of a Redfish service."""

    def __init__(self, options: RedfishOptions) -> None:
        self._options = options
        parts = urlsplit(options.url)
        self._base = f"{parts.scheme}://{parts.netloc}"
        self._clock = MidpointTimer()
        self._step: float | None = None
        self._client = _client(options, self._base)
        try:
            if parts.path in _SERVICE_PATHS:
                self._source = find_source(
                    self._client.get, "/redfish/v1/", options.quantity, options.chassis
                )
            else:
                given = f"{parts.path}?{parts.query}" if parts.query else parts.path
                path = resolve(self._client.get, given, options.quantity) or given
                self._source = Source((path,), parts.path.rstrip("/").rsplit("/", 1)[-1])
            place = self._source.paths[0].removeprefix("/redfish/v1/")
            self._sensor = f"redfish:{parts.hostname}/{place}"
            self._about = self._read_values()[0][0]
        except MeterError:
            self._client.close()
            raise

    def describe(self) -> list[SensorInfo]:
        """Return one sensor with the service's description, in W, or in J for energy."""
        about, source = self._about, self._source
        return [
            self._options.info(
                sensor=self._sensor,
                description=f"{self._base}, {source.what}",
                sampling=about.sampling,
                unit=about.unit,
                supply=source.supply,
                sensor_interval_ns=about.interval_ns,
                gain_accuracy=about.gain_accuracy,
                offset_accuracy_w=about.offset_accuracy_w,
                quantum=self._step,
                clock_uncertainty_ns=self._clock.uncertainty_ns + about.refresh_ns // 2,
            )
        ]

    def sample(self) -> list[Reading]:
        """Return one reading.

        Raises:
            MeterError: The service fails, or the value is null or missing.
        """
        return [self._read()]

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return no readings: all are taken during the run."""
        del outcome
        return []

    def close(self) -> None:
        """Log out of the service."""
        self._client.close()

    def _read(self) -> Reading:
        values, time_ns = self._read_values()
        if any(value.sampling != self._about.sampling for value in values):
            what = f"no longer reports its {self._about.sampling} value"
            fix = "set url to a resource that always reports it"
            raise MeterError(f"{self._base}{self._source.paths[0]}", what, fix)
        stamps = [value.stamp for value in values if value.stamp is not None]
        total = sum(value.number for value in values)
        return Reading(self._sensor, time_ns, total, " ".join(stamps) or None)

    def _read_values(self) -> tuple[list[Value], int]:
        values, time_ns = self._clock.read(lambda: [self._power_of(p) for p in self._source.paths])
        step = min(value.step for value in values)
        self._step = step if self._step is None else min(self._step, step)
        return values, time_ns

    def _power_of(self, path: str) -> Value:
        value = read_value(self._client.get(path), self._options.quantity)
        if value is None:
            raise MeterError(
                f"{self._base}{path}",
                f"has no {self._options.quantity}: the reading is null or missing",
                "check that the chassis is on, or set another quantity (power, average, energy)",
            )
        return value


def _client(options: RedfishOptions, base: str) -> Client:
    try:
        from storlab.meters.redfish_client import Access, Client
    except ModuleNotFoundError as error:
        raise MeterError("redfish", f"needs the library {error.name}", EXTRA) from error
    return Client(
        Access(
            base=base,
            user=options.user,
            password=secret(options.password_env) if options.password_env else None,
            session=options.auth == "session",
            ca=options.ca,
            verify=not options.insecure,
            timeout_s=options.timeout / NS_PER_S,
        )
    )


def discover() -> list[Discovered]:
    """Return one entry: whether httpx is installed. Services are not searched for."""
    try:
        import httpx  # noqa: F401
    except ImportError:
        available, how = False, EXTRA
    else:
        available = True
        how = '{ kind = "redfish", url = "https://bmc", user = "...", password_env = "..." }'
    return [
        Discovered(
            kind="redfish",
            sensor="chassis power of a BMC by HTTPS",
            available=available,
            rate="1 Hz; many BMCs refresh every 1 s to 10 s",
            accuracy="as the service states it, often not at all",
            privilege="a read-only user of the BMC",
            how=how,
        )
    ]


def open_meter(spec: MeterSpec, target: Target) -> RedfishMeter:
    """Open the service that a study names, find the chassis' power, and read it once.

    Raises:
        StudyError: A field is wrong.
        PreflightError: The password is neither in the environment nor in the keyring.
        MeterError: The service cannot be reached or has no such value.
    """
    return RedfishMeter(read_options(RedfishOptions, spec, target))
