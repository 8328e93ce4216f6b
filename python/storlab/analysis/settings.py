"""Settings of a study that affect its numbers; file locations and texts are left out.

Sizes and durations are returned as text in the notation of a study, because people read them.
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
"""Fields of a meter that only affect how its readings are transferred, such as file names."""
_EMPTY: tuple[Any, ...] = (None, [], {}, "")


def study_settings(header: Header) -> dict[str, Any]:
    """Return the settings in ``[study]`` that affect the numbers.

    The engine is missing because it is part of each point.
    """
    lengths = {name: exact_duration(getattr(header, name)) for name in _DURATIONS}
    pinned = {"numa_local": True} if header.numa_local else {}
    return {**lengths, "seed": header.seed, **pinned}


def target_settings(target: Target) -> dict[str, Any]:
    """Return the settings of a target that affect its numbers.

    These are the part of the storage that is used, preconditioning, meters, and declared facts that
    numbers are divided by, such as the capacity.
    """
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
                "fill_block_size": format_size(steady.fill_block_size),
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
    """Return the settings in ``[cluster]`` that affect how MPI starts and places the clients.

    The number of clients is missing because it is part of each point.
    """
    if cluster is None:
        return {}
    return without_empty({"launcher": cluster.launcher, "mpi_args": cluster.mpi_args})


def without_empty(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``facts`` without empty values, which stand for fields that were not given."""
    return {name: value for name, value in facts.items() if value not in _EMPTY}
