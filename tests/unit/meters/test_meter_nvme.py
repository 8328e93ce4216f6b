"""The nvme meter on replayed controllers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError, StudyError
from storlab.meters import nvme
from storlab.meters.nvme import NvmeMeter, NvmeOptions, discover, open_meter
from storlab.meters.nvme_admin import NvmeAdmin
from storlab.model.study import MeterSpec, Target
from support.nvme_replay import Controller, reporting_drive, silent_drive


def _meter(*controllers: Controller) -> NvmeMeter:
    drives = [NvmeAdmin(f"/dev/nvme{i}", controller) for i, controller in enumerate(controllers)]
    return NvmeMeter(drives, NvmeOptions(kind="nvme"))


def test_a_drive_says_what_it_measures_and_what_it_may_draw_at_most() -> None:
    (info,) = _meter(reporting_drive()).describe()
    assert (info.sensor, info.kind, info.boundary, info.supply) == (
        "nvme:nvme0",
        "nvme",
        "device",
        "dc",
    )
    assert (info.sampling, info.unit, info.sensor_interval_ns) == ("interval_mean", "W", 10**9)
    assert (info.gain_accuracy, info.quantum, info.provenance) == (0.03, 0.01, "measured")
    assert "at most 25 W in power state 0, 14 W in power state 1" in info.description
    assert "power state 3" not in info.description  # non-operational state


def test_power_that_the_drive_estimates_is_not_called_measured() -> None:
    controller = reporting_drive()
    assert controller.power_log is not None
    controller.power_log = controller.power_log[:2] + b"\x05\x00" + controller.power_log[4:]
    (info,) = _meter(controller).describe()
    assert info.provenance == "modelled"
    assert "estimated by the drive" in info.description


def test_readings_follow_the_drive_on_the_clock_of_the_run() -> None:
    controller = reporting_drive()
    meter = _meter(controller)
    before = monotonic_ns()
    (first,) = meter.sample()
    controller.smart = controller.smart[:240] + bytes([100, 0, 2, 0]) + bytes(268)
    (second,) = meter.sample()
    assert before <= first.time_ns < second.time_ns <= monotonic_ns()
    assert (first.value, second.value) == (12.34, 1.0)


def test_several_drives_are_parts_of_one_whole() -> None:
    meter = _meter(reporting_drive(), reporting_drive())
    assert [info.whole for info in meter.describe()] == ["drives", "drives"]
    assert [reading.sensor for reading in meter.sample()] == ["nvme:nvme0", "nvme:nvme1"]


def test_a_drive_without_power_says_what_is_missing_and_what_else_there_is() -> None:
    with pytest.raises(MeterError) as found:
        _meter(silent_drive())
    assert "EXAMPLE SILENT SSD (firmware 1.0) reports no power" in found.value.what
    assert "quarch" in found.value.fix


def test_a_drive_that_goes_in_mid_run() -> None:
    controller = reporting_drive()
    meter = _meter(controller)
    meter.sample()
    controller.fails = OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    with pytest.raises(MeterError, match="the controller was removed"):
        meter.sample()
    meter.close()
    assert controller.closed


def test_a_drive_that_ceases_to_measure() -> None:
    controller = reporting_drive()
    meter = _meter(controller)
    controller.smart = bytes(512)
    with pytest.raises(MeterError, match="no longer reports"):
        meter.sample()


def _target(**more: object) -> Target:
    return Target.model_validate({"name": "ssd", "size": "1GiB", **more})


def test_a_target_that_is_no_drive_has_to_name_one(tmp_path: Path) -> None:
    for place in ({"path": str(tmp_path / "file")}, {"directory": str(tmp_path)}):
        with pytest.raises(StudyError) as found:
            open_meter(MeterSpec(kind="nvme"), _target(**place))
        assert "device" in found.value.where
        assert "by-id" in found.value.fix


def test_a_misspelled_field_is_named() -> None:
    spec = MeterSpec.model_validate({"kind": "nvme", "devise": "/dev/nvme0"})
    with pytest.raises(StudyError) as found:
        open_meter(spec, _target(path="null:"))
    assert "device" in found.value.fix


def test_drives_that_were_opened_are_closed_when_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers = {"nvme0": reporting_drive(), "nvme1": silent_drive()}
    for name in controllers:
        (tmp_path / name).touch()

    def opened(path: Path) -> NvmeAdmin:
        return NvmeAdmin(str(path), controllers[path.name])

    monkeypatch.setattr(nvme.NvmeAdmin, "open", opened)
    spec = MeterSpec.model_validate(
        {"kind": "nvme", "device": [str(tmp_path / name) for name in controllers]}
    )
    with pytest.raises(MeterError, match="SILENT"):
        open_meter(spec, _target(path="null:"))
    assert all(controller.closed for controller in controllers.values())
    found = discover(tmp_path)
    assert [(sensor.sensor, sensor.available) for sensor in found] == [
        ("nvme0", True),
        ("nvme1", False),
    ]
    assert found[0].accuracy == "3 %"
    assert "reports no power" in found[1].how


def test_a_machine_without_nvme(tmp_path: Path) -> None:
    (found,) = discover(tmp_path)
    assert not found.available
    assert "no NVMe controller" in found.how


def test_a_node_that_is_no_controller_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "nvme0").touch()
    (found,) = discover(tmp_path)
    assert not found.available
    assert "not an NVMe controller" in found.how
