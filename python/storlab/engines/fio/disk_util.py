"""Parser of fio's ``disk_util`` section.

Its device counters prove whether the I/O of a run reached the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storlab.base.units import NS_PER_S, format_duration
from storlab.engines.fio import importer_options as fio_options
from storlab.stores.medium import is_memory_device

EVIDENCE = ("device", "process", "medium")
"""Keys of a run's details that hold evidence of which medium served the I/O."""
_SECTOR_BYTES = 512  # unit of /sys/block/*/stat, whatever the device's sector size
_DIRECTIONS = ("read", "write")
# Shorter runs are not compared: fio may miss the I/O of the last 250 ms. Version 3.33 missed 11 %
# of a run of 1 s, and 3.5 % of a run of 3 s.
_SHORTEST_NS = 5 * NS_PER_S
_UNSAMPLED = "the imported file does not record whether the blocks read had been written before"


def medium_details(
    document: Mapping[str, Any], options: Mapping[str, str], window_ns: int, *, alone: bool
) -> dict[str, Any]:
    """Build the details ``device`` and ``medium`` of an imported run from fio's device counters.

    Args:
        document: fio's JSON output.
        options: Options of the run's job.
        window_ns: Length of the run.
        alone: Whether the document has only one run.

    Returns:
        An empty dict if fio counted no device. If the counters cannot be compared with the bytes
        of this run, ``device`` is missing and ``medium`` has the reason.
    """
    listed = document.get("disk_util")
    devices = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if not devices:
        return {}
    names = [str(device.get("name")) for device in devices]
    memory = [f"{name} is memory" for name in names if is_memory_device(name)]
    why = _why_not_compared(devices, names, options, window_ns, alone=alone)
    if why is not None:
        return {"medium": {"memory": memory, "unknown": [why]}}
    read, written = (
        sum(device[f"{direction}_sectors"] for device in devices) * _SECTOR_BYTES
        for direction in _DIRECTIONS
    )
    device = {
        "devices": names,
        "read_bytes": read,
        "written_bytes": written,
        "over_ns": window_ns,
        "inside_read_bytes": read,
        "inside_written_bytes": written,
        "inside_ns": window_ns,
    }
    return {"device": device, "medium": {"memory": memory, "unsampled": [_UNSAMPLED]}}


def _why_not_compared(
    devices: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    options: Mapping[str, str],
    window_ns: int,
    *,
    alone: bool,
) -> str | None:
    """Return why the device counters cannot be compared with the bytes of the run, or None."""
    if not alone:
        return "fio counts the I/O of devices for all jobs of a file together"
    if fio_options.time_ns(options.get("ramp_time", "")):
        return "fio counts the I/O of devices in the ramp, too"
    if window_ns < _SHORTEST_NS:
        return (
            f"a run of {format_duration(window_ns)} is too short: fio reads device counters every "
            "250 ms, but not at the end of the run"
        )
    counts = [device.get(f"{d}_sectors") for device in devices for d in _DIRECTIONS]
    if not all(type(count) is int for count in counts):
        return "fio before version 3.37 does not count the bytes of devices"
    if not any(counts):
        return f"{', '.join(names)} does not count its I/O"
    for device, name in zip(devices, names, strict=True):
        if name.startswith("loop"):
            return f"{name} is a loop device over a file, which the page cache may hold"
        if any(key.startswith("aggr_") for key in device):
            return f"fio counts the I/O of {name} again for each device below it"
    return None
