"""Conversion of warp's option ``--obj.size`` to ``object_size`` of an object workload."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any, NamedTuple

from storlab.base.units import format_size, parse_size

_OCTAVES = 8  # number of octaves below the largest size from which warp draws random sizes


class Sizes(NamedTuple):
    """Value for a workload's ``object_size``, and how it differs from warp's sizes, if it does."""

    value: Any
    difference: str | None = None


def size_bytes(text: str) -> int:
    """Convert a size in warp's notation to bytes; 0 if malformed. ``10M`` is 10 MB."""
    short = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?", text.strip(), re.IGNORECASE)
    if short is None:
        return 0
    unit = (short[2] or "").upper().replace("I", "i")
    try:
        return parse_size(f"{short[1]}{unit}B")
    except ValueError:
        return 0


def object_sizes(text: str, *, is_random: bool) -> Sizes | None:
    """Return the distribution of sizes that ``--obj.size`` sets; None if it is malformed.

    Args:
        text: One size, ``smallest,largest``, or buckets ``size:weight,...``.
        is_random: Whether ``--obj.randsize`` is set; without it, warp uses only the largest size.
    """
    if ":" in text:
        return _buckets(text)
    sizes = [size_bytes(part) for part in text.split(",")]
    if not 1 <= len(sizes) <= 2 or 0 in sizes:
        return None
    if not is_random:
        return Sizes(sizes[-1])
    return _octaves(sizes[0] if len(sizes) == 2 else None, sizes[-1])


def _buckets(text: str) -> Sizes | None:
    """Return the distribution of sizes in buckets ``size:weight,...``.

    In each bucket, warp draws sizes uniformly, from the previous bucket's size to below its own.
    """
    buckets = [(0, 0.0)]
    for part in text.split(","):
        size_text, _, weight_text = part.partition(":")
        size = size_bytes(size_text)
        try:
            weight = float(weight_text)
        except ValueError:
            return None
        if weight < 0 or (size == 0 and size_text.strip() != "0"):
            return None
        buckets.append((size, weight))
    drawn = [(low, high, weight) for (low, _), (high, weight) in pairwise(buckets) if weight]
    if not drawn or any(low >= high for low, high, _ in drawn):
        return None
    if len(drawn) == 1:
        low, high, _ = drawn[0]
        last = high - 1
        return Sizes(last if last <= max(low, 1) else {"uniform": _texts(max(low, 1), last)})
    total = sum(weight for _, _, weight in drawn)
    # The mean of low .. high - 1, which is low for a bucket one byte wide.
    shares = [(max(1, (low + high - 1) // 2), 100 * weight / total) for low, high, weight in drawn]
    if all(high - low == 1 for low, high, _ in drawn):
        return Sizes(_weights(shares))
    return Sizes(
        _weights(shares), "warp draws sizes uniformly within each bucket; storlab uses its mean"
    )


def _octaves(smallest: int | None, largest: int) -> Sizes:
    """Return an approximation of ``--obj.randsize``, which is uniform on a logarithmic scale.

    Each octave is represented by its mean, so that the mean of all sizes is the same as in warp.
    """
    top = math.log2(max(2, largest))
    bottom = max(7.0, top - _OCTAVES) if smallest is None else math.log2(max(2, smallest))
    octaves = top - bottom
    if octaves < 1:
        return Sizes({"uniform": _texts(max(1, smallest or 1), largest)}, _RANDOM)
    # In the lowest octave, warp draws uniformly from a narrower range.
    shares = [(round((smallest or 1) + 2**bottom / octaves), 100 / octaves)]
    low = bottom + 1
    while top - low > 1e-9:
        high = min(top, low + 1)
        mean = (2**high - 2**low) / ((high - low) * math.log(2))
        shares.append((round(mean), 100 * (high - low) / octaves))
        low = high
    return Sizes(_weights(shares), _RANDOM)


_RANDOM = "warp draws sizes from a continuous distribution; storlab uses the mean of each octave"


def _weights(shares: list[tuple[int, float]]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for size, share in shares:
        weights[format_size(size)] = round(weights.get(format_size(size), 0.0) + share, 3)
    return weights


def _texts(low: int, high: int) -> list[str]:
    return [format_size(low), format_size(high)]
