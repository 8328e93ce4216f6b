"""Meter ``ipmi``: power that a server's management controller (BMC) reports through ipmitool.

It reads DCMI "Get Power Reading" (DCMI 1.5, 6.6.1), or named power sensors of the BMC's sensor data
repository (SDR) if the study lists them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from storlab.base.errors import FieldProblems, MeterError, Problem
from storlab.base.secrets import secret
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer
from storlab.meters.ipmitool import Connection, Shell, program
from storlab.meters.options import MeterOptions, read_options
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target
from storlab.model.types import Duration

BOUNDARY: Boundary = "host"  # unless the study states another
DCMI = "dcmi power reading"
_WATTS = re.compile(r"Instantaneous power reading:\s+(\d+)\s+Watts")
_STAMP = re.compile(r"IPMI timestamp:\s+(.*?)(?:\s{4}Sampling period|$)", re.MULTILINE)
_STATE = re.compile(r"Power reading state is:\s+(\w+)")
_SDR_NAME = re.compile(r"Sensor ID\s+:\s+(.*?) \(0x[0-9a-f]+\)")
_SDR_WATTS = re.compile(
    r"^\s*Sensor Reading\s+:\s+([-\d.]+)(?:\s+\(\+/- ([\d.]+)\))?\s+Watts", re.M
)


class IpmiOptions(MeterOptions):
    """Fields of a meter with ``kind = "ipmi"``; without ``host``, this machine's BMC is read."""

    boundary: Boundary = BOUNDARY
    host: str | None = Field(default=None, min_length=1, description="the BMC's address")
    port: int = Field(default=623, ge=1, le=65_535)
    interface: Literal["lanplus", "lan"] = "lanplus"
    user: str | None = Field(default=None, min_length=1)
    password_env: str | None = Field(default=None, min_length=1)
    privilege: Literal["user", "operator", "administrator"] = "user"
    cipher_suite: int | None = Field(default=None, ge=0, le=255)
    device: int = Field(default=0, ge=0, description="N of /dev/ipmiN")
    sensors: list[Annotated[str, Field(min_length=1, pattern=r'^[^"\n]+$')]] | None = Field(
        default=None, min_length=1, description="SDR power sensors, added up; instead of DCMI"
    )
    timeout: Duration = Field(default="4s", gt=0)  # type: ignore[assignment]

    @model_validator(mode="after")
    def _access(self) -> IpmiOptions:
        problems = []
        if self.host is not None and self.password_env is None:
            what = "password_env is missing, which a BMC over the network needs"
            problems.append(Problem((), what, 'add password_env = "BMC_PASSWORD"'))
        if self.host is None:
            problems += [
                Problem(
                    (name,),
                    f"{name} is only valid for a BMC over the network, with host",
                    f"add host, or remove {name}",
                )
                for name in ("user", "password_env", "cipher_suite")
                if getattr(self, name) is not None
            ]
        if len(set(self.sensors or [])) < len(self.sensors or []):
            problems.append(
                Problem(("sensors",), "a sensor is listed twice", "list each sensor once")
            )
        if problems:
            raise FieldProblems(problems)
        return self


class IpmiMeter:
    """Meter that reads the power of one BMC; a failed reading is retried once in a new session."""

    def __init__(self, options: IpmiOptions) -> None:
        self._options = options
        remote = options.host is not None
        self._connection = Connection(
            host=options.host,
            port=options.port,
            interface=options.interface,
            user=options.user,
            password=secret(options.password_env) if options.password_env and remote else None,
            privilege=options.privilege,
            cipher_suite=options.cipher_suite,
            device=options.device,
            timeout_s=options.timeout / NS_PER_S,
        )
        place = options.host or f"ipmi{options.device}"
        self._sensor = f"ipmi:{place}"
        self._clock = MidpointTimer()
        self._tolerances_w: dict[str, float] = {}
        self._shell: Shell | None = self._open()
        try:
            self._read(self._shell)
        except MeterError:
            self.close()
            raise

    def describe(self) -> list[SensorInfo]:
        """Return one sensor; its accuracy is the SDR's tolerance, because DCMI states none."""
        names = self._options.sensors
        source = (
            f"sum of {', '.join(names)}" if names and len(names) > 1 else (names or ["DCMI"])[0]
        )
        return [
            self._options.info(
                sensor=self._sensor,
                description=f"{self._connection.where}, {source} (ipmitool)",
                sampling="instantaneous",
                quantum=None if names else 1.0,
                offset_accuracy_w=sum(self._tolerances_w.values()) or None,
                clock_uncertainty_ns=self._clock.uncertainty_ns,
            )
        ]

    def sample(self) -> list[Reading]:
        """Return one reading in W.

        Raises:
            MeterError: The reading failed, also in a new session.
        """
        if self._shell is not None:
            try:
                return [self._read(self._shell)]
            except MeterError:
                self._shell.close()
                self._shell = None
        self._shell = self._open()
        return [self._read(self._shell)]

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return no readings: all are taken during the run."""
        del outcome
        return []

    def close(self) -> None:
        """Log out of the BMC."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    def _open(self) -> Shell:
        """Open a session and read the power once, which is slow if ipmitool fetches the SDR."""
        shell = Shell(self._connection)
        try:
            self._read_watts(shell)
        except MeterError:
            shell.close()
            raise
        return shell

    def _read(self, shell: Shell) -> Reading:
        (watts, stamp), time_ns = self._clock.read(lambda: self._read_watts(shell))
        return Reading(self._sensor, time_ns, watts, stamp)

    def _read_watts(self, shell: Shell) -> tuple[float, str | None]:
        if self._options.sensors is None:
            return self._read_dcmi(shell)
        return sum(self._read_sdr(shell, name) for name in self._options.sensors), None

    def _read_dcmi(self, shell: Shell) -> tuple[float, str | None]:
        answer = shell.command(DCMI)
        watts, state, stamp = (p.search(answer) for p in (_WATTS, _STATE, _STAMP))
        where = self._connection.where
        if watts is None:
            what = f"returns no DCMI power reading: {_reason(answer)}"
            raise MeterError(where, what, _instead(shell))
        if state is not None and state.group(1) != "activated":
            raise MeterError(
                where,
                "power measurement by DCMI is turned off",
                "turn it on: ipmitool dcmi power activate",
            )
        if float(watts.group(1)) == 0:  # a running BMC draws power
            raise MeterError(
                where,
                "reports 0 W, probably because its power supplies do not measure power",
                'use other sensors of the BMC: sensors = ["..."], or a meter at the wall socket',
            )
        printed = stamp.group(1).strip() if stamp else ""
        return float(watts.group(1)), printed or None

    def _read_sdr(self, shell: Shell, name: str) -> float:
        answer = shell.command(f'sdr get "{name}"')
        watts = _SDR_WATTS.search(answer)
        if watts is None:
            gone = "Sensor Reading" in answer
            what = "has no reading in W" if gone else f"was not found: {_reason(answer)}"
            raise MeterError(self._connection.where, f'sensor "{name}" {what}', _instead(shell))
        if watts.group(2) is not None:
            self._tolerances_w[name] = float(watts.group(2))
        return float(watts.group(1))


def _reason(answer: str) -> str:
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    return lines[-1] if lines else "no answer"


def _instead(shell: Shell) -> str:
    """Return the fix of an error message: a list of the BMC's sensors that read power in W."""
    try:
        blocks = re.split(r"^(?=Sensor ID\s+:)", shell.command("sdr list full"), flags=re.M)
    except MeterError:
        return ""
    named = [_SDR_NAME.match(block) for block in blocks if _SDR_WATTS.search(block)]
    names = [match.group(1) for match in named if match]
    if not names:
        return "measure at the wall or the PDU outlet, because this BMC has no power sensor"
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"choose from sensors = [{quoted}]; of each supply, either the input or the output"


def discover(device_root: Path = Path("/dev")) -> list[Discovered]:
    """Return an entry for this machine's BMC; remote ones are not searched for."""
    lacking = []
    if program() is None:
        lacking.append("install the package ipmitool")
    if not any(device_root.glob("ipmi[0-9]*")):
        lacking.append("this machine's own BMC needs /dev/ipmi0: modprobe ipmi_si ipmi_devintf")
    how = 'meters = [{ kind = "ipmi" }]'
    remote = 'others: { kind = "ipmi", host = "...", user = "...", password_env = "..." }'
    return [
        Discovered(
            kind="ipmi",
            sensor="DCMI power, or SDR sensors in W",
            available=not lacking,
            rate="1 Hz; many BMCs refresh every 1 s to 5 s",
            accuracy="not stated by IPMI; 1 W steps",
            privilege="root for /dev/ipmi0; a BMC user over the network",
            how="; ".join([*(lacking or [how]), remote]),
        )
    ]


def open_meter(spec: MeterSpec, target: Target) -> IpmiMeter:
    """Open a session with the BMC that a study names, and read its power once.

    Raises:
        StudyError: A field is wrong.
        PreflightError: The password is neither in the environment nor in the keyring.
        MeterError: The BMC cannot be reached or read.
    """
    return IpmiMeter(read_options(IpmiOptions, spec, target))
