"""Health logs of NVMe drives of several makers, replayed byte for byte, hostile ones included."""

from __future__ import annotations

import errno

import pytest

from storlab.health.nvme_logs import read_nvme
from storlab.health.reading import HealthReading
from storlab.meters.nvme_admin import NvmeAdmin
from support.nvme_replay import Controller, page

SMART = {
    "warning_bits": 0,
    "temperature_c": 41,
    "spare_percent": 100,
    "spare_threshold_percent": 10,
    "percentage_used": 3,
    "host_read_bytes": 5_120_000_000,
    "host_written_bytes": 10_240_000_000,
    "unsafe_shutdowns": 4,
    "media_errors": 5,
    "hot_min": 7,
    "critically_hot_min": 8,
    "sensor_1_c": 46,
    "sensor_2_c": 51,
    "light_throttles": 9,
    "heavy_throttles": 10,
    "light_throttled_s": 11,
    "heavy_throttled_s": 12,
}
OCP = {
    "media_written_bytes": 51_539_607_552,
    "media_read_bytes": 4_296_015_872,
    "bad_user_blocks": 21,
    "bad_system_blocks": 2,
    "uncorrectable_read_errors": 1,
    "soft_ecc_errors": 600,
    "throttles": 28,
    "throttle_level": 0,
    "pcie_correctable_errors": 29,
    "incomplete_shutdowns": 30,
    "free_blocks_percent": 31,
}
OCP_2 = {"link_retrainings": 37, "power_state_changes": 38}


def controller(smart: str = "smart_full.txt", ocp: str | None = None) -> Controller:
    made = Controller(bytes(4096), page(smart, 512))
    made.ocp_log = None if ocp is None else page(ocp, 512)
    return made


def read(made: Controller) -> HealthReading:
    return read_nvme(NvmeAdmin("/dev/nvme0", made))


@pytest.mark.parametrize(
    ("ocp", "values"), [("ocp_1_0.txt", SMART | OCP), ("ocp_2_0.txt", SMART | OCP | OCP_2)]
)
def test_both_logs_of_an_ocp_drive_are_read(ocp: str, values: dict[str, int]) -> None:
    found = read(controller(ocp=ocp))
    assert found.values == values
    assert found.absent == {}
    assert found.sources == ["log 02h", "log C0h"]


def test_a_drive_without_ocps_log_has_the_values_of_the_standard_one() -> None:
    found = read(controller())
    assert found.values == SMART
    assert found.sources == ["log 02h"]
    assert "no such log page" in found.absent["log C0h"]


def test_a_log_of_another_maker_under_the_same_number_is_not_decoded() -> None:
    found = read(controller(ocp="vendor_c0.txt"))
    assert found.values == SMART
    assert "0F0E0D0C0B0A09080706050403020100" in found.absent["log C0h"]


def test_sensors_that_a_drive_lacks_have_no_temperature() -> None:
    found = read(controller("smart_1_4.txt"))
    assert found.values["temperature_c"] == 41
    assert not any(name.startswith("sensor") for name in found.values)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (page("smart_full.txt", 512)[:100], "only 100 of 512 bytes"),
        (b"", "only 0 of 512 bytes"),
        (bytes(512), "every byte of it is 00h"),
        (bytes([0xFF]) * 512, "every byte of it is FFh"),  # the drive is no longer on the bus
    ],
)
def test_a_short_or_empty_log_is_absent_and_the_other_is_kept(log: bytes, words: str) -> None:
    made = controller(ocp="ocp_1_0.txt")
    made.smart = log
    found = read(made)
    assert found.values == OCP
    assert words in found.absent["log 02h"]
    made = controller()
    made.ocp_log = log
    found = read(made)
    assert found.values == SMART
    assert words in found.absent["log C0h"]


def test_values_that_cannot_be_are_absent_and_the_others_kept() -> None:
    made = controller()
    hostile = bytearray(made.smart)
    hostile[1:3] = b"\xff\xff"
    hostile[3] = 101
    hostile[48:64] = b"\xff" * 16
    made.smart = bytes(hostile)
    found = read(made)
    assert found.absent.keys() >= {"temperature_c", "spare_percent"}
    assert "65535 K" in found.absent["temperature_c"]
    assert found.values["host_written_bytes"] == (2**128 - 1) * 512_000
    kept = SMART.keys() - {"temperature_c", "spare_percent", "host_written_bytes"}
    assert {name: found.values[name] for name in kept} == {name: SMART[name] for name in kept}


@pytest.mark.parametrize("failure", [OSError(errno.EACCES, ""), OSError(errno.ENODEV, ""), 0x4002])
def test_a_drive_that_answers_nothing_gives_reasons_only(failure: OSError | int) -> None:
    made = controller()
    made.fails = failure
    found = read(made)
    assert found.values == {}
    assert found.sources == []
    assert found.absent.keys() == {"log 02h", "log C0h"}
    assert all(found.absent.values())
