"""Decode the health logs of NVMe drives: SMART / Health (02h) and OCP's extension of it (C0h).

Sources: NVMe base specification 2.1, "SMART / Health Information" log; OCP Datacenter NVMe SSD
specification 1.0 to 2.6, "SMART / Health Information Extended" log. Numbers are little endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storlab.base.errors import MeterError
from storlab.health.reading import HealthReading
from storlab.meters.nvme_admin import NvmeAdmin

SMART_LOG, OCP_LOG = 0x02, 0xC0
LOG_BYTES = 512  # of both logs
OCP_GUID = 0xAFD514C97C6F4F9CA4F2BFEA2810AFC5
_RETRAINING_SINCE = 3  # version of log C0h (OCP 2.0)
_DATA_UNIT_BYTES = 512_000
_ZERO_CELSIUS_K = 273
_SENSORS = 8


class _Field(NamedTuple):
    """Number in a log page, in multiples of ``scale``."""

    name: str
    offset: int
    size: int
    scale: int = 1

    def of(self, page: bytes) -> int:
        return int.from_bytes(page[self.offset : self.offset + self.size], "little") * self.scale


_SMART = (
    _Field("warning_bits", 0, 1),
    _Field("spare_percent", 3, 1),
    _Field("spare_threshold_percent", 4, 1),
    _Field("percentage_used", 5, 1),
    _Field("host_read_bytes", 32, 16, _DATA_UNIT_BYTES),
    _Field("host_written_bytes", 48, 16, _DATA_UNIT_BYTES),
    _Field("unsafe_shutdowns", 144, 16),
    _Field("media_errors", 160, 16),
    _Field("hot_min", 192, 4),
    _Field("critically_hot_min", 196, 4),
    _Field("light_throttles", 216, 4),
    _Field("heavy_throttles", 220, 4),
    _Field("light_throttled_s", 224, 4),
    _Field("heavy_throttled_s", 228, 4),
)
_OCP = (
    _Field("media_written_bytes", 0, 16),
    _Field("media_read_bytes", 16, 16),
    _Field("bad_user_blocks", 32, 6),
    _Field("bad_system_blocks", 40, 6),
    _Field("uncorrectable_read_errors", 56, 8),
    _Field("soft_ecc_errors", 64, 8),
    _Field("throttles", 96, 1),
    _Field("throttle_level", 97, 1),
    _Field("pcie_correctable_errors", 104, 8),
    _Field("incomplete_shutdowns", 112, 4),
    _Field("free_blocks_percent", 120, 1),
)
_OCP_2 = (_Field("link_retrainings", 192, 8), _Field("power_state_changes", 200, 8))


def read_nvme(drive: NvmeAdmin) -> HealthReading:
    """Read both logs of an open controller; a log that cannot be read is absent with its reason."""
    reading = HealthReading()
    for log, decode in ((SMART_LOG, _smart), (OCP_LOG, _ocp)):
        name = f"log {log:02X}h"
        try:
            page = drive.log(log, LOG_BYTES)
        except MeterError as error:
            reading.absent[name] = error.what
            continue
        if page.count(page[:1]) == len(page):
            reading.absent[name] = f"every byte of it is {page[0]:02X}h"
            continue
        decode(reading, page, name)
    return reading


def _smart(reading: HealthReading, page: bytes, name: str) -> None:
    reading.sources.append(name)
    _put(reading, page, _SMART)
    for number in range(_SENSORS + 1):
        offset = 1 if number == 0 else 198 + 2 * number
        kelvin = int.from_bytes(page[offset : offset + 2], "little")
        if kelvin:
            known = "temperature_c" if number == 0 else f"sensor_{number}_c"
            reading.put(known, kelvin - _ZERO_CELSIUS_K, f"{kelvin} K")


def _ocp(reading: HealthReading, page: bytes, name: str) -> None:
    guid = int.from_bytes(page[496:512], "little")
    if guid != OCP_GUID:
        reading.absent[name] = f"it is not OCP's: its GUID is {guid:032X}"
        return
    reading.sources.append(name)
    _put(reading, page, _OCP)
    version = int.from_bytes(page[494:496], "little")
    if version >= _RETRAINING_SINCE:
        _put(reading, page, _OCP_2)


def _put(reading: HealthReading, page: bytes, fields: Sequence[_Field]) -> None:
    for item in fields:
        reading.put(item.name, item.of(page))
