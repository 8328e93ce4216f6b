"""Translation of warp's options into fields of an ``object`` workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from storlab.engines.warp.command import LIBRARY_PART
from storlab.engines.warp.command_line import expanded_hosts
from storlab.engines.warp.object_sizes import object_sizes, size_bytes
from storlab.engines.warp.records import Records
from storlab.model.result import Operation

Flags = Mapping[str, str]

_MOST_SIZES = 16  # limit for a weighted list of sizes
_DISTRIBUTION: dict[Operation, str] = {
    "get": "get",
    "head": "stat",
    "put": "put",
    "delete": "delete",
}
_MIXES = ("mixed", "versioned")  # benchmarks with a mix of operations
# Percentages of these benchmarks if no option changes them, in all versions of warp.
_DEFAULT_MIX: dict[Operation, float] = {"get": 45.0, "head": 30.0, "put": 15.0, "delete": 10.0}
_SAMPLING_ERRORS = 3.0  # standard errors within which a mix is taken for the default
_NOTED_DIFFERENCE = 1.0  # difference from the configured mix, in percentage points, that is noted
_PERCENTS = ("get", "head", "list", "delete", "multi_delete")
# Options that are represented by fields of the workload or target, or by recorded requests.
_EXPRESSED = {
    "host", "host-select", "tls", "bucket", "concurrent", "duration", "objects", "obj.size",
    "obj.randsize", "range", "range-size", "get-distrib", "stat-distrib", "put-distrib",
    "delete-distrib", "batch", "part.size", "disable-multipart", "disable-sha256-payload",
    "checksum", "list-existing",
}  # fmt: skip
# Options that do not affect the load: names, reporting, credentials, locations, start and end.
_NO_LOAD = {
    "quiet", "no-color", "json", "debug", "autocompletion", "benchdata", "full", "stress",
    "influxdb", "stdout", "requests", "access-key", "secret-key", "session-token", "signature",
    "sts-endpoint", "sts-web-token", "sts-web-token-file", "insecure", "region", "lookup", "prefix",
    "resolve-host", "list-flat", "noclear", "keep-data", "syncstart", "autoterm", "autoterm.dur",
    "autoterm.pct",
}  # fmt: skip
_REPORTING = "analyze."
_DEFAULTS = {"obj.generator": "random", "versions": "1"}  # default values other than 0
# Benchmarks of warp that can be recognised by the operations in the results.
_BENCHMARKS = ("get", "put", "delete", "list", "stat", "mixed")


@dataclass(frozen=True, slots=True)
class Seen:
    """Facts about a warp run that its requests show, even if options are missing."""

    requests: Mapping[Operation, int]  # requests by operation, including failed ones
    sizes: Mapping[int, int]  # bytes of a request -> number of requests
    workers: int  # requests in flight; 0 if not recorded
    keys_per_delete: int
    tls: bool
    mean_size: int = 0  # bytes of a GET or PUT, if sizes are unknown


def sizes_of(records: Records) -> dict[int, int]:
    """Return the sizes in bytes of objects read or written, with the number of requests."""
    moved = (records.kind("get") | records.kind("put")) & (records.bytes > 0)
    values, counts = np.unique(records.bytes[moved], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def endpoints_of(flags: Flags) -> list[str]:
    """Return the S3 endpoints that warp's options name."""
    scheme = "https" if flags.get("tls") == "true" else "http"
    return [f"{scheme}://{host}" for host in expanded_hosts(flags.get("host", ""))]


def fields(flags: Flags, seen: Seen) -> tuple[dict[str, Any], list[str]]:
    """Convert warp's options to fields of an ``object`` workload.

    Returns:
        The fields, and notes on options that no field can express.
    """
    notes: list[str] = []
    percents = _percents(flags, seen, notes)
    result: dict[str, Any] = {f"{kind}_percent": percents.get(kind, 0.0) for kind in _PERCENTS}
    result = {name: value for name, value in result.items() if value or name == "get_percent"}
    result["object_size"] = _objectsize_bytes(flags, seen, notes)
    result["concurrency"] = seen.workers or _whole(flags, "concurrent", 20)
    if not seen.workers and "concurrent" not in flags:
        notes.append("the file does not record the concurrency: warp's default of 20 is assumed")
    if set(percents) != {"put"}:
        objects = _whole(flags, "objects", 0)
        result |= {"objects": objects} if objects else {}
    if "multi_delete" in percents:
        result["delete_batch"] = max(1, min(1000, seen.keys_per_delete))
    if "get" in percents and flags.get("range-size"):
        result["range_size"] = size_bytes(flags["range-size"]) or 1
        if not size_bytes(flags.get("obj.size", "")):
            notes.append(
                "warp read ranges and did not record the size of the objects: object_size is the "
                "size of the ranges"
            )
    if "range" in flags and "range-size" not in flags:
        notes.append("warp read ranges of random length; storlab records reads of whole objects")
    if "put" in percents:
        result |= _uploads(flags, seen, notes)
        if {"get", "head"} & set(percents):
            result["read_written"] = True
    if "," in flags.get("host", "") and flags.get("host-select", "weighed") == "weighed":
        result["routing"] = "least_busy"
    shaping = unexpressed(flags)
    if "rps-limit" in shaping:
        notes.append(
            "warp delayed requests (--rps-limit) and measured latency only after the delay"
        )
    if shaping:
        text = ", ".join(f"{name}={value}" for name, value in shaping.items())
        notes.append(f"warp options that affect the load and have no field in storlab: {text}")
    return result, notes


def unexpressed(flags: Flags) -> dict[str, str]:
    """Return the options that affect the load and that no field fully expresses, sorted by name.

    Runs that differ in such an option are not repeats of each other. Unknown options, such as those
    of newer warp versions, are assumed to affect the load. The name of the benchmark is included if
    its operations do not identify it.
    """
    given = {"benchmark": flags.get("", "get"), **flags}
    shaping = {
        name
        for name, value in given.items()
        if name not in _EXPRESSED | _NO_LOAD | {"", "benchmark"}
        and not name.startswith(_REPORTING)
        and value not in ("", "0", "false", _DEFAULTS.get(name))
    }
    return {name: given[name] for name in sorted(shaping | set(_partly_expressed(given)))}


def _partly_expressed(flags: Flags) -> Iterator[str]:
    """Yield the options whose field cannot fully express their value."""
    if flags["benchmark"] not in _BENCHMARKS:
        yield "benchmark"
    if "range" in flags and "range-size" not in flags:
        yield "range"
    if flags.get("checksum", "CRC32") != "CRC32":
        yield "checksum"


def _percents(flags: Flags, seen: Seen, notes: list[str]) -> dict[Operation, float]:
    """Return the configured percentage of each operation or, if it is unknown, the counted one.

    Configured percentages are preferred because counted ones differ between repeats.
    """
    counted = _shares(seen.requests)
    asked = _asked_mix(flags)
    if asked is None:
        return counted if len(counted) == 1 else _unrecorded_mix(seen, counted, notes)
    far = [
        f"{counted.get(kind, 0.0):.1f} % {kind} instead of {asked.get(kind, 0.0):g} %"
        for kind in sorted(asked.keys() | counted.keys())
        if counted and abs(counted.get(kind, 0.0) - asked.get(kind, 0.0)) > _NOTED_DIFFERENCE
    ]
    if far:
        notes.append(f"the mix of requests is not the configured one: {', '.join(far)}")
    return asked


def _shares(amounts: Mapping[Operation, float]) -> dict[Operation, float]:
    total = sum(amounts.values())
    if not total:
        return {"get": 100.0}
    return {kind: round(100 * n / total, 6) for kind, n in amounts.items() if n > 0}


def _asked_mix(flags: Flags) -> dict[Operation, float] | None:
    """Return the percentages configured by warp's command line; None if it configures no mix."""
    given = {
        kind: _number(flags, f"{name}-distrib")
        for kind, name in _DISTRIBUTION.items()
        if f"{name}-distrib" in flags
    }
    if not given and flags.get("") not in _MIXES:
        return None
    amounts = _DEFAULT_MIX | given
    return _shares(amounts) if sum(amounts.values()) > 0 else None


def _unrecorded_mix(
    seen: Seen, counted: Mapping[Operation, float], notes: list[str]
) -> dict[Operation, float]:
    """Return warp's default mix if the counts fit it, else rounded percentages; add a note."""
    total = sum(seen.requests.values())
    if seen.requests.keys() <= _DEFAULT_MIX.keys() and all(
        abs(counted.get(kind, 0.0) - percent)
        <= _SAMPLING_ERRORS * (percent * (100 - percent) / total) ** 0.5
        for kind, percent in _DEFAULT_MIX.items()
    ):
        notes.append(
            "the file does not record the mix of requests: warp's default is assumed, which the "
            "counts match within sampling error"
        )
        return dict(_DEFAULT_MIX)
    notes.append(
        "the file does not record the mix of requests: the percentages are the counted ones, "
        "rounded"
    )
    # A kind below half a percent keeps one digit, because 0 would mean that there was none.
    rounded = {k: float(round(s)) or float(f"{s:.1g}") for k, s in counted.items()}
    largest = max(rounded, key=lambda kind: counted[kind])
    rest = sum(percent for kind, percent in rounded.items() if kind != largest)
    return rounded | {largest: round(100 - rest, 9)}


def _objectsize_bytes(flags: Flags, seen: Seen, notes: list[str]) -> Any:
    asked = object_sizes(flags.get("obj.size", ""), is_random=flags.get("obj.randsize") == "true")
    plain = asked is not None and isinstance(asked.value, int) and "list-existing" not in flags
    if asked is not None and (plain or not seen.sizes):
        notes += [] if asked.difference is None else [asked.difference]
        return asked.value
    if not seen.sizes and seen.mean_size:
        notes.append("the sizes of the objects are unknown; object_size is their mean")
        return seen.mean_size
    if not seen.sizes:
        notes.append("warp did not record the size of the objects; object_size is a guess")
        return 1024
    if len(seen.sizes) == 1:
        return next(iter(seen.sizes))
    if len(seen.sizes) <= _MOST_SIZES:
        total = sum(seen.sizes.values())
        return {f"{size}B": round(100 * n / total, 3) for size, n in sorted(seen.sizes.items())}
    notes.append("warp drew sizes from a distribution that storlab records as uniform")
    return {"uniform": [min(seen.sizes), max(seen.sizes)]}


def _uploads(flags: Flags, seen: Seen, notes: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if flags:
        unsigned = "disable-sha256-payload" in flags or seen.tls or flags.get("tls") == "true"
        checked = bool(flags.get("checksum")) and unsigned
        payload = "trailer-crc" if checked else "unsigned" if unsigned else "streaming"
        result["payload"] = payload
    else:
        notes.append("the file does not record warp's options, so payload and parts are guesses")
    largest = max(seen.sizes, default=0)
    part = size_bytes(flags.get("part.size", "")) or LIBRARY_PART
    if largest > part and "disable-multipart" not in flags:
        result |= {"part_size": part, "part_concurrency": 4}
    return result


def _whole(flags: Flags, name: str, default: int) -> int:
    text = flags.get(name, "")
    return int(text) if text.isdigit() else default


def _number(flags: Flags, name: str) -> float:
    try:
        return max(0.0, float(flags[name]))
    except ValueError:
        return 0.0
