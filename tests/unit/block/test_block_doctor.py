"""doctor's checks of devices for block workloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import Target

BLOCK = FAMILIES["block"]
TARGET = Target(name="t", path="x", size=1 << 30)


def trimming(percent: int) -> Point:
    return Point(
        target="t", workload="w", workload_index=0, kind="block", engine="native",
        params={"read_percent": 50, "trim_percent": percent},
    )  # fmt: skip


@pytest.mark.parametrize(("discards", "found"), [("0", ["trim"]), ("2147483648", []), (None, [])])
def test_doctor_looks_for_discard_where_blocks_are_trimmed(
    discards: str | None, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check discard support of devices (faked) and files (None)."""
    number = None if discards is None else 0x10300
    monkeypatch.setattr("storlab.workloads.block.family.device_number", lambda _: number)
    monkeypatch.setattr("storlab.workloads.block.family.Device", Disk)
    monkeypatch.setattr("storlab.workloads.block.family.read_fact", lambda _: discards)
    place = Path("/dev/disk/by-id/one")
    for percent, told in ((10, found), (0, [])):
        checks = BLOCK.examine_target(TARGET, [trimming(percent)], [place])
        assert [check.name for check in checks] == told
        assert all(f"{place} has no discard" in check.what for check in checks)


class Disk:
    """An existing device with any number."""

    is_there = True
    sysfs = Path("/sys/dev/block/259:0")

    def __init__(self, _: int) -> None:
        self.whole = self
