"""Minimal client of QIS, Quarch's instrument server, which reads power modules.

Commands and answers are text over TCP; an answer ends with ``>``. Sources: the help text of QIS
1.54 (commands, line format, header V3) and Quarch's application note AN-012 (``rec stream``,
``rec stop``). The vendor's own package is not used: it has 50 MB, requires pandas, and is licensed
for use with its products only.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from xml.etree import ElementTree

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import MeterError
from storlab.base.units import NS_PER_S

DEFAULT_PORT = 9722
_PROMPT = b"\r\n>"
_MOST_BYTES = 16 << 20
_MOST_BLOCKS = 64  # blocks of 3,072 lines per sample
_HEADER_TRIES = 40
_HEADER_PAUSE_S = 0.1
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s)", re.IGNORECASE)
_UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": NS_PER_S}
_DEVICE = re.compile(r"(?:\d+\)\s*)?((?:usb|tcp|rest)::\S+)(.*)", re.IGNORECASE)
_SI = {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_REFUSED = ("fail", "invalid", "error", "not found", "timeout", "not available", "unknown")


@dataclass(frozen=True, slots=True)
class Channel:
    """Column of a stream, such as the current of rail ``12V``; ``scale`` converts to SI units."""

    name: str
    group: str
    scale: float
    position: int


@dataclass(frozen=True, slots=True)
class Header:
    """Format of a stream: time between lines, unit of the time column, and channels."""

    period_ns: int
    time_unit_ns: int
    channels: tuple[Channel, ...]
    columns: int  # columns of a line without the status column


@dataclass(frozen=True, slots=True)
class Stripe:
    """One line of a stream: time since the stream's start, and power in W."""

    time_ns: int
    watts: float


class Qis:
    """Connection to QIS; every method raises MeterError if it breaks or QIS does not answer."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.where = f"QIS at {host}:{port}"
        self._timeout_s = timeout_s
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as failure:
            raise MeterError(
                self.where, f"no connection: {failure}", "start QIS, or correct host and port"
            ) from failure
        try:
            self._greeting()
        except MeterError:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to QIS."""
        self._socket.close()

    def _greeting(self) -> None:
        """Consume the greeting, which may lack a prompt, and verify that the server is QIS."""
        self._receive(until_prompt=False)
        version = self.ask("$version")
        if not re.search(r"\d", version):
            raise MeterError(
                self.where,
                f"the server is not QIS: it answers {version[:60]!r}",
                "correct host and port",
            )

    def ask(self, command: str, device: str = "") -> str:
        """Send a command to QIS or to a device and return the answer without the prompt."""
        line = f"{device} {command}" if device else command
        try:
            self._socket.sendall(f"{line}\r\n".encode())
        except OSError as failure:
            raise self._lost(failure) from failure
        return self._receive(until_prompt=True)

    def tell(self, command: str, device: str) -> str:
        """Send a command to a device and return the answer.

        Raises:
            MeterError: The device rejects the command.
        """
        answer = self.ask(command, device)
        if any(word in answer.lower() for word in _REFUSED):
            raise MeterError(
                f"{self.where}, {device}",
                f"rejects the command {command!r}: {answer.strip()[:200]}",
                "check whether another program (QPS) is using the module",
            )
        return answer

    def _receive(self, *, until_prompt: bool) -> str:
        latest_ns = monotonic_ns() + round(self._timeout_s * NS_PER_S)
        data = bytearray()
        while not data.endswith(_PROMPT):
            left_s = (latest_ns - monotonic_ns()) / NS_PER_S
            if data and not until_prompt:
                left_s = min(left_s, 0.2)  # a greeting may end without a prompt
            try:
                self._socket.settimeout(max(left_s, 0.001))
                piece = self._socket.recv(65_536)
            except TimeoutError as failure:
                if data and not until_prompt:
                    break
                raise MeterError(
                    self.where,
                    f"no answer within {self._timeout_s:g} s",
                    "look at QIS's window or log, or raise timeout",
                ) from failure
            except OSError as failure:
                raise self._lost(failure) from failure
            if not piece or len(data) > _MOST_BYTES:
                raise self._lost(None)
            data += piece
            if data == b">":
                break
        return data.decode("utf-8", "replace").removesuffix(">").strip("\r\n")

    def _lost(self, failure: OSError | None) -> MeterError:
        why = "QIS closed it" if failure is None else str(failure)
        return MeterError(self.where, f"the connection is lost: {why}", "check that QIS runs")

    def devices(self) -> dict[str, str]:
        """Return the connected modules: details by name, such as ``usb::QTL1847-01-016``."""
        modules = {}
        for line in self.ask("$list details").splitlines():
            match = _DEVICE.match(line.strip())
            if match is not None:
                modules[match.group(1)] = match.group(2).strip()
        return modules

    def header(self, device: str) -> Header:
        """Return the header of a device's stream; after the start, wait until it is available."""
        for _ in range(_HEADER_TRIES):
            text = self.ask("stream text header", device)
            if "not available" not in text.lower():
                return parse_header(text, f"{self.where}, {device}")
            sleep_s(_HEADER_PAUSE_S)
        raise MeterError(
            f"{self.where}, {device}",
            "its stream has no header",
            "check that the module's power output is on",
        )

    def lines(self, device: str) -> list[str]:
        """Return all lines that have arrived since the last call, oldest first."""
        lines: list[str] = []
        for _ in range(_MOST_BLOCKS):
            answer = self.ask("stream text all", device).splitlines()
            new = [line for line in answer if line[:1].isdigit()]
            lines += new
            if not new or answer[-1].strip().lower() == "eof":
                break
        return lines

    def running(self, device: str) -> str | None:
        """Return why a device's stream has ended, such as ``Stopped: User``; None if it runs."""
        status = self.ask("stream?", device).splitlines()
        first = status[0].strip() if status else ""
        return None if first.lower().startswith("running") else first or "no status"


def parse_header(text: str, where: str) -> Header:
    """Parse the header of a stream in QIS's XML format V3.

    Raises:
        MeterError: The header has another format, or channels have different sample rates.
    """
    start = text.find("<?xml")
    try:
        root = ElementTree.fromstring(text[max(start, 0) :])  # noqa: S314 - from the user's own QIS
    except ElementTree.ParseError as failure:
        raise MeterError(
            where, f"its stream header is not of version V3: {text[:60]!r}", "update QIS"
        ) from failure
    channels: list[Channel] = []
    named = 0
    for channel in root.iter("channel"):
        get = {child.tag: (child.text or "").strip() for child in channel}
        group, units = get.get("group", "").lower(), get.get("units", "")
        if not get.get("name"):
            continue
        named += 1
        if group in ("voltage", "current", "power"):
            scale, position = _SI.get(units[:-1].lower()), get.get("dataPosition", "")
            if scale is None or not position.isdigit():
                raise MeterError(
                    where,
                    f"its stream header has an unknown channel {get}",
                    "report this header as a defect of storlab",
                )
            channels.append(Channel(get["name"], group, scale, int(position)))
    if len({element.text for element in root.iter("groupId")}) > 1:
        raise MeterError(
            where,
            "its groups of channels have different sample rates, which is not supported",
            "export the trace with QPS, and use a csv meter",
        )
    device_period = root.findtext(".//devicePeriod") or root.findtext(".//devicePerioduS") or ""
    period_text = root.findtext(".//mainPeriod") or device_period
    period_ns = _period_ns(period_text, where)
    in_ns = not device_period and "ns" in period_text.lower()
    positions = {channel.position for channel in channels}
    columns = max(named, max(positions, default=0) + 1)
    return Header(period_ns, 1 if in_ns else 1_000, tuple(channels), columns)


def _period_ns(text: str, where: str) -> int:
    match = _PERIOD.fullmatch(text.strip())
    if match is None:
        raise MeterError(
            where,
            f"its stream header has an unknown period {text!r}",
            "report this header as a defect of storlab",
        )
    return round(float(match.group(1)) * _UNIT_NS[match.group(2).lower()])


def power_channels(header: Header, wanted: Sequence[str], where: str) -> list[list[Channel]]:
    """Return the channels from which to compute the power of some rails.

    Args:
        header: Header of the stream.
        wanted: Names of the rails; if empty, the module's total, or else all rails.
        where: Name of the module in errors.

    Returns:
        For each rail one power channel, or the voltage and the current channel. Channels of a rail
        are multiplied, and rails are added up.

    Raises:
        MeterError: A rail is missing, or has neither power nor both voltage and current.
    """
    by_rail: dict[str, dict[str, Channel]] = {}
    for channel in header.channels:
        by_rail.setdefault(channel.name, {})[channel.group] = channel
    total = by_rail.pop("Tot", {})
    if not wanted and "power" in total:
        return [[total["power"]]]
    unknown = [name for name in wanted if name not in by_rail]
    if unknown or not by_rail:
        raise MeterError(
            where,
            f"its stream does not contain {', '.join(unknown) or 'any rail'}",
            f"use some of its rails in channels: {', '.join(sorted(by_rail)) or 'none'}",
        )
    channels = []
    for name in wanted or by_rail:
        rail = by_rail[name]
        if "power" in rail:
            channels.append([rail["power"]])
        elif {"voltage", "current"} <= rail.keys():
            channels.append([rail["voltage"], rail["current"]])
        else:
            raise MeterError(
                where,
                f"rail {name} has only {', '.join(sorted(rail))}",
                "choose other rails in channels, or enable voltage and current of this one",
            )
    return channels


def parse_stripe(line: str, header: Header, rails: Sequence[Sequence[Channel]]) -> Stripe:
    """Parse a line of a stream, and compute the power from the channels of ``power_channels``.

    Raises:
        ValueError: The number of columns is unexpected.
    """
    values = line.split()
    # In some versions of QIS, a line has a status column in addition to those of the header.
    extra = len(values) - header.columns
    if extra not in (0, 1):
        raise ValueError(f"it has {len(values)} columns instead of {header.columns}")
    watts = 0.0
    for rail in rails:
        product = 1.0
        for channel in rail:
            product *= float(values[channel.position + extra]) * channel.scale
        watts += product
    return Stripe(int(values[0]) * header.time_unit_ns, watts)
