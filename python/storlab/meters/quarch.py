"""Meter ``quarch``: power of a drive, measured at its connector by a Quarch power module.

The module is read through Quarch's instrument server QIS, which averages its stream over
``period``. The meter never switches power outputs. docs/meters/quarch.md also lists what has not
been tested with a real module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from pydantic import Field

from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer
from storlab.meters.options import MeterOptions, read_options
from storlab.meters.qis import DEFAULT_PORT, Channel, Qis, parse_stripe, power_channels
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target
from storlab.model.types import Duration

BOUNDARY: Boundary = "device"  # unless the study states another
_LOOK_S = 0.5  # time limit of each step of discovery
_PERIOD = re.compile(r"off|\d+(?:ns|us|ms|s)", re.IGNORECASE)


class QuarchOptions(MeterOptions):
    """Fields of a meter with ``kind = "quarch"``.

    ``device`` is the module's name in QIS. ``channels`` are the rails to add up; by default, the
    module's total is used.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=1, le=65_535)
    device: str | None = None
    channels: list[str] = Field(default_factory=list)
    period: Duration = Field(default="100ms", ge=1_000)  # type: ignore[assignment]
    timeout: Duration = Field(default="5s", gt=0)  # type: ignore[assignment]


class QuarchMeter:
    """Meter that reads a module's stream; ``sample`` fetches the data since its last call."""

    def __init__(self, options: QuarchOptions, qis: Qis) -> None:
        self.rate_hz = options.rate_hz
        self._options = options
        self._qis = qis
        self.device, self._details = _choose(qis, options.device)
        self._where = f"{qis.where}, {self.device}"
        self._before = qis.ask("stream mode resample?", self.device).strip()
        if qis.running(self.device) is None:
            raise MeterError(
                self._where,
                "the module is already streaming, for another program",
                "stop the other program (QPS), or send `rec stop` to the module",
            )
        watch = MidpointTimer()
        try:
            self._set_up()
            _, self._start_ns = watch.read(lambda: qis.tell("rec stream", self.device))
            self._header = qis.header(self.device)
            self._rails = power_channels(self._header, options.channels, self._where)
        except MeterError:
            with suppress(MeterError):  # the error that was raised first matters more
                self._restore()
            raise
        self._uncertainty_ns = watch.uncertainty_ns
        self._latest_ns = -1

    def _set_up(self) -> None:
        qis, device = self._qis, self.device
        qis.tell("stream mode header v3", device)
        # Modules that do not compute power reject these commands. Then power is computed from
        # voltage and current.
        for command in ("stream mode power enable", "stream mode power total enable"):
            qis.ask(command, device)
        qis.tell(f"stream mode resample {max(1, self._options.period // 1_000)}us", device)
        qis.ask("rec trig mode manual", device)

    def describe(self) -> list[SensorInfo]:
        """Return one sensor; its description names the module, its rails and the period."""
        period = self._header.period_ns
        rails = " + ".join(rail[0].name for rail in self._rails)
        info = self._options.info(
            sensor=f"quarch:{self.device}",
            description=f"{self._details or 'Quarch module'}: {rails}, mean over "
            f"{period / 1e6:g} ms, stamped by the module's clock from the stream's start",
            sampling="interval_mean",
            supply="dc",
            sensor_interval_ns=period,
            quantum=_quantum(self._rails),
            # One period is added, because QIS does not specify whether a line's time is the start
            # or the end of the averaged time.
            clock_uncertainty_ns=self._uncertainty_ns + period,
        )
        return [info]

    def sample(self) -> list[Reading]:
        """Return one reading for each line of the stream since the last call.

        Raises:
            MeterError: The stream has stopped, or a line is malformed.
        """
        lines = self._qis.lines(self.device)
        now_ns = monotonic_ns()
        if not lines:
            stopped = self._qis.running(self.device)
            if stopped is not None:
                raise MeterError(
                    self._where,
                    f"the stream has stopped: {stopped}",
                    "after an overrun, raise period; otherwise check the module's cable and power",
                )
            return []
        try:
            stripes = [parse_stripe(line, self._header, self._rails) for line in lines]
        except ValueError as failure:
            raise MeterError(
                self._where, f"a line of the stream is malformed: {failure}", "see QIS's log"
            ) from failure
        period = self._header.period_ns
        # The period that a line covers cannot end after the line was fetched. If it seems to, the
        # stream started earlier than assumed, so its start is corrected.
        late_ns = self._start_ns + stripes[-1].time_ns + period - now_ns
        if late_ns > 0:
            self._start_ns -= late_ns
            stripes = [s for s in stripes if self._start_ns + s.time_ns + period > self._latest_ns]
        readings = [
            Reading(
                f"quarch:{self.device}",
                self._start_ns + stripe.time_ns + period,
                stripe.watts,
                str(stripe.time_ns),
            )
            for stripe in stripes
        ]
        self._latest_ns = readings[-1].time_ns if readings else self._latest_ns
        return readings

    def after_run(self, outcome: RunOutcome) -> list[Reading]:  # noqa: ARG002
        """Return no readings: all are taken during the run."""
        return []

    def _restore(self) -> None:
        with suppress(MeterError):  # the stream may not be running
            self._qis.ask("rec stop", self.device)
        if _PERIOD.fullmatch(self._before):
            self._qis.ask(f"stream mode resample {self._before}", self.device)

    def close(self) -> None:
        """Stop the stream, restore its resampling setting, and close the connection."""
        try:
            self._restore()
        except MeterError:  # QIS has ended, and with it the stream
            return
        finally:
            self._qis.close()


def _quantum(rails: Sequence[Sequence[Channel]]) -> float | None:
    """Return the smallest step in W, or None if power is a product of voltage and current."""
    powers = [rail[0].scale for rail in rails if len(rail) == 1]
    return max(powers) if len(powers) == len(rails) else None


def _choose(qis: Qis, wanted: str | None) -> tuple[str, str]:
    """Return name and details of the requested module; None requests the only one.

    Raises:
        MeterError: There is no such module, or ``wanted`` is None and there are several.
    """
    devices = qis.devices()
    listed = ", ".join(devices) or "none"
    if wanted is None:
        if len(devices) != 1:
            what = "no module is connected" if not devices else (
                f"{len(devices)} modules are connected")  # fmt: skip
            fix = "connect one, or search the network: $scan tcp::address" if not devices else (
                f"set device to one of them: {listed}")  # fmt: skip
            raise MeterError(qis.where, what, fix)
        return next(iter(devices.items()))
    for name, details in devices.items():
        if name.lower() == wanted.lower():
            return name, details
    raise MeterError(
        qis.where, f"module {wanted} is not connected", f"use one of the connected: {listed}"
    )


def open_meter(spec: MeterSpec, target: Target) -> QuarchMeter:
    """Connect to QIS and start the module's stream.

    Raises:
        StudyError: A field is wrong.
        MeterError: QIS or the module is missing or rejects a command.
    """
    options = read_options(QuarchOptions, spec, target)
    qis = Qis(options.host, options.port, options.timeout / NS_PER_S)
    try:
        return QuarchMeter(options, qis)
    except MeterError:
        qis.close()
        raise


def discover(host: str = "127.0.0.1", port: int = DEFAULT_PORT) -> list[Discovered]:
    """Return the power modules that are connected to the QIS server at this address."""
    try:
        with Qis(host, port, _LOOK_S) as qis:
            devices = qis.devices()
    except MeterError as failure:
        return [_missing(f"{failure.what}: {failure.fix}")]
    if not devices:
        what = "QIS runs, but no module is connected"
        return [_missing(f"{what}: connect one, or search the network: $scan tcp::address")]
    return [
        Discovered(
            kind="quarch",
            sensor=name,
            available=True,
            rate="10 Hz by default (period), up to what QIS resamples to",
            accuracy="not stated by QIS: give accuracy_percent from the module's data sheet",
            privilege="network",
            how=f'meters = [{{ kind = "quarch", device = "{name}" }}] ({details})',
        )
        for name, details in devices.items()
    ]


def _missing(how: str) -> Discovered:
    return Discovered("quarch", "quarch", False, "none", "none", "network", how)
