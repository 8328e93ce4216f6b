"""Read the health of SATA and SAS drives by ``smartctl --json`` (smartmontools 7.0 or newer).

SATA drives report by the device statistics log, whose pages and offsets the ATA command set
standard (ACS-3 and newer) defines; attributes, whose meaning differs by vendor, are not used. SAS
drives report by their error counter logs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from storlab.base.errors import EngineError
from storlab.base.units import GB
from storlab.health.reading import HealthReading, Number
from storlab.process.program import ask_program, executable

TIMEOUT_S = 20.0
_OPTIONS = ("--json=c", "-i", "-H", "-A", "-l", "devstat", "-l", "error", "-l", "ssd")
_NOT_READ = 0b11  # bits of the exit status: wrong option, or the device could not be opened
_INSTALL = "install smartmontools"
_LOG = "smartctl"

# Value by page and offset of the ATA device statistics log.
_STATISTICS = {
    (1, 0x18): "host_written_bytes",
    (1, 0x28): "host_read_bytes",
    (4, 0x08): "media_errors",
    (5, 0x08): "temperature_c",
    (5, 0x50): "hot_min",
    (5, 0x58): "temperature_limit_c",
    (6, 0x18): "interface_errors",
    (7, 0x08): "percentage_used",
}
_IN_SECTORS = ("host_written_bytes", "host_read_bytes")


def read_smartctl(device: str, program: Path | None = None) -> HealthReading:
    """Run smartctl on a device; if it does not answer, the reading is empty and has the reason.

    Args:
        device: Path of the device, such as ``/dev/sda``.
        program: Path of smartctl; None to search PATH.
    """
    program = program or executable("smartctl") or executable("smartctl", "/usr/sbin:/sbin")
    if program is None:
        return HealthReading(absent={_LOG: "smartctl is not installed (package smartmontools)"})
    try:
        done = ask_program([str(program), *_OPTIONS, device], _INSTALL, TIMEOUT_S)
        document = json.loads(done.stdout)
    except EngineError as error:
        return HealthReading(absent={_LOG: error.what})
    except (ValueError, RecursionError):
        return HealthReading(absent={_LOG: "smartctl printed no JSON (7.0 or newer is needed)"})
    if done.returncode & _NOT_READ:
        return HealthReading(absent={_LOG: _message(document)})
    return decode(document)


def decode(document: Any) -> HealthReading:
    """Decode the JSON that smartctl printed about a SATA or SAS drive."""
    reading = HealthReading()
    if not isinstance(document, Mapping):
        return HealthReading(absent={_LOG: "smartctl printed no JSON object"})
    for name, keys in {
        "temperature_c": ("temperature", "current"),
        "temperature_limit_c": ("temperature", "drive_trip"),
        "percentage_used": ("endurance_used", "current_percent"),
        "spare_percent": ("spare_available", "current_percent"),
        "spare_threshold_percent": ("spare_available", "threshold_percent"),
        "grown_defects": ("scsi_grown_defect_list",),
    }.items():
        reading.put(name, _number(_at(document, *keys)))
    used = _number(document.get("scsi_percentage_used_endurance_indicator"))
    reading.put("percentage_used", used)
    if _at(document, "smart_status", "passed") is False:
        reading.values["failing"] = 1
    _put_statistics(reading, document)
    _put_counter_log(reading, document)
    if "host_written_bytes" not in reading.values:
        reading.absent["host_written_bytes"] = "no standard log of the drive has it"
    reading.absent["media_written_bytes"] = "no standard log of SATA and SAS drives has it"
    protocol = _at(document, "device", "protocol")
    reading.sources.append(f"smartctl ({protocol})" if isinstance(protocol, str) else "smartctl")
    return reading


def _put_statistics(reading: HealthReading, document: Mapping[str, Any]) -> None:
    sector = _number(document.get("logical_block_size")) or 512
    for page in _list(_at(document, "ata_device_statistics", "pages")):
        for row in _list(_at(page, "table")):
            place = (_at(page, "number"), _at(row, "offset"))
            name = _STATISTICS.get(place) if all(isinstance(part, int) for part in place) else None
            value = _number(_at(row, "value"))
            if name is None or value is None or _at(row, "flags", "valid") is not True:
                continue
            reading.put(name, value * sector if name in _IN_SECTORS else value)


def _put_counter_log(reading: HealthReading, document: Mapping[str, Any]) -> None:
    log = document.get("scsi_error_counter_log")
    for operation, name in (("read", "host_read_bytes"), ("write", "host_written_bytes")):
        gigabytes = _number(_at(log, operation, "gigabytes_processed"))
        reading.put(name, None if gigabytes is None else round(gigabytes * GB))
    errors = [
        _number(_at(log, operation, "total_uncorrected_errors"))
        for operation in ("read", "write", "verify")
    ]
    known = [count for count in errors if count is not None]
    reading.put("media_errors", sum(known) if known else None)


def _message(document: Any) -> str:
    messages = [_at(entry, "string") for entry in _list(_at(document, "smartctl", "messages"))]
    texts = [text for text in messages if isinstance(text, str)]
    return "; ".join(texts)[:500] or "smartctl could not open the drive"


def _at(value: Any, *keys: str) -> Any:
    """Return a value inside nested tables; None if a key or a table is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> Number | None:
    """Return a number, or the number that a text such as ``12345.678`` states; else None."""
    if isinstance(value, str):
        try:
            value = float(Decimal(value))
        except (InvalidOperation, OverflowError):
            return None
    if isinstance(value, float) and math.isfinite(value):
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) else None
