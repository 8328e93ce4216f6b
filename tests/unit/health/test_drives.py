"""Which drives below a target report their health, and what sysfs says about their links."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.health import drives
from storlab.health.drives import read_drive, read_drives
from storlab.health.reading import HealthReading
from storlab.lab.preflight import health
from storlab.lab.preflight.health import health_checks, log_check
from storlab.lab.watch.health import HealthWatch
from storlab.model.result import EngineInfo, RunOutcome
from storlab.model.study import Target
from storlab.stores.drives import Drive, stack_of
from support.sysfs_trees import put, replace


def nvme(root: Path) -> Drive:
    """Create a PCIe drive in sysfs that has no node in /dev."""
    port = root / "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    put(port / "current_link_speed", "16.0 GT/s PCIe")
    put(port / "current_link_width", 4)
    put(port / "aer_dev_correctable", "RxErr 0\nBadTLP 7\nTOTAL_ERR_COR 7")
    put(port / "nvme/nvme9999/transport", "pcie")
    put(port / "nvme/nvme9999/nvme9999n1/device/hwmon0/temp1_input", 41_850)
    put(port / "nvme/nvme9999/nvme9999n1/device/hwmon0/temp1_max", 69_850)
    (drive,) = stack_of(port / "nvme/nvme9999/nvme9999n1")[1]
    return drive


def test_without_privilege_temperature_and_link_are_left(tmp_path: Path) -> None:
    found = read_drive(nvme(tmp_path))
    assert found.values == {
        "link_gt_s": 16,
        "link_lanes": 4,
        "link_corrected_errors": 7,
        "temperature_c": 41.85,
        "temperature_limit_c": 69.85,
    }
    assert found.absent.keys() == {"log 02h"}


def test_a_link_without_facts_has_no_values(tmp_path: Path) -> None:
    drive = nvme(tmp_path)
    replace(drive.pci_devices[0].sysfs / "aer_dev_correctable", "hostile\n\nTOTAL_ERR_COR none")
    replace(drive.pci_devices[0].sysfs / "current_link_speed", "Unknown")
    assert read_drive(drive).values.keys() == {"temperature_c", "temperature_limit_c"}


def drive(name: str) -> Drive:
    return Drive(name, "unknown", None)


def test_only_drives_that_report_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drives, "read_drive", lambda _: HealthReading({"media_errors": 1}))
    asked = [drive(name) for name in ("nvme0n1", "sda", "vda", "loop0", "pmem0")]
    assert read_drives(asked).keys() == {"nvme0n1", "sda"}


def test_readings_are_taken_before_and_after_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter((5, 7))
    monkeypatch.setattr(
        drives, "read_drive", lambda _: HealthReading({"media_errors": next(errors)})
    )
    outcome = RunOutcome("finished", EngineInfo(name="n", version="1"), 0, 1, [], {}, None)
    with HealthWatch([drive("nvme0n1")]) as watch:
        pass
    watch.judge(outcome, {"nvme0n1": [(0, 44.0)]})
    (found,) = outcome.details["health"]
    assert (found["before"], found["after"]) == ({"media_errors": 5}, {"media_errors": 7})
    assert found["hottest_c"] == 44
    assert [flag.kind for flag in outcome.flags] == ["media-errors"]


def test_a_target_without_reporting_drives_has_no_health() -> None:
    outcome = RunOutcome("finished", EngineInfo(name="n", version="1"), 0, 1, [], {}, None)
    with HealthWatch([drive("vda")]) as watch:
        pass
    watch.judge(outcome, {})
    assert outcome.details == {}
    assert outcome.flags == []
    assert read_drives({}) == {}


def target(**place: object) -> Target:
    return Target.model_validate({"name": "t", **place})


def test_doctor_reports_the_drives_of_all_targets_and_warns_of_worn_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = HealthReading({"percentage_used": 105}, sources=["log 02h"])
    monkeypatch.setattr(drives, "read_drive", lambda _: reading)
    monkeypatch.setattr(health, "drives_of", lambda _: [drive("nvme0n1"), drive("vda")])
    targets = [target(path="null:"), target(path=str(tmp_path / "file"), size="1MiB")]
    first, second = health_checks(targets, tmp_path)
    assert (first.status, first.what) == ("ok", "nvme0n1: log 02h")
    assert second.status == "warning"
    assert "nvme0n1 has used 105 %" in second.what
    monkeypatch.setattr(health, "drives_of", lambda _: [drive("vda")])
    assert list(health_checks(targets, tmp_path)) == []


def test_doctor_names_once_which_drives_cannot_be_read_and_why() -> None:
    denied = HealthReading(absent={"log 02h": "not permitted"})
    check = log_check(
        {"nvme0n1": denied, "nvme1n1": denied, "sda": HealthReading(sources=["smartctl (ATA)"])}
    )
    assert check.status == "ok"
    assert "nvme0n1, nvme1n1: " in check.what
    assert check.what.count("not permitted") == 1
    assert "sda: smartctl (ATA)" in check.what
