"""Object sizes of warp's option --obj.size."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.base.units import parse_size
from storlab.engines.warp.object_sizes import object_sizes, size_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10MiB", 10 << 20), ("10M", 10**7), ("10MB", 10**7), ("10mib", 10 << 20), ("10Mi", 10 << 20),
     ("1.5KiB", 1536), ("512B", 512), ("512", 512), ("1kb", 1000), ("x", 0), ("", 0)],
)  # fmt: skip
def test_units_of_sizes(text: str, expected: int) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "value", "is_exact"),
    [
        ("1MiB", 1 << 20, True),
        ("1KiB,1MiB", 1 << 20, True),  # without --obj.randsize only the largest counts
        ("1048576:0,1048577:1", 1 << 20, True),
        ("1024:0,1048577:1", {"uniform": ["1KiB", "1MiB"]}, True),
        ("4096:0,4097:3,8192:0,8193:1", {"4KiB": 75.0, "8KiB": 25.0}, True),
        ("4096:60,8193:40", {"2047B": 60.0, "6KiB": 40.0}, False),
    ],
)
def test_distributions(text: str, value: Any, is_exact: bool) -> None:
    sizes = object_sizes(text, is_random=False)
    assert sizes is not None
    assert (sizes.value, sizes.difference is None) == (value, is_exact)


@pytest.mark.parametrize("text", ["", "0", "big", "1:a", "4096:1,1024:2", "1,2,3"])
def test_malformed_sizes(text: str) -> None:
    assert object_sizes(text, is_random=False) is None


def test_random_sizes_have_warps_mean() -> None:
    """Check against the mean of 0.179151 times the largest size that warp documents."""
    sizes = object_sizes("100MB", is_random=True)
    assert sizes is not None
    mean = sum(parse_size(size) * weight for size, weight in sizes.value.items()) / 100
    assert mean == pytest.approx(0.179151 * 100e6, rel=0.005)
    assert sizes.difference is not None
