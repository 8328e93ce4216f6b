"""Values of one piece of fixed work (epoch, checkpoint), from the counters of the device."""

from __future__ import annotations

from storlab.base.units import MB


def device_values(counted: int | None, size: int) -> dict[str, float]:
    """Return the device's MB, and their percentage of ``size`` bytes; empty if not counted."""
    if counted is None or not size:
        return {}
    return {"device_mb": counted / MB, "device_percent": 100 * counted / size}
