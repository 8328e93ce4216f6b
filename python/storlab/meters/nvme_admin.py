"""Send NVMe admin commands about power: list and set power states, read measured power.

Sources: NVMe base specification 2.1 (Identify Controller, Power State Descriptor, Power Management
feature, SMART / Health Information log); for fields added in 2.3 (interval power measurement, power
measurement log), libnvme's headers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from storlab.base.errors import MeterError
from storlab.meters.nvme_transport import IoctlTransport, NvmeStatusError, Transport, controller_of

__all__ = ["NvmeAdmin", "PowerError", "PowerState", "SmartPower", "Transport", "controller_of"]

_GET_LOG_PAGE, _IDENTIFY, _SET_FEATURES, _GET_FEATURES = 0x02, 0x06, 0x09, 0x0A
_IDENTIFY_CONTROLLER = 0x01
_IDENTIFY_BYTES = 4096
_SMART_LOG, _SMART_BYTES = 0x02, 512
_POWER_LOG, _POWER_LOG_BYTES = 0x25, 64
_POWER_MANAGEMENT, _AUTONOMOUS_TRANSITION = 0x02, 0x0C
_ALL_NAMESPACES = 0xFFFF_FFFF
_STATE_MASK, _HINT_MASK = 0x1F, 0xE0

_DESCRIPTORS_AT, _DESCRIPTOR_BYTES = 2048, 32
# Fields of a power state descriptor: MP, reserved, MXPS and NOPS, ENLAT, EXLAT, relative ranks,
# IDLP, IPS, reserved, ACTP, APW and APS.
_DESCRIPTOR = struct.Struct("<HBBII4sHBBHB")
_SMALL_SCALE_W, _LARGE_SCALE_W = 1e-4, 1e-2
_SCALES_W = {1: _SMALL_SCALE_W, 2: _LARGE_SCALE_W}  # 0: not reported, 3: reserved


@dataclass(frozen=True, slots=True)
class PowerState:
    """Power state of a drive; values that the controller does not report are None."""

    index: int
    max_power_w: float | None
    entry_latency_us: int | None
    exit_latency_us: int | None
    non_operational: bool  # I/O commands are not processed in this state
    idle_power_w: float | None
    active_power_w: float | None


@dataclass(frozen=True, slots=True)
class SmartPower:
    """Mean power of a drive over the last second, as measured by the drive."""

    watts: float
    quantum_w: float  # smallest step: the scale of the field


@dataclass(frozen=True, slots=True)
class PowerError:
    """Accuracy of the controller's power measurement (log page 25h)."""

    percent: int | None  # largest error, or None if not reported
    estimated: bool  # computed by the controller rather than measured


class NvmeAdmin:
    """Open NVMe controller; every method raises MeterError if a command fails."""

    def __init__(self, device: str, transport: Transport) -> None:
        self.device = device
        self._transport = transport
        self._page: bytes | None = None

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the controller of a device path.

        Args:
            path: Controller, namespace or partition, or a link to one such as in /dev/disk/by-id.

        Raises:
            MeterError: The device does not exist, is not NVMe, or may not be opened.
        """
        controller = controller_of(path)
        return cls(str(controller), IoctlTransport(controller))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the controller's device."""
        self._transport.close()

    @property
    def model(self) -> str:
        """Model number of the drive."""
        return self._identify()[24:64].decode("ascii", "replace").strip(" \0")

    @property
    def firmware(self) -> str:
        """Firmware revision of the drive."""
        return self._identify()[64:72].decode("ascii", "replace").strip(" \0")

    def power_states(self) -> list[PowerState]:
        """Return the power states that the drive supports, in the order of their index."""
        page = self._identify()
        return [_power_state(page, index) for index in range((page[263] & 0x1F) + 1)]

    def current(self) -> int:
        """Return the index of the current power state."""
        return self._management() & _STATE_MASK

    def set(self, index: int) -> None:
        """Enter a power state, and verify it by reading it back; the drive does not save it.

        Raises:
            MeterError: The drive lacks the state, rejects it, or accepts it without effect.
        """
        states = self.power_states()
        if not 0 <= index < len(states):
            raise MeterError(
                f"{self.device} power_state",
                f"the drive has no power state {index}",
                f"use one of 0 to {len(states) - 1}: {_list_states(states)}",
            )
        before = self._management()
        wanted = before & _HINT_MASK | index
        self._transport.admin(_SET_FEATURES, cdw10=_POWER_MANAGEMENT, cdw11=wanted)
        entered = self.current()
        if entered != index:
            raise MeterError(
                f"{self.device} power_state",
                f"the drive accepted power state {index}, but is in state {entered}"
                + (", as before" if entered == before & _STATE_MASK else ""),
                "remove power_state, which has no effect on this drive"
                + ("; its autonomous transitions are on" if self.autonomous() else ""),
            )

    def autonomous(self) -> bool:
        """Return whether the drive changes its power state by itself when idle (APST)."""
        if not self._identify()[265] & 1:
            return False
        # The command also returns the 256-byte transition table, for which it needs a buffer.
        _, result = self._transport.admin(_GET_FEATURES, cdw10=_AUTONOMOUS_TRANSITION, data_len=256)
        return bool(result & 1)

    def smart_power(self) -> SmartPower | None:
        """Return the mean power of the last second, or None if the drive does not report it."""
        page = self.log(_SMART_LOG, _SMART_BYTES)
        return _scaled(int.from_bytes(page[240:244], "little"))

    def power_error(self) -> PowerError | None:
        """Return the accuracy of the power measurement; None if not reported (before NVMe 2.3)."""
        attributes = int.from_bytes(self._identify()[96:100], "little")
        if not attributes >> 21 & 1:
            return None
        try:
            page = self.log(_POWER_LOG, _POWER_LOG_BYTES)
        except NvmeStatusError as refused:
            if refused.unsupported:
                return None
            raise
        percent = page[56]
        estimated = bool(int.from_bytes(page[2:4], "little") >> 2 & 1)
        return PowerError(percent=percent if percent <= 100 else None, estimated=estimated)

    def log(self, page: int, size: int) -> bytes:
        """Read a log page of the controller.

        Args:
            page: Log identifier, such as 02h for SMART / Health Information.
            size: Size of the log in bytes.

        Raises:
            NvmeStatusError: The controller has no such log.
            MeterError: The command failed, or returned fewer bytes.
        """
        dwords = size // 4 - 1
        data, _ = self._transport.admin(
            _GET_LOG_PAGE, nsid=_ALL_NAMESPACES, cdw10=page | dwords << 16, data_len=size
        )
        return self._whole(data, size, f"log page {page:02x}h")

    def _identify(self) -> bytes:
        if self._page is None:
            data, _ = self._transport.admin(
                _IDENTIFY, cdw10=_IDENTIFY_CONTROLLER, data_len=_IDENTIFY_BYTES
            )
            self._page = self._whole(data, _IDENTIFY_BYTES, "identify page")
        return self._page

    def _management(self) -> int:
        _, result = self._transport.admin(_GET_FEATURES, cdw10=_POWER_MANAGEMENT)
        return result

    def _whole(self, data: bytes, size: int, name: str) -> bytes:
        if len(data) != size:
            what = f"returned only {len(data)} of {size} bytes of the {name}"
            raise MeterError(self.device, what, "see `dmesg`")
        return data


def _power_state(page: bytes, index: int) -> PowerState:
    """Decode the descriptor of one power state from an Identify Controller page."""
    at = _DESCRIPTORS_AT + index * _DESCRIPTOR_BYTES
    most, _, flags, entry, leave, _, idle, idle_scale, _, active, active_scale = (
        _DESCRIPTOR.unpack_from(page, at)
    )
    most_w = most * (_SMALL_SCALE_W if flags & 1 else _LARGE_SCALE_W)
    return PowerState(
        index=index,
        max_power_w=round(most_w, 4) if most else None,
        entry_latency_us=entry or None,
        exit_latency_us=leave or None,
        non_operational=bool(flags & 2),
        idle_power_w=_watts(idle, idle_scale >> 6),
        active_power_w=_watts(active, active_scale >> 6),
    )


def _watts(value: int, scale: int) -> float | None:
    if not value or scale not in _SCALES_W:
        return None
    return round(value * _SCALES_W[scale], 4)


def _scaled(field: int) -> SmartPower | None:
    """Decode a power field of NVMe 2.3 (bits 15:0 value, bits 17:16 scale); None if unreported."""
    scale = field >> 16 & 0x3
    watts = _watts(field & 0xFFFF, scale)
    return None if watts is None else SmartPower(watts, _SCALES_W[scale])


def _list_states(states: list[PowerState]) -> str:
    return ", ".join(
        f"{s.index} ({'?' if s.max_power_w is None else f'{s.max_power_w:g}'} W"
        + (", no I/O)" if s.non_operational else ")")
        for s in states
    )
