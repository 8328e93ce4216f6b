"""Flags and write amplification that follow from what drives reported before and after a run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from storlab.contracts.details import DriveHealth
from storlab.health.drives import compared
from storlab.health.evidence import (
    BUFFER_BYTES,
    health_flags,
    health_metrics,
    write_amplification,
)
from storlab.health.nvme_logs import read_nvme
from storlab.health.reading import COUNTERS, HealthReading
from storlab.meters.nvme_admin import NvmeAdmin
from storlab.workloads.common.flags import STATE_FLAGS
from support.nvme_replay import Controller, page

HEALTHY: dict[str, Any] = {
    "percentage_used": 99,
    "spare_percent": 10,
    "spare_threshold_percent": 10,
    "warning_bits": 2,  # too hot: no wear
    "throttle_level": 0,
    "link_gt_s": 16.0,
    "link_lanes": 4.0,
    **dict.fromkeys(COUNTERS, 1000),  # of earlier days
}


def drive(name: str = "nvme0n1", before: dict[str, Any] | None = None, **after: Any) -> DriveHealth:
    first = {**HEALTHY, **(before or {})}
    return DriveHealth(drive=name, before=first, after={**first, **after})


def kinds(*drives: DriveHealth) -> list[str]:
    return [flag.kind for flag in health_flags(drives)]


def test_a_drive_that_is_well_has_no_flag_whatever_happened_to_it_before() -> None:
    assert kinds(drive()) == []
    moved = {
        f"{way}_{what}_bytes": 10**12 for way in ("host", "media") for what in ("read", "written")
    }
    assert kinds(drive(**moved, soft_ecc_errors=2000, hot_min=1001, power_state_changes=1001)) == []


@pytest.mark.parametrize(
    ("after", "kind", "words"),
    [
        ({"light_throttles": 1003}, "throttled", "light thermal throttling 3 times"),
        ({"heavy_throttles": 1001}, "throttled", "heavy thermal throttling 1 times"),
        ({"light_throttled_s": 1012}, "throttled", "12 s in all"),
        ({"heavy_throttled_s": 1001}, "throttled", "1 s in all"),
        ({"throttles": 1002}, "throttled", "throttled itself 2 times"),
        ({"throttle_level": 1}, "throttled", "level 1"),
        ({"media_errors": 1001}, "media-errors", "1 media errors"),
        ({"uncorrectable_read_errors": 1002}, "media-errors", "could not correct 2 reads"),
        ({"percentage_used": 100}, "worn", "100 % of its rated endurance"),
        ({"spare_percent": 9}, "worn", "9 % of its spare"),
        ({"warning_bits": 1}, "worn", "10 % of its spare"),
        ({"warning_bits": 4}, "worn", "degraded"),
        ({"warning_bits": 8}, "worn", "read-only"),
        ({"failing": 1}, "worn", "about to fail"),
        ({"link_retrainings": 1001}, "link-retrained", "retrained 1 times"),
        ({"link_gt_s": 8.0}, "link-retrained", "from 16 GT/s x4 to 8 GT/s x4"),
        ({"link_lanes": 2.0}, "link-retrained", "to 16 GT/s x2"),
        ({"pcie_correctable_errors": 1003}, "link-retrained", "3 errors corrected"),
        ({"link_corrected_errors": 1004}, "link-retrained", "4 errors corrected"),
        ({"interface_errors": 1005}, "link-retrained", "5 checksum errors"),
    ],
)
def test_a_change_during_the_run_is_flagged_with_the_drive_and_its_number(
    after: dict[str, Any], kind: str, words: str
) -> None:
    (flag,) = health_flags([drive("nvme0n1"), drive("nvme1n1", **after)])
    assert flag.kind == kind
    assert flag.message.startswith("nvme1n1 ")
    assert words in flag.message
    assert kind in STATE_FLAGS


def test_a_drive_that_was_worn_or_throttled_before_the_load_is_flagged() -> None:
    assert kinds(drive(before={"percentage_used": 120})) == ["worn"]
    assert kinds(drive(before={"throttle_level": 2}, throttle_level=0)) == ["throttled"]


def test_several_drives_and_reasons_of_one_kind_are_one_flag() -> None:
    (flag,) = health_flags(
        [drive("nvme0n1", throttles=1001, heavy_throttles=1001), drive("nvme1n1", throttles=1002)]
    )
    assert flag.message.count("nvme") == 2
    assert flag.message.count("thrott") >= 3


@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_a_counter_that_goes_back_is_no_flag_and_absent_with_its_values(name: str) -> None:
    (found,) = compared(
        {"nvme0n1": HealthReading(dict(HEALTHY), sources=["log 02h"])},
        {"nvme0n1": HealthReading({**HEALTHY, name: 3}, sources=["log 02h"])},
        {},
    )
    assert found.grown(name) is None
    assert found.absent == {name: "went back from 1000 to 3"}
    assert (found.before[name], found.after[name]) == (1000, 3)  # nothing is lost
    assert health_flags([found]) == []


def test_a_drive_that_is_lost_in_the_run_keeps_what_it_said_before() -> None:
    gone = HealthReading(absent={"log 02h": "the controller was removed"})
    (found,) = compared({"nvme0n1": HealthReading(dict(HEALTHY))}, {"nvme0n1": gone}, {})
    assert found.before == HEALTHY
    assert found.after == {}
    assert found.absent == {"log 02h": "the controller was removed"}
    assert health_flags([found]) == []
    assert health_metrics([found]) == []


def test_the_hottest_reading_counts_whenever_it_was_taken() -> None:
    before = {"a": HealthReading({"temperature_c": 40}), "b": HealthReading({"temperature_c": 30})}
    after = {"a": HealthReading({"temperature_c": 50}), "b": HealthReading()}
    found = compared(before, after, {"a": [(1, 61.5), (2, 45.0)]})
    assert [health.hottest_c for health in found] == [61.5, 30]


def written(host: int, media: int, *, host_from: int = 7, media_from: int = 1) -> DriveHealth:
    """Return a drive that was given some data units (512,000 bytes) and wrote some 16 KiB pages."""
    names = "host_written_bytes", "media_written_bytes"
    first = dict(zip(names, (host_from * 512_000, media_from << 14), strict=True))
    last = dict(zip(names, ((host_from + host) * 512_000, (media_from + media) << 14), strict=True))
    return DriveHealth(drive="nvme0n1", before=first, after=last)


def test_write_amplification_is_bytes_on_the_medium_over_bytes_given() -> None:
    health = written(20_001, 1_125_056, host_from=77_777, media_from=12_345)
    found = write_amplification([health])
    assert found is not None
    assert found.ratio == pytest.approx(1_125_056 * 16384 / (20_001 * 512_000))
    # One data unit, one page, and a full buffer.
    steps = 512_000 * found.ratio + 16384 + BUFFER_BYTES
    assert found.resolution == pytest.approx(steps / (20_001 * 512_000), rel=1e-9)
    (metric,) = health_metrics([health])
    assert (metric.name, metric.value) == ("write_amplification", found.ratio)
    assert metric.uncertainty == pytest.approx(found.resolution / math.sqrt(12))


def test_a_counter_with_coarse_steps_has_a_coarse_resolution() -> None:
    fine = write_amplification([written(40_000, 79 << 14, media_from=12_345)])
    coarse = write_amplification([written(40_000, 79 << 14, media_from=3 << 14)])
    assert fine is not None
    assert coarse is not None
    steps = (1 << 28) - (1 << 14)  # 256 MiB instead of 16 KiB
    assert coarse.resolution - fine.resolution == pytest.approx(steps / (40_000 * 512_000))


@pytest.mark.parametrize(
    ("host", "media"),
    [
        (1200, 36_001),  # 614 MB: the buffer alone may be more than a tenth of it
        (0, 0),
        (0, 5000),  # only what the drive moves by itself
        (5000, 0),
        (20_000, 20 << 14),  # a counter with steps of gigabytes
    ],
)
def test_write_amplification_of_a_short_run_is_absent(host: int, media: int) -> None:
    assert write_amplification([written(host, media, host_from=1, media_from=1 << 20)]) is None


def test_a_longer_run_of_the_same_drive_has_one() -> None:
    assert write_amplification([written(2600, 82_001)]) is not None


def test_drives_are_summed_and_one_without_the_counter_makes_it_unknown() -> None:
    both = [written(10_000, 400_000), written(10_000, 800_000)]
    found = write_amplification(both)
    assert found is not None
    assert found.ratio == pytest.approx(1_200_000 * 16384 / (20_000 * 512_000))
    without = DriveHealth(drive="nvme1n1", before={"host_written_bytes": 0}, after={})
    assert write_amplification([*both, without]) is None
    assert write_amplification([]) is None


def test_write_amplification_of_replayed_logs() -> None:
    """Read both logs of a drive before and after it is given 12.8 GB and writes 32 GB."""
    controller = Controller(bytes(4096), page("smart_full.txt", 512))
    controller.ocp_log = page("ocp_2_0.txt", 512)
    admin = NvmeAdmin("/dev/nvme0", controller)
    before = read_nvme(admin)
    controller.smart = _with(controller.smart, 48, 20_000 + 25_001)
    controller.ocp_log = _with(controller.ocp_log, 0, 51_539_607_552 + 32_000_000_000)
    after = read_nvme(admin)
    found = write_amplification(compared({"a": before}, {"a": after}, {}))
    assert found is not None
    assert found.ratio == pytest.approx(2.5, rel=1e-4)
    assert 0.004 < found.resolution < 0.02


def _with(log: bytes, at: int, value: int) -> bytes:
    return log[:at] + value.to_bytes(16, "little") + log[at + 16 :]
