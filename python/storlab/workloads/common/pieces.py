"""What families of fixed work read of the entries of a run's details, one for each piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.units import MB


def device_values(entry: Mapping[str, Any], name: str, size: int | None = None) -> dict[str, float]:
    """``device_mb``, and ``device_percent`` of ``size``, by default of the piece's bytes."""
    counted, whole = entry.get(name), entry["bytes"] if size is None else size
    if counted is None or not whole:
        return {}
    return {"device_mb": counted / MB, "device_percent": 100 * counted / whole}
