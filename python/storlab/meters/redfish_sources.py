"""Find power values in a Redfish service, in three generations of its data model.

Source: DMTF DSP0268 (Redfish data model): EnvironmentMetrics, PowerSupplyMetrics, Sensor, Power.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeGuard

from storlab.base.errors import MeterError
from storlab.base.units import J_PER_KWH, NS_PER_S
from storlab.model.power import Sampling, Supply

Get = Callable[[str], dict[str, Any]]
Quantity = Literal["power", "average", "energy"]
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_EXCERPTS = {"power": ("PowerWatts", "InputPowerWatts"), "energy": ("EnergyJoules", "EnergykWh")}


@dataclass(frozen=True, slots=True)
class Value:
    """Power in W or energy in J of a Redfish resource, with its accuracy and time stamps."""

    number: float
    step: float  # value of the last printed digit
    unit: Literal["W", "J"]
    sampling: Sampling
    interval_ns: int | None = None  # averaging interval of a mean
    stamp: str | None = None  # the sensor's own time
    gain_accuracy: float | None = None
    offset_accuracy_w: float | None = None
    refresh_ns: int = 0  # interval between updates by the sensor


@dataclass(frozen=True, slots=True)
class Source:
    """Redfish resources whose values are added up to one sensor, such as power supplies."""

    paths: tuple[str, ...]
    what: str
    supply: Supply = "unknown"


def read_value(resource: dict[str, Any], quantity: Quantity) -> Value | None:
    """Return the power, average power or energy of a resource; None if it is missing or null."""
    if "PowerControl" in resource:
        return _from_power(resource, quantity)
    if "ReadingType" in resource or str(resource.get("@odata.type", "")).startswith("#Sensor."):
        return _from_sensor(resource, quantity)
    for name in _EXCERPTS.get(quantity, ()):
        excerpt = resource.get(name)
        number = excerpt.get("Reading") if isinstance(excerpt, dict) else None
        if _is_number(number):
            factor = J_PER_KWH if name == "EnergykWh" else 1
            return _value(number, factor, "counter" if quantity == "energy" else "instantaneous")
    return None


def resolve(get: Get, path: str, quantity: Quantity) -> str | None:
    """Return the path at which to read a resource's quantity, or None if it has no value.

    If the resource at ``path`` refers to a Sensor resource with a value, the Sensor is returned,
    because it has more details; otherwise ``path``.
    """
    resource = get(path)
    quoted = _origin(resource, quantity)
    if quoted is not None and read_value(get(quoted), quantity) is not None:
        return quoted
    return path if read_value(resource, quantity) is not None else None


def _origin(resource: dict[str, Any], quantity: Quantity) -> str | None:
    for name in _EXCERPTS.get("energy" if quantity == "energy" else "power", ()):
        excerpt = resource.get(name)
        if isinstance(excerpt, dict) and isinstance(excerpt.get("DataSourceUri"), str):
            uri: str = excerpt["DataSourceUri"]
            return uri if uri.startswith("/") and "#" not in uri else None
    return None


def _from_power(resource: dict[str, Any], quantity: Quantity) -> Value | None:
    """Read the older ``Power`` resource: PowerConsumedWatts, or the mean over IntervalInMin."""
    controls = resource["PowerControl"]
    control = controls[0] if isinstance(controls, list) and controls else {}
    now = control.get("PowerConsumedWatts")
    if quantity == "power" and _is_number(now):
        return _value(now, 1, "instantaneous")
    metrics = control.get("PowerMetrics") or {}
    mean, minutes = metrics.get("AverageConsumedWatts"), metrics.get("IntervalInMin")
    if quantity != "energy" and _is_number(mean) and _is_number(minutes) and minutes > 0:
        return _value(mean, 1, "interval_mean", interval_ns=int(minutes * 60 * NS_PER_S))
    return None


def _from_sensor(resource: dict[str, Any], quantity: Quantity) -> Value | None:
    kind = resource.get("ReadingType")
    wanted = ("EnergyJoules", "EnergykWh") if quantity == "energy" else ("Power",)
    number = resource.get("AverageReading" if quantity == "average" else "Reading")
    if kind not in wanted or not _is_number(number):
        return None
    about: dict[str, Any] = {
        "stamp": resource.get("ReadingTime"),
        "refresh_ns": duration_ns(resource.get("SensingInterval")) or 0,
    }
    if _is_number(resource.get("Accuracy")):  # percent
        about["gain_accuracy"] = float(resource["Accuracy"]) / 100
    # Not for energy: ReadingAccuracy is in the unit of the reading, so it would be in J.
    if quantity != "energy" and _is_number(resource.get("ReadingAccuracy")):
        about["offset_accuracy_w"] = float(resource["ReadingAccuracy"])
    if quantity == "average":
        about["interval_ns"] = duration_ns(resource.get("AveragingInterval"))
        return _value(number, 1, "interval_mean", **about) if about["interval_ns"] else None
    factor = J_PER_KWH if kind == "EnergykWh" else 1
    return _value(number, factor, "counter" if quantity == "energy" else "instantaneous", **about)


def _value(number: int | Decimal, factor: int, sampling: Sampling, **about: Any) -> Value:
    exponent = Decimal(number).as_tuple().exponent
    return Value(
        number=float(number * factor),
        step=10.0 ** min(0, exponent if isinstance(exponent, int) else 0) * factor,
        unit="J" if sampling == "counter" else "W",
        sampling=sampling,
        **about,
    )


def _is_number(value: object) -> TypeGuard[int | Decimal]:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def duration_ns(text: object) -> int | None:
    """Convert an ISO 8601 duration (``"PT1.5S"``) to ns; None if it is not one."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * NS_PER_S)


def find_source(get: Get, root: str, quantity: Quantity, chassis: str | None) -> Source:
    """Find the power or energy of a chassis.

    Args:
        get: Function that returns a resource.
        root: Path of the service's root.
        quantity: Power, average or energy.
        chassis: Name of the chassis; None for the only one with the quantity.

    Raises:
        MeterError: No chassis has the quantity, or several have it.
    """
    service = get(root)
    sources: dict[str, Source] = {}
    members = _members(get, _link(service, "Chassis"))
    for path in members:
        name = path.rstrip("/").rsplit("/", 1)[-1]
        if chassis in (None, name):
            source = next(_sources(get, get(path), quantity), None)
            if source is not None:
                sources[name] = source
    if not sources:
        names = ", ".join(p.rstrip("/").rsplit("/", 1)[-1] for p in members) or "none"
        what = f"chassis {chassis} has no {quantity}" if chassis else f"no chassis has {quantity}"
        raise MeterError(root, f"{what} (chassis: {names})", f"set url to one with {quantity}")
    if len(sources) > 1:
        raise MeterError(
            root,
            f"several chassis have {quantity}: {', '.join(sources)}",
            f'choose one: chassis = "{next(iter(sources))}"',
        )
    return next(iter(sources.values()))


def _sources(get: Get, chassis: dict[str, Any], quantity: Quantity) -> Iterator[Source]:
    """Yield the sources of a quantity in a chassis, from the newest data model to the oldest.

    These are the chassis' EnvironmentMetrics, its power supplies, and its ``Power`` resource.
    """
    metrics = _link(chassis, "EnvironmentMetrics")
    if metrics is not None and (path := resolve(get, metrics, quantity)) is not None:
        yield Source((path,), "EnvironmentMetrics")
    subsystem = _link(chassis, "PowerSubsystem")
    if subsystem is not None:
        supplies = _supplies(get, get(subsystem), quantity)
        if supplies is not None:
            yield supplies
    legacy = _link(chassis, "Power")
    if legacy is not None and read_value(get(legacy), quantity) is not None:
        yield Source((legacy,), "Power")


def _supplies(get: Get, subsystem: dict[str, Any], quantity: Quantity) -> Source | None:
    """Return the inputs of all installed power supplies; None if one has no value."""
    paths: list[str] = []
    kinds: set[str] = set()
    for member in _members(get, _link(subsystem, "PowerSupplies")):
        supply = get(member)
        if (supply.get("Status") or {}).get("State") == "Absent":
            continue
        metrics = _link(supply, "Metrics")
        if metrics is None or read_value(get(metrics), quantity) is None:
            return None
        paths.append(metrics)
        kinds.add(str(supply.get("InputNominalVoltageType") or "")[:2].lower())
    side: Supply = "ac" if kinds == {"ac"} else "dc" if kinds == {"dc"} else "unknown"
    source = f"input of {len(paths)} power supplies" if len(paths) > 1 else "input of the supply"
    return Source(tuple(paths), source, side) if paths else None


def _link(resource: dict[str, Any], name: str) -> str | None:
    link = resource.get(name)
    path = link.get("@odata.id") if isinstance(link, dict) else None
    return path if isinstance(path, str) else None


def _members(get: Get, path: str | None) -> list[str]:
    """Return the paths of all members of a Redfish collection, from all of its pages."""
    places: list[str] = []
    pages: set[str] = set()
    while path is not None and path not in pages:
        pages.add(path)
        page = get(path)
        members = page.get("Members") or []
        places += [m["@odata.id"] for m in members if isinstance(m.get("@odata.id"), str)]
        following = page.get("Members@odata.nextLink")
        path = following if isinstance(following, str) else None
    return places
