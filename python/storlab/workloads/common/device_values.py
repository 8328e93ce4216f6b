"""Bytes that the device counted during one stage of fixed work, such as an epoch."""

from __future__ import annotations

from storlab.base.units import MB


def device_values(counted: int | None, size: int) -> dict[str, float]:
    """Return ``counted`` bytes in MB and in percent of ``size`` bytes; empty if not counted."""
    if counted is None or not size:
        return {}
    return {"device_mb": counted / MB, "device_percent": 100 * counted / size}
