"""NVMe admin commands: pages replayed byte for byte, and the real ioctl on other files."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from conftest import need_program
from storlab.base.errors import MeterError
from storlab.meters import nvme_transport
from storlab.meters.nvme_admin import NvmeAdmin, PowerError, PowerState, SmartPower
from storlab.meters.nvme_transport import (
    IoctlTransport,
    NvmeStatusError,
    controller_of,
    os_failure,
)
from support.nvme_replay import reporting_drive, silent_drive


def test_power_states_are_decoded_with_their_scales() -> None:
    drive = NvmeAdmin("/dev/nvme0", reporting_drive())
    assert drive.power_states() == [
        PowerState(0, 25.0, None, None, False, 5.0, 23.5),
        PowerState(1, 14.0, 100, 200, False, None, None),
        PowerState(2, 6.5, 150, 250, False, None, 6.1234),
        PowerState(3, 0.0049, 2000, 8000, True, 0.0041, None),
    ]
    assert (drive.model, drive.firmware) == ("EXAMPLE POWER SSD", "FW01")


def test_what_a_drive_does_not_report_is_none_and_never_zero() -> None:
    drive = NvmeAdmin("/dev/nvme0", silent_drive())
    assert drive.power_states() == [PowerState(0, None, None, None, False, None, None)]
    assert drive.smart_power() is None
    assert drive.power_error() is None
    assert drive.autonomous() is False


def test_interval_power_and_its_error_figure() -> None:
    drive = NvmeAdmin("/dev/nvme0", reporting_drive())
    assert drive.smart_power() == SmartPower(12.34, 0.01)
    assert drive.power_error() == PowerError(percent=3, estimated=False)


@pytest.mark.parametrize(
    ("field", "watts"),
    [
        ((1 << 16) | 43_210, 4.321),  # scale 0.0001 W
        ((2 << 16) | 0xFFFF, 655.35),
        (1234, None),  # scale 0: not reported
        ((3 << 16) | 1234, None),  # reserved scale
        (2 << 16, None),  # a value of 0 is not a measurement
        ((2 << 16) | (0x3F << 20) | 100, 1.0),  # the type bits are not part of the value
    ],
)
def test_every_scale_of_the_interval_power(field: int, watts: float | None) -> None:
    controller = reporting_drive()
    controller.smart = controller.smart[:240] + field.to_bytes(4, "little") + bytes(268)
    power = NvmeAdmin("/dev/nvme0", controller).smart_power()
    assert (None if power is None else power.watts) == watts


def test_error_figure_that_is_not_reported_and_estimated_power() -> None:
    controller = reporting_drive()
    assert controller.power_log is not None
    log = bytearray(controller.power_log)
    log[56], log[2] = 255, 0b101
    controller.power_log = bytes(log)
    assert NvmeAdmin("/dev/nvme0", controller).power_error() == PowerError(None, True)


def test_a_drive_without_the_power_log_has_no_error_figure() -> None:
    controller = reporting_drive()
    controller.power_log = None
    assert NvmeAdmin("/dev/nvme0", controller).power_error() is None


def test_setting_a_power_state_is_read_back_and_keeps_the_workload_hint() -> None:
    controller = reporting_drive()
    controller.power = 0b010_00000  # hint 2, state 0
    drive = NvmeAdmin("/dev/nvme0", controller)
    assert drive.current() == 0
    drive.set(2)
    assert drive.current() == 2
    assert controller.power == 0b010_00010
    # Set Features, this controller, feature 02h without the save bit.
    assert (0x09, 0, 0x02, 0b010_00010, 0) in controller.sent


def test_a_setting_without_effect_is_an_error() -> None:
    controller = reporting_drive()
    controller.takes_settings = False
    controller.apst = 1
    with pytest.raises(MeterError) as found:
        NvmeAdmin("/dev/nvme0", controller).set(1)
    assert "accepted power state 1, but is in state 0, as before" in found.value.what
    assert "autonomous transitions are on" in found.value.fix


@pytest.mark.parametrize("index", [-1, 4, 31])
def test_a_power_state_that_the_drive_lacks(index: int) -> None:
    controller = reporting_drive()
    with pytest.raises(MeterError) as found:
        NvmeAdmin("/dev/nvme0", controller).set(index)
    assert f"no power state {index}" in found.value.what
    assert "0 (25 W), 1 (14 W), 2 (6.5 W), 3 (0.0049 W, no I/O)" in found.value.fix
    assert all(opcode != 0x09 for opcode, *_ in controller.sent)


def test_the_identify_page_is_read_once() -> None:
    controller = reporting_drive()
    drive = NvmeAdmin("/dev/nvme0", controller)
    drive.power_states()
    drive.power_states()
    assert [sent for sent in controller.sent if sent[0] == 0x06] == [(0x06, 0, 1, 0, 4096)]


def test_a_short_page_is_damage() -> None:
    controller = reporting_drive()
    controller.identify = controller.identify[:100]
    with pytest.raises(MeterError, match="100 of 4096 bytes"):
        NvmeAdmin("/dev/nvme0", controller).power_states()


def test_closing_closes_the_transport() -> None:
    controller = reporting_drive()
    with NvmeAdmin("/dev/nvme0", controller):
        assert not controller.closed
    assert controller.closed


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOENT, "no such device"),
        (errno.EACCES, "may not send"),
        (errno.EPERM, "may not send"),
        (errno.ENOTTY, "not an NVMe controller"),
        (errno.ENODEV, "was removed"),
        (errno.ETIMEDOUT, "did not answer in time"),
        (errno.ENOMEM, "ENOMEM"),
    ],
)
def test_errors_of_the_kernel(number: int, words: str) -> None:
    error = os_failure("/dev/nvme0", OSError(number, os.strerror(number)))
    assert words in str(error)
    assert error.fix


@pytest.mark.parametrize(
    ("status", "words", "unsupported"),
    [
        (0x0002, "invalid field", True),
        (0x4109, "no such log page", True),  # with the do-not-retry bit
        (0x010E, "cannot be changed", False),
        (0x0006, "internal error", False),
        (0x0777, "status 7h/77h", False),
    ],
)
def test_status_codes_of_the_controller(status: int, words: str, unsupported: bool) -> None:
    error = NvmeStatusError("/dev/nvme0", status)
    assert words in error.what
    assert error.unsupported is unsupported


def test_what_is_no_nvme_is_refused_by_the_real_ioctl(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    for path in (file, Path("/dev/null")):
        transport = IoctlTransport(path)
        with pytest.raises(MeterError, match="not an NVMe controller"):
            NvmeAdmin(str(path), transport).power_states()
        transport.close()
        transport.close()
    with pytest.raises(MeterError, match="no such device"):
        IoctlTransport(tmp_path / "absent")
    with pytest.raises(MeterError, match="is not an NVMe device"):
        NvmeAdmin.open(file)
    with pytest.raises(MeterError, match="no such device"):
        NvmeAdmin.open(tmp_path / "absent")


def test_the_command_is_the_structure_of_the_kernel_header(tmp_path: Path) -> None:
    compiler = need_program("cc")
    source = tmp_path / "layout.c"
    fields = ["opcode", "nsid", "addr", "data_len", "cdw10", "cdw11", "timeout_ms", "result"]
    prints = "".join(
        f'printf("%zu ", offsetof(struct nvme_passthru_cmd, {field}));' for field in fields
    )
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <sys/ioctl.h>\n"
        "#include <linux/nvme_ioctl.h>\n"
        f'int main(void) {{ {prints} printf("%lu %zu", (unsigned long)NVME_IOCTL_ADMIN_CMD,'
        " sizeof(struct nvme_passthru_cmd)); return 0; }\n"
    )
    program = tmp_path / "layout"
    subprocess.run([compiler, source, "-o", program], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    *offsets, number, size = [int(word) for word in printed.split()]
    assert number == nvme_transport.IOCTL_ADMIN_COMMAND
    assert size == nvme_transport._COMMAND.size
    assert offsets[-1] == nvme_transport._RESULT_OFFSET
    given = (0x06, 0, 0, 0x11, 0, 0, 0, 0x22, 0, 0x33, 0x44, 0x55, 0, 0, 0, 0, 0x66, 0x77)
    command = nvme_transport._COMMAND.pack(*given)
    values = [0x06, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]
    assert [command[at] for at in offsets] == values


def _node(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_the_controller_behind_names_links_and_partitions(tmp_path: Path) -> None:
    dev = tmp_path / "dev"
    for name in ("nvme3", "nvme1", "nvme1n1", "nvme1n1p2", "ng1n1", "nvme7n1", "sda"):
        _node(dev / name)
    sys_root = tmp_path / "sys"
    # nvme1n1 is namespace 1 of subsystem 1, whose controller is nvme3.
    subsystem = sys_root / "devices" / "virtual" / "nvme-subsystem" / "nvme-subsys1"
    (subsystem / "nvme1n1" / "nvme1n1p2").mkdir(parents=True)
    (subsystem / "ng1n1").mkdir()
    (subsystem / "nvme10").mkdir()
    (subsystem / "nvme3").mkdir()
    for kind, name, below in (
        ("block", "nvme1n1", "nvme1n1"),
        ("block", "nvme1n1p2", "nvme1n1/nvme1n1p2"),
        ("nvme-generic", "ng1n1", "ng1n1"),
    ):
        link = sys_root / "class" / kind / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(subsystem / below)
    by_id = dev / "disk" / "by-id" / "nvme-EXAMPLE_S12345678"
    by_id.parent.mkdir(parents=True)
    by_id.symlink_to(dev / "nvme1n1")
    for path in (by_id, dev / "nvme1n1p2", dev / "ng1n1", dev / "nvme3"):
        assert controller_of(path, sys_root) == dev / "nvme3"
    assert controller_of(dev / "nvme7n1", sys_root) == dev / "nvme7"  # no answer from sysfs
    with pytest.raises(MeterError, match="is not an NVMe device"):
        controller_of(dev / "sda", sys_root)


def test_a_namespace_below_its_own_controller(tmp_path: Path) -> None:
    node = _node(tmp_path / "dev" / "nvme0n1")
    real = tmp_path / "sys" / "devices" / "pci0000:00" / "nvme" / "nvme4" / "nvme0n1"
    real.mkdir(parents=True)
    link = tmp_path / "sys" / "class" / "block" / "nvme0n1"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    assert controller_of(node, tmp_path / "sys") == node.with_name("nvme4")
