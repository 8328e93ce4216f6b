"""Values that a drive reports at one time, decoded from logs whose content is not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Number = int | float

_PERCENT = (0, 100)
PLAUSIBLE: Mapping[str, tuple[Number, Number]] = {
    "temperature_c": (-60, 200),
    "temperature_limit_c": (1, 200),
    "spare_percent": _PERCENT,
    "spare_threshold_percent": _PERCENT,
    "free_blocks_percent": _PERCENT,
    "percentage_used": (0, 255),
}
"""Smallest and largest plausible value, by name; a drive that reports others is not believed."""
_LARGEST = 1e45  # a drive's counter of 128 bits has at most 1.8e44 bytes
COUNTERS = frozenset(
    {
        "host_read_bytes",
        "host_written_bytes",
        "media_read_bytes",
        "media_written_bytes",
        "media_errors",
        "uncorrectable_read_errors",
        "soft_ecc_errors",
        "bad_user_blocks",
        "bad_system_blocks",
        "grown_defects",
        "hot_min",
        "critically_hot_min",
        "light_throttles",
        "heavy_throttles",
        "light_throttled_s",
        "heavy_throttled_s",
        "throttles",
        "pcie_correctable_errors",
        "link_corrected_errors",
        "link_retrainings",
        "interface_errors",
        "power_state_changes",
        "unsafe_shutdowns",
        "incomplete_shutdowns",
    }
)
"""Names of values that only grow, such as bytes written; all others may rise and fall."""


@dataclass(slots=True)
class HealthReading:
    """Values of a drive by name with the unit last, and reasons for those that are absent."""

    values: dict[str, Number] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # reason by value or log
    sources: list[str] = field(default_factory=list)  # logs that were read

    def put(self, name: str, value: Number | None, as_written: str = "") -> None:
        """Add a value; if it is not plausible, add the reason why it is absent.

        Args:
            name: Name of the value.
            value: The value; None adds nothing.
            as_written: The value as the drive wrote it, for the reason.
        """
        if value is None:
            return
        low, high = PLAUSIBLE.get(name, (0, _LARGEST))
        if low <= value <= high:
            self.values[name] = value
        else:
            self.absent[name] = f"the drive reports {as_written or str(value)[:40]}"
