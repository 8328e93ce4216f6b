"""What families of fixed work make of what the device counted, one for each piece."""

from __future__ import annotations

from storlab.base.units import MB


def device_values(counted: int | None, size: int) -> dict[str, float]:
    """``device_mb``, and ``device_percent`` of the piece's bytes; none where nobody counted."""
    if counted is None or not size:
        return {}
    return {"device_mb": counted / MB, "device_percent": 100 * counted / size}
