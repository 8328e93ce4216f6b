"""What of a study bears on its numbers: settings. Where its files lie does not, nor what it says.

Sizes and durations are text here, as a study has them: they are read by people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.units import exact_duration, format_size
from storlab.model.cluster import Cluster
from storlab.model.study import Header
from storlab.model.target import MeterSpec, Target

_DURATIONS = ("ramp", "runtime", "settle", "interval")
_PLAIN = ("layout", "direct", "power_state", "power_boundary", "drives")
_SIZES = ("size", "offset", "stripe_chunk", "capacity")
_REACHED_BY = frozenset(
    {"path", "ca", "user", "username", "timeout", "retries", "clock_offset", "clock_uncertainty"}
)
"""Of a meter: how its readings come here, as names of files and of environment variables say."""
_EMPTY: tuple[Any, ...] = (None, [], {}, "")


def study_settings(header: Header) -> dict[str, Any]:
    """Of ``[study]``; the engine is part of each point."""
    lengths = {name: exact_duration(getattr(header, name)) for name in _DURATIONS}
    return {**lengths, "seed": header.seed}


def target_settings(target: Target) -> dict[str, Any]:
    """Of a target: how much of it is used, and how; what its numbers are divided by; its meters."""
    sizes = {name: getattr(target, name) for name in _SIZES}
    steady = target.precondition
    return without_empty(
        {
            **{name: size and format_size(size) for name, size in sizes.items()},
            **{name: getattr(target, name) for name in _PLAIN},
            "places": len(target.locations),
            "precondition": None if steady is None else {
                **steady.dump(),
                "block_size": format_size(steady.block_size),
                "round": exact_duration(steady.round),
            },
            "meters": [_meter_settings(meter) for meter in target.meters],
        }
    )  # fmt: skip


def _meter_settings(meter: MeterSpec) -> dict[str, Any]:
    return {
        name: value
        for name, value in meter.dump().items()
        if name not in _REACHED_BY and not name.endswith(("_env", "_file"))
    }


def cluster_settings(cluster: Cluster | None) -> dict[str, Any]:
    """Of ``[cluster]``: what places the clients. How many there are is part of each point."""
    if cluster is None:
        return {}
    return without_empty({"launcher": cluster.launcher, "mpi_args": cluster.mpi_args})


def without_empty(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not given: whoever leaves a field out says nothing of it."""
    return {name: value for name, value in facts.items() if value not in _EMPTY}
