"""Meter ``snmp``: outlets of a power distribution unit (PDU), or any SNMP object with power."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from storlab.base.errors import FieldProblems, MeterError, Problem
from storlab.base.secrets import secret
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer
from storlab.meters.options import MeterOptions, read_options
from storlab.meters.snmp_mibs import FACTORS, MIBS, Unit
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target
from storlab.model.types import Duration

if TYPE_CHECKING:
    from storlab.meters.snmp_client import Answer, Client

BOUNDARY: Boundary = "wall"  # unless the study states another
EXTRA = 'pip install "storlab[power]"'
MOST_DIGITS = 9  # plausibility limit for the number of decimal places
Outlet = Annotated[int, Field(ge=0)]


class SnmpOptions(MeterOptions):
    """Fields of a meter with ``kind = "snmp"``: outlets of a ``mib``, or ``oid`` with ``unit``."""

    boundary: Boundary = BOUNDARY
    host: str = Field(min_length=1, description="address of the PDU")
    port: int = Field(default=161, ge=1, le=65_535)
    version: Literal["2c", "3"] = "2c"
    community_env: str | None = Field(default=None, min_length=1)
    user: str | None = Field(default=None, min_length=1)
    auth: Literal["md5", "sha", "sha224", "sha256", "sha384", "sha512"] = "sha"
    auth_password_env: str | None = Field(default=None, min_length=1)
    priv: Literal["des", "aes128", "aes192", "aes256"] = "aes128"
    priv_password_env: str | None = Field(default=None, min_length=1)
    mib: Literal["apc-rpdu2", "raritan-pdu2"] | None = None
    pdu: int = Field(default=1, ge=0, description="number of the unit in a chain (raritan-pdu2)")
    outlets: list[Outlet] | None = Field(default=None, min_length=1, description="to add up")
    oid: str | None = Field(default=None, pattern=r"^\.?\d+(\.\d+)+$")
    scale: float = Field(default=1.0, gt=0, description="factor from the object's number to unit")
    unit: Unit | None = Field(default=None, description="power: W, kW; counter: J, Wh, kWh")
    timeout: Duration = Field(default="2s", gt=0)  # type: ignore[assignment]
    retries: int = Field(default=1, ge=0, le=5)

    @model_validator(mode="after")
    def _whole(self) -> SnmpOptions:
        problems = [*self._access_problems(), *self._object_problems()]
        if problems:
            raise FieldProblems(problems)
        return self

    def _access_problems(self) -> list[Problem]:
        v2c = self.version == "2c"
        needed = "community_env" if v2c else "user"
        foreign = ("user", "auth_password_env", "priv_password_env") if v2c else ("community_env",)
        problems = [
            Problem((name,), f'{name} is not for version = "{self.version}"', f"remove {name}")
            for name in foreign
            if getattr(self, name) is not None
        ]
        if getattr(self, needed) is None:
            example = '"PDU_COMMUNITY"' if v2c else '"metering"'
            what = f'version = "{self.version}" needs {needed}'
            problems.append(Problem((needed,), what, f"add {needed} = {example}"))
        if self.priv_password_env is not None and self.auth_password_env is None:
            what = "privacy needs authentication"
            problems.append(Problem(("priv_password_env",), what, "add auth_password_env"))
        return problems

    def _object_problems(self) -> list[Problem]:
        if (self.mib is None) == (self.oid is None):
            what = "an SNMP meter needs either a mib with outlets, or an oid"
            return [Problem(("mib",), what, 'for example mib = "apc-rpdu2", outlets = [7, 8]')]
        if self.mib is not None and self.outlets is None:
            return [Problem(("outlets",), "outlets is missing", "for example outlets = [7, 8]")]
        if self.oid is not None and self.unit is None:
            return [
                Problem(
                    ("unit",),
                    "the unit of the oid is missing",
                    'add unit = "W", and scale if needed',
                )
            ]
        if self.mib is not None and (self.unit is not None or self.scale != 1):
            return [
                Problem(("mib",), "a mib defines its own unit and scale", "remove unit and scale")
            ]
        if self.outlets is not None and len(set(self.outlets)) < len(self.outlets):
            return [Problem(("outlets",), "an outlet is listed twice", "list each outlet once")]
        return []


@dataclass(frozen=True, slots=True)
class Objects:
    """Names (OIDs) of the SNMP objects to read; each list has one per outlet, or is empty.

    ``values`` are power or energy, ``digits`` numbers of decimal places, ``available`` states of
    validity, ``stamps`` times.
    """

    values: list[str]
    digits: list[str] = field(default_factory=list)
    available: list[str] = field(default_factory=list)
    stamps: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, options: SnmpOptions) -> Objects:
        """Return the objects for the ``mib`` and ``outlets``, or the ``oid``, of a study."""
        if options.mib is None:
            base = (options.oid or "").lstrip(".")
            return cls([base + tail for tail in [f".{n}" for n in options.outlets or []] or [""]])
        mib = MIBS[options.mib]
        templates = (mib.power, mib.digits, mib.available, mib.stamp)
        outlets = options.outlets or []
        return cls(*([mib.at(t, options.pdu, n) for n in outlets if t] for t in templates))


class SnmpMeter:
    """Meter that reads one PDU; the sum of the outlets that the study lists is one sensor."""

    def __init__(self, options: SnmpOptions) -> None:
        self._options = options
        self._where = f"SNMP agent {options.host}:{options.port}"
        self._clock = MidpointTimer()
        self._objects = Objects.of(options)
        self._factors = [options.scale * FACTORS[options.unit or "W"]] * len(self._objects.values)
        self._wraps_at: float | None = None
        self._client = _client(options)
        try:
            if self._objects.digits:
                self._factors = self._decimals(self._client.get(self._objects.digits))
            values, _ = self._ask()  # slow in SNMPv3, which first discovers the agent; so not timed
            self._clock.read(self._ask)
        except MeterError:
            self._client.close()
            raise
        wraps = {value.wraps_at for value in values}
        if self._is_counter and len(wraps) == 1 and (wrap := wraps.pop()) is not None:
            self._wraps_at = wrap * self._factors[0]

    def describe(self) -> list[SensorInfo]:
        """Return one sensor, in W, or in J if the unit is a unit of energy."""
        options = self._options
        source = MIBS[options.mib].title if options.mib else f"object {options.oid}"
        parts = ", ".join(map(str, options.outlets or []))
        counter_max = None
        if self._wraps_at is not None:
            counter_max = self._wraps_at - self._factors[0]
        return [
            options.info(
                sensor=self._sensor,
                description=f"{options.host}, {source}" + (f", outlets {parts}" if parts else ""),
                sampling="counter" if self._is_counter else "instantaneous",
                unit="J" if self._is_counter else "W",
                supply="ac" if options.mib else "unknown",
                quantum=max(self._factors),
                counter_max=counter_max,
                clock_uncertainty_ns=self._clock.uncertainty_ns,
            )
        ]

    def sample(self) -> list[Reading]:
        """Return one reading, the sum of the outlets.

        Raises:
            MeterError: The PDU does not answer, or an outlet has no valid value.
        """
        (values, stamps), time_ns = self._clock.read(self._ask)
        total = sum(a.number * factor for a, factor in zip(values, self._factors, strict=True))
        if self._wraps_at is not None:  # a sum of counters wraps like its parts
            total %= self._wraps_at
        stamp = " ".join(answer.text for answer in stamps)
        return [Reading(self._sensor, time_ns, total, stamp or None)]

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return no readings: all are taken during the run."""
        del outcome
        return []

    def close(self) -> None:
        """Close the socket to the agent."""
        self._client.close()

    @property
    def _is_counter(self) -> bool:
        return self._options.unit in ("J", "Wh", "kWh")

    @property
    def _sensor(self) -> str:
        options = self._options
        outlets = "+".join(map(str, options.outlets or []))
        return f"snmp:{options.host}/{outlets or (options.oid or '').lstrip('.')}"

    def _decimals(self, digits: list[Answer]) -> list[float]:
        for answer in digits:
            if not 0 <= answer.number <= MOST_DIGITS:
                what = f"reports an impossible number of decimal places, {answer.text}"
                raise MeterError(self._where, what, "check mib, outlets and pdu")
        return [10.0**-answer.number for answer in digits]

    def _ask(self) -> tuple[list[Answer], list[Answer]]:
        """Read values and time stamps of all outlets.

        Raises:
            MeterError: A value is unavailable, negative or not finite; it must not count as 0.
        """
        objects = self._objects
        answers = self._client.get([*objects.values, *objects.available, *objects.stamps])
        count = len(objects.values)
        values, rest = answers[:count], answers[count:]
        valid = rest[: len(objects.available)]
        for index, value in enumerate(values):
            is_valid = not valid or valid[index].number == 1
            if not is_valid or value.number < 0 or not math.isfinite(value.number):
                outlets = self._options.outlets
                source = f"outlet {outlets[index]}" if outlets else f"object {self._options.oid}"
                raise MeterError(
                    self._where,
                    f"{source} has no valid reading ({value.text})",
                    "check that this PDU model measures each outlet",
                )
        return values, rest[len(valid) :]


def _client(options: SnmpOptions) -> Client:
    try:
        from storlab.meters.snmp_client import Agent, Client
    except ModuleNotFoundError as error:
        raise MeterError("snmp", f"needs the library {error.name}", EXTRA) from error

    def held(name: str | None) -> str | None:
        return None if name is None else secret(name)

    return Client(
        Agent(
            host=options.host,
            port=options.port,
            community=held(options.community_env),
            user=options.user,
            auth=options.auth,
            auth_password=held(options.auth_password_env),
            priv=options.priv,
            priv_password=held(options.priv_password_env),
            timeout_s=options.timeout / NS_PER_S,
            retries=options.retries,
        )
    )


def discover() -> list[Discovered]:
    """Return one entry: whether pysnmp is installed. PDUs are not searched for."""
    try:
        import pysnmp  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        available, how = False, EXTRA
    else:
        available = True
        how = (
            '{ kind = "snmp", host = "pdu", community_env = "PDU_COMMUNITY", '
            f'mib = "apc-rpdu2", outlets = [7, 8] }}; mibs: {", ".join(MIBS)}; others by oid, unit'
        )
    return [
        Discovered(
            kind="snmp",
            sensor="outlets of a PDU",
            available=available,
            rate="1 Hz; many PDUs refresh every 1 s to 5 s",
            accuracy="by the data sheet, often 1 % to 5 %; 1 W steps",
            privilege="read access by SNMP",
            how=how,
        )
    ]


def open_meter(spec: MeterSpec, target: Target) -> SnmpMeter:
    """Open the PDU that a study names, and read it once.

    Raises:
        StudyError: A field is wrong.
        PreflightError: A secret is neither in the environment nor in the keyring.
        MeterError: The PDU does not answer, or has no valid value.
    """
    return SnmpMeter(read_options(SnmpOptions, spec, target))
